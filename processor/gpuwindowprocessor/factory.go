package gpuwindowprocessor

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/processor"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor/internal/metadata"
)

// NewFactory returns the factory for the gpu_window processor.
func NewFactory() processor.Factory {
	return processor.NewFactory(
		metadata.Type,
		createDefaultConfig,
		processor.WithMetrics(createMetrics, metadata.MetricsStability),
	)
}

func createMetrics(
	_ context.Context, set processor.Settings, cfg component.Config, next consumer.Metrics,
) (processor.Metrics, error) {
	p, err := newWindowProcessor(set, cfg.(*Config), next)
	if err != nil {
		return nil, err
	}
	scope := gpudata.NewScope(metadata.ScopeName, set.BuildInfo.Version)
	return pdatagpu.NewProcessor(set, scope, next, pdatagpu.Functions{
		Start: p.start, Shutdown: p.shutdown, Process: p.process,
	})
}
