package gpuk8sprocessor_test

import (
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor"
)

// Only an external test package can import gpu_synthesizer, because gpu_synthesizer imports this
// package.
func init() { gpuk8sprocessor.NewSynthesizerFactory = gpusynthesizerprocessor.NewFactory }
