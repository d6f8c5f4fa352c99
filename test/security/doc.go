// Package security checks the statements in docs/security.md. It checks where the built collector
// listens, and that its listeners and clients use TLS and authentication. No secret may appear in
// logs, pages, the printed configuration, or telemetry. The tables of permissions and fuzz targets
// (README.md) must match the repository.
//
// The tests that start a process need OTELCOL_GPU_BIN, the directory of the built commands, and are
// skipped without it. The tests that list its sockets also need user namespaces.
package security
