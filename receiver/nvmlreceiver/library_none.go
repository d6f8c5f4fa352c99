//go:build !linux || otelcol_gpu_no_nvml

package nvmlreceiver

// openLibrary is nil if the build has no binding.
var openLibrary func(path string) (library, error)
