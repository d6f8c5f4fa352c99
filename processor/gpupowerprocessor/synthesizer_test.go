package gpupowerprocessor_test

import (
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpupowerprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor"
)

// gpu_synthesizer imports this package for its stages, so only an external test can import it.
func init() { gpupowerprocessor.NewSynthesizerFactory = gpusynthesizerprocessor.NewFactory }
