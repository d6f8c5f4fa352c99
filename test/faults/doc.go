// Package faults injects faults around and into the collector and checks that it survives. Each
// test runs the built binary as a process on loopback, with an exporter, a backend, an API server
// or a kubelet that misbehaves on command, and compares every received window with what the
// exporter served.
//
// The tests need OTELCOL_GPU_BIN, the directory of the built commands, and are skipped without it.
// Tests with an API server also need OTELCOL_GPU_CONTROLPLANE, tests that change a process' file
// system need user namespaces, and the test that sets a process' clock needs permission to trace
// it. `make faults` runs the long form (OTELCOL_GPU_FAULTS_LONG), `make soak` the soak test
// (OTELCOL_GPU_SOAK). With -update the results are written to RESULTS.md.
package faults
