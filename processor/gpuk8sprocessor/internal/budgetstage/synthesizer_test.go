package budgetstage_test

import (
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/budgetstage"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor"
)

// gpu_synthesizer and gpu_k8s import this package, so only an external test can import them.
func init() {
	budgetstage.NewSynthesizerFactory = gpusynthesizerprocessor.NewFactory
	budgetstage.NewK8sFactory = gpuk8sprocessor.NewFactory
}
