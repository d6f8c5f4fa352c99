// Package nvml calls NVIDIA's management library, libnvidia-ml.so.1, which it
// opens at run time: nothing of it is needed to build or to start. A symbol that
// an older driver's library lacks costs the values that come through it and
// nothing else.
//
// The driver stays busy while the library is initialised. So a Library is opened
// for one collection and closed after it; between collections nothing is held
// that could block a driver's upgrade.
//
// The types are there in every build. The binding is left out where it cannot
// be: on other systems than Linux, and with the build tag otelcol_gpu_no_nvml,
// for a static binary; calling C takes a dynamically linked libc.
package nvml
