// Package faults injects faults into the collector and its environment, and checks that the
// collector survives. Each test runs the built binary as a process that uses only loopback
// addresses. The exporter, the backend, the API server, and the kubelet fail on command. Each test
// compares every received window with the data that the exporter served.
//
// If OTELCOL_GPU_BIN (the directory of the built commands) is not set, the tests are skipped. Tests
// with an API server also need OTELCOL_GPU_CONTROLPLANE. Tests that change the file system that a
// process sees need user namespaces. The test that sets a process's clock needs permission to trace
// that process. `make faults` runs the long form of the tests (OTELCOL_GPU_FAULTS_LONG), and `make
// soak` runs the soak test (OTELCOL_GPU_SOAK). With the -update flag, the results are written to
// RESULTS.md.
package faults
