// Package nvml calls NVIDIA's management library, libnvidia-ml.so.1, which it
// opens at run time: nothing of it is needed to build or to start. A symbol that
// an older driver's library lacks costs the values that come through it and
// nothing else.
//
// The driver stays busy while the library is initialised: until a Library is closed, the
// driver cannot be unloaded. A file is tried in a child process before it is loaded here.
//
// The types are there in every build. The binding is left out where it cannot
// be: on other systems than Linux, and with the build tag otelcol_gpu_no_nvml,
// for a static binary; calling C takes a dynamically linked libc.
package nvml
