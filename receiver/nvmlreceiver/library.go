//go:build linux && !otelcol_gpu_no_nvml

package nvmlreceiver

import "github.com/otelcol-gpu/otelcol-gpu/receiver/nvmlreceiver/internal/nvml"

// openLibrary loads and initializes the NVML library.
var openLibrary = func(path string) (library, error) { return nvml.Open(path) }
