package gpubudgetprocessor_test

import (
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpubudgetprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor"
)

// gpu_synthesizer imports this package for its stages, so only an external test can import it.
func init() { gpubudgetprocessor.NewSynthesizerFactory = gpusynthesizerprocessor.NewFactory }
