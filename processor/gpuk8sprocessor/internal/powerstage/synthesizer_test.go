package powerstage_test

import (
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/powerstage"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor"
)

// gpu_synthesizer imports this package for its stages, so only an external test can import it.
func init() { powerstage.NewSynthesizerFactory = gpusynthesizerprocessor.NewFactory }
