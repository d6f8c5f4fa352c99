//go:build !linux || otelcol_gpu_no_nvml

package load

import (
	"context"
	"errors"
)

// Library is empty, because this build cannot load libcuda.
const Library = ""

// Run returns an error, because this build cannot load libcuda.
func Run(context.Context, string) error {
	return errors.New("this program was built without NVML and CUDA")
}
