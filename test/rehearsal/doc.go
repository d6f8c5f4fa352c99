// Package rehearsal tests the watchdog end to end. The built collector runs as a process with only
// the permissions that the README of the gpu_watchdog exporter lists. The collector scrapes a
// simulated exporter for a GPU whose memory one tenant fills at 1 GiB/s, and evicts pods through a
// real API server.
//
// The tests need the built command (OTELCOL_GPU_BIN) and a control plane (see
// test/support/controlplane). If the command or the control plane is not available, the tests are
// skipped.
package rehearsal
