// Package faults breaks what is around the collector, and the collector itself, and
// checks that it survives: every test here runs the built binary as a process on
// loopback, against an exporter, a backend, an API server or a kubelet that misbehaves
// on command, and compares every window that arrives with what the exporter served.
//
// Tests need OTELCOL_GPU_BIN, the directory of the built commands, and skip without
// it; those with an API server also need OTELCOL_GPU_CONTROLPLANE, and those that
// change what a process sees of the file system need user namespaces, and the one that
// sets a process' clock that it may be traced. `make faults` runs the long form
// (OTELCOL_GPU_FAULTS_LONG), `make soak` the soak (OTELCOL_GPU_SOAK). With -update the
// results are written to docs/reliability.md.
package faults
