// Package examples runs the files in examples/ as a user would: with the built collector, a
// simulated exporter, and a backend that checks the received data. For examples that write to
// Prometheus, the backend is a real Prometheus. `make check` builds what the package needs and runs
// it. Without OTELCOL_GPU_BIN, the directory of the built commands, only the checks that need no
// binary run. Without OTELCOL_GPU_PROMETHEUS, a prometheus binary, the tests with Prometheus are
// skipped.
package examples
