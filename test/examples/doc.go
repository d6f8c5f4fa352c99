// Package examples runs the files in examples/ as a user would, with the built collector. The tests
// use a simulated exporter and a backend that checks the received data. For examples that write to
// Prometheus, the backend is a real Prometheus server. `make check` builds the required programs
// and runs the tests. If OTELCOL_GPU_BIN (the directory of the built commands) is not set, only
// checks that need no binary run. If OTELCOL_GPU_PROMETHEUS (a prometheus binary) is not set, the
// tests that need Prometheus are skipped.
package examples
