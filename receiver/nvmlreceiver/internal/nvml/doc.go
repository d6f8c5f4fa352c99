// Package nvml calls NVIDIA's management library, libnvidia-ml.so.1. The package loads the library
// at run time, so neither building nor starting the program requires the library. If the library of
// an older driver lacks a symbol, only the values that need the symbol are missing.
//
// While the library is initialized, the driver is in use and cannot be unloaded. Closing the
// Library ends the use of the driver. Before the package loads a new or changed library file into
// this process, it tries the file in a child process.
//
// Every build contains the types of this package. The NVML binding is missing in builds for systems
// other than Linux, and in builds with the otelcol_gpu_no_nvml tag. The tag is intended for static
// binaries, which cannot contain the binding, because calls to C functions require a dynamically
// linked libc.
package nvml
