package gpuusageprocessor

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/processor"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuusageprocessor/internal/metadata"
)

// NewFactory returns the factory of the gpu_usage processor.
func NewFactory() processor.Factory {
	return processor.NewFactory(
		metadata.Type,
		createDefaultConfig,
		processor.WithMetrics(createMetrics, metadata.MetricsStability),
	)
}

func createMetrics(
	_ context.Context,
	set processor.Settings,
	cfg component.Config,
	next consumer.Metrics,
) (processor.Metrics, error) {
	p, err := newProcessor(cfg.(*Config), set)
	if err != nil {
		return nil, err
	}
	return pdatagpu.NewProcessor(set, p.scope, next, pdatagpu.Functions{
		Start: p.start, Shutdown: p.shutdown, Takes: pdatagpu.TakesFrames, Process: p.process,
	})
}
