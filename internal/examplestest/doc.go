// Package examplestest runs the files under examples/ as a user would: with the
// built collector, against a simulated exporter and a backend that looks at what
// arrives. `make examples` builds what it needs and runs it; without
// OTELCOL_GPU_BIN only the checks that need no binary run.
package examplestest
