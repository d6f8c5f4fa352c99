// Package nvml calls NVIDIA's management library, libnvidia-ml.so.1. It loads the library at run
// time, so the library is needed neither for builds nor at startup. If an older driver's library
// lacks a symbol, only the values that need the symbol are missing.
//
// While the library is initialized, the driver is in use and cannot be unloaded until the Library
// is closed. A library file is tried in a child process before it is loaded into this process.
//
// Every build contains the types. The binding is missing in builds for systems other than Linux,
// and in builds with the tag otelcol_gpu_no_nvml. That tag is for static binaries, because calling
// C requires a dynamically linked libc.
package nvml
