package gpuusageprocessor

import (
	"go.opentelemetry.io/collector/processor"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuusageprocessor/internal/metadata"
)

// NewFactory returns the factory of the gpu_usage processor.
func NewFactory() processor.Factory {
	return pdatagpu.NewFactory(metadata.Type, createDefaultConfig, metadata.MetricsStability, newProcessor,
		func(p *gpuUsage) (gpudata.Scope, pdatagpu.Functions) {
			return p.scope, pdatagpu.Functions{Start: p.start, Shutdown: p.shutdown, Process: p.process}
		})
}
