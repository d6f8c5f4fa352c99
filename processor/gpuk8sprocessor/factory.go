package gpuk8sprocessor

import (
	"go.opentelemetry.io/collector/processor"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/metadata"
)

// NewFactory returns the factory of the gpu_k8s processor.
func NewFactory() processor.Factory {
	return pdatagpu.NewFactory(metadata.Type, createDefaultConfig, metadata.MetricsStability, newProcessor,
		func(p *gpuK8s) (gpudata.Scope, pdatagpu.Functions) {
			return p.attribution.Scope, pdatagpu.Functions{Start: p.start, Shutdown: p.shutdown, Process: p.process}
		})
}
