// Package oracle says in PromQL what every windowed signal is, and its tests
// hold the pipeline to it: the same raw samples go through the receiver, the
// synthesizer and the windows on one side and into Prometheus' own storage and
// query engine on the other, and the results must be equal.
//
// [Definitions] is the table of the signals. Its queries read DCGM's metrics,
// one series per device. Exporters expose several rows per device when pods
// share it, when it is a MIG board and when a label holds a value; [Folding]
// says, as recording rules, how those rows are one device. [Derived] holds the
// recording rules that some queries build on.
//
// No component imports this package.
package oracle
