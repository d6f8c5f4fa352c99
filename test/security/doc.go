// Package security verifies the statements in docs/security.md. The package checks which addresses
// the built collector listens on, and that the collector's listeners and clients use TLS and
// authentication. No secret may appear in logs, pages, the printed configuration, or telemetry. The
// tables of permissions and of fuzz targets (in README.md) must match the repository.
//
// If OTELCOL_GPU_BIN (the directory of the built commands) is not set, tests that start a process
// are skipped. Tests that list the sockets of a process also need user namespaces.
package security
