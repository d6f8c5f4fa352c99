//go:build !linux || otelcol_gpu_no_nvml

package load

import (
	"context"
	"errors"
)

// Library is libcuda's name.
const Library = ""

// Run says that this program cannot.
func Run(context.Context, string) error {
	return errors.New("this program was built without NVML and CUDA")
}
