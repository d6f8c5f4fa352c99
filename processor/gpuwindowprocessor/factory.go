package gpuwindowprocessor

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/processor"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/misplaced"
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
	order := misplaced.New("gpu_window", set.Logger)
	return newProcessor(set, p, func(ctx context.Context, a *pdatagpu.Arrival) ([]*gpudata.Frame, error) {
		order.Batch(a.Metrics)
		return p.process(ctx, a)
	})
}

// NewStage returns gpu_window as a stage. The stage does not check its position, because stages
// always run in the correct order.
func NewStage(set processor.Settings, cfg *Config, next consumer.Metrics) (*pdatagpu.Processor, error) {
	p, err := newWindowProcessor(set, cfg, next)
	if err != nil {
		return nil, err
	}
	return newProcessor(set, p, p.process)
}

func newProcessor(
	set processor.Settings, p *windowProcessor, process func(context.Context, *pdatagpu.Arrival) ([]*gpudata.Frame, error),
) (*pdatagpu.Processor, error) {
	scope := gpudata.NewScope(metadata.ScopeName, set.BuildInfo.Version)
	return pdatagpu.NewProcessor(set, scope, p.next, pdatagpu.Functions{Start: p.start, Shutdown: p.shutdown, Process: process})
}
