// Package security checks the statements in docs/security.md: where the built collector listens,
// that its listeners and clients use TLS and authentication, that no secret appears in logs, pages,
// the printed configuration, or telemetry, and that the tables of permissions and fuzz targets
// (README.md) match the repository.
//
// The tests that start a process need OTELCOL_GPU_BIN, the directory of the built commands, and are
// skipped without it. The tests that list its sockets also need user namespaces.
package security
