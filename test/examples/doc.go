// Package examples runs the files under examples/ as a user would: with the
// built collector, against a simulated exporter and a backend that looks at what
// arrives, which for those that write to Prometheus is a real one. `make check`
// builds what it needs and runs it; without OTELCOL_GPU_BIN, the directory of the
// built commands, only the checks that need no binary run, and without
// OTELCOL_GPU_PROMETHEUS, a prometheus binary, those with Prometheus are left out.
package examples
