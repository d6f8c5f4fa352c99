// Package oracle defines every windowed signal in PromQL. Its tests send the same raw samples
// through the receiver, the synthesizer, and the windows, and through Prometheus' own storage and
// query engine. The results must be equal.
//
// [Definitions] is the table of the signals. Its queries read DCGM's metrics, with one series per
// device. Exporters expose several rows per device if pods share it, if it is a MIG board, or if a
// label contains a value. The recording rules of [Folding] combine these rows into one device.
// [Derived] contains the recording rules on which some queries are based.
//
// No component imports this package.
package oracle
