package gpusynthesizerprocessor

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/processor"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/stages"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor/internal/metadata"
)

// NewFactory returns the factory of the gpu_synthesizer processor.
func NewFactory() processor.Factory {
	return processor.NewFactory(metadata.Type, createDefaultConfig, processor.WithMetrics(createMetrics, metadata.MetricsStability))
}

// alone is the factory of the processor without stages.
var alone = pdatagpu.NewFactory(metadata.Type, createDefaultConfig, metadata.MetricsStability, newProcessor,
	func(p *gpuSynthesizer) (gpudata.Scope, pdatagpu.Functions) {
		return p.scope, pdatagpu.Functions{Start: p.start, Shutdown: p.shutdown, Takes: p.takes, Process: p.process, Release: p.release}
	})

func createMetrics(ctx context.Context, set processor.Settings, cfg component.Config, next consumer.Metrics) (processor.Metrics, error) {
	section := cfg.(*Config).Stages
	if !section.HasValue() {
		return alone.CreateMetrics(ctx, set, cfg, next)
	}
	b := stages.NewBuilder(&stages.Owner{ID: set.ID, Telemetry: set.TelemetrySettings, BuildInfo: set.BuildInfo}, next)
	err := b.Add(ctx, alone, cfg)
	if err == nil {
		err = b.AddHolders(ctx, section.Get())
	}
	if err == nil {
		err = b.AddWindows(ctx, section.Get())
	}
	if err != nil {
		return nil, err
	}
	return b.Stages(), nil
}
