package gpusynthesizerprocessor

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/processor"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/stages"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor/internal/metadata"
)

// NewFactory returns the factory for the gpu_synthesizer processor.
func NewFactory() processor.Factory {
	return processor.NewFactory(metadata.Type, createDefaultConfig, processor.WithMetrics(createMetrics, metadata.MetricsStability))
}

func createMetrics(_ context.Context, set processor.Settings, cfg component.Config, next consumer.Metrics) (processor.Metrics, error) {
	c := cfg.(*Config)
	p, err := newProcessor(c, set)
	if err != nil {
		return nil, err
	}
	alone, err := pdatagpu.NewProcessor(set, p.scope, next,
		pdatagpu.Functions{Start: p.start, Shutdown: p.shutdown, TakesRows: c.Raw != rawKeep, Process: p.process})
	if err != nil || !c.Stages.HasValue() {
		return alone, err
	}
	list := pdatagpu.NewStages(next)
	list.Append(metadata.Type.String(), alone)
	owner := stages.Owner{ID: set.ID, Telemetry: set.TelemetrySettings, BuildInfo: set.BuildInfo}
	return list, stages.Append(list, c.Stages.Get(), owner, nil, next)
}
