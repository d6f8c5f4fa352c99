package budgetstage_test

import (
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/budgetstage"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor"
)

// Only an external test package can import gpu_synthesizer and gpu_k8s, because both import this
// package.
func init() {
	budgetstage.NewSynthesizerFactory = gpusynthesizerprocessor.NewFactory
	budgetstage.NewK8sFactory = gpuk8sprocessor.NewFactory
}
