// Package security checks what docs/security.md says: where the built collector
// listens, that TLS and authentication hold on its listeners and clients, that no
// secret leaves it by log, page, printed configuration or telemetry, and that the
// tables of permissions and of fuzz targets (README.md) are those of the repository.
//
// Tests of the process need OTELCOL_GPU_BIN, the directory of the built commands, and
// skip without it; those that list its sockets also need user namespaces.
package security
