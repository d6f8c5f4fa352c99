//go:build !linux || otelcol_gpu_no_nvml

package nvmlreceiver

// openLibrary is nil because this build does not contain the NVML binding.
var openLibrary func(path string) (library, error)
