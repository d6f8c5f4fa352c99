package gpuk8sprocessor

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/processor"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/metadata"
)

// NewFactory returns the factory of the gpu_k8s processor.
func NewFactory() processor.Factory {
	return processor.NewFactory(metadata.Type, createDefaultConfig, processor.WithMetrics(createMetrics, metadata.MetricsStability))
}

func createMetrics(_ context.Context, set processor.Settings, config component.Config, next consumer.Metrics) (processor.Metrics, error) {
	cfg := config.(*Config)
	p, err := newProcessor(cfg, set)
	if err != nil {
		return nil, err
	}
	sections, err := newSections(cfg, set)
	if err != nil {
		return nil, err
	}
	holders := pdatagpu.Functions{Start: p.start, Shutdown: p.shutdown, Process: p.process}
	return pdatagpu.NewProcessor(set, p.attribution.Scope, next, pdatagpu.Chain(append([]pdatagpu.Functions{holders}, sections...)...))
}
