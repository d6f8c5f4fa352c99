// Package rehearsal tests the watchdog end to end. The built collector runs as a process with the
// permissions that the README of the gpu_watchdog exporter lists. It reads an exporter whose GPU
// memory one tenant fills at 1 GiB/s, and evicts pods through a real API server.
//
// The package needs the built command (OTELCOL_GPU_BIN) and a control plane (see
// test/support/controlplane), and is skipped otherwise.
package rehearsal
