// Package faults injects faults into the collector and its environment and checks that it survives.
// Each test runs the built binary as a process on loopback, with an exporter, a backend, an API
// server, or a kubelet that fails on command. It compares every received window with what the
// exporter served.
//
// The tests need OTELCOL_GPU_BIN, the directory of the built commands, and are skipped without it.
// Tests with an API server also need OTELCOL_GPU_CONTROLPLANE. Tests that change a process's file
// system need user namespaces. The test that sets a process's clock needs permission to trace it.
// `make faults` runs the long form (OTELCOL_GPU_FAULTS_LONG), and `make soak` runs the soak test
// (OTELCOL_GPU_SOAK). With -update the results are written to RESULTS.md.
package faults
