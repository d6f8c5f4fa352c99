//go:build !linux || otelcol_gpu_no_nvml

package load

import (
	"context"
	"errors"
)

// Library is the file name of libcuda.
const Library = ""

// Run returns an error, because this build does not support it.
func Run(context.Context, string) error {
	return errors.New("this program was built without NVML and CUDA")
}
