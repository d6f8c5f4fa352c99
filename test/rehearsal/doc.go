// Package rehearsal rehearses what the watchdog is for: the built collector, as a
// process under the permissions that the README of the gpu_watchdog exporter lists, reads
// an exporter whose GPU one tenant fills at 1 GiB/s, and acts on a real API server.
//
// It needs the built command (OTELCOL_GPU_BIN) and a control plane (see
// test/support/controlplane), and is skipped otherwise.
package rehearsal
