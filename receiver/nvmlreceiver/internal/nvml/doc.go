// Package nvml calls NVIDIA's management library, libnvidia-ml.so.1. It loads the library at
// run time, so the library is not needed to build or to start. If an older driver's library
// lacks a symbol, only the values that need it are missing.
//
// While the library is initialized, the driver is in use and cannot be unloaded until the
// Library is closed. A library file is tried in a child process before it is loaded into this
// process.
//
// Every build has the types. The binding is missing in builds for systems other than Linux, and
// in builds with the tag otelcol_gpu_no_nvml, which is meant for static binaries: calling C
// requires a dynamically linked libc.
package nvml
