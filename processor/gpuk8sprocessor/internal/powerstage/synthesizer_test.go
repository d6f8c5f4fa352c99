package powerstage_test

import (
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/powerstage"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor"
)

// Only an external test package can import gpu_synthesizer, because gpu_synthesizer imports this
// package.
func init() { powerstage.NewSynthesizerFactory = gpusynthesizerprocessor.NewFactory }
