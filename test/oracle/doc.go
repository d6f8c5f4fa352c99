// Package oracle defines every windowed signal in PromQL. Its tests send the same raw samples
// through the receiver, the synthesizer and the windows on one side and through Prometheus' own
// storage and query engine on the other side. The results must be equal.
//
// [Definitions] is the table of the signals. Its queries read DCGM's metrics, with one series per
// device. Exporters expose several rows per device if pods share it, if it is a MIG board, or if a
// label contains a value; the recording rules of [Folding] combine these rows into one device.
// [Derived] contains the recording rules on which some queries are built.
//
// No component imports this package.
package oracle
