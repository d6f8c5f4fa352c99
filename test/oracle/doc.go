// Package oracle defines every windowed signal in PromQL. The package's tests send the same raw
// samples through the dcgm receiver, gpu_synthesizer, and gpu_window, and through Prometheus' own
// storage and query engine. The results must be equal.
//
// [Definitions] returns the definitions of the signals. The queries in the definitions read DCGM's
// metrics and expect one series per device. However, exporters expose several rows per device if
// pods share the device, if the device is a MIG board, or if a label contains a value. The
// recording rules from [Folding] combine these rows into one series per device. [Derived] returns
// the recording rules that some of the queries depend on.
//
// No component imports this package.
package oracle
