package gpuk8sprocessor

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/processor"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/misplaced"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/metadata"
)

// NewFactory returns the factory for the gpu_k8s processor.
func NewFactory() processor.Factory {
	return processor.NewFactory(metadata.Type, createDefaultConfig, processor.WithMetrics(createMetrics, metadata.MetricsStability))
}

func createMetrics(_ context.Context, set processor.Settings, config component.Config, next consumer.Metrics) (processor.Metrics, error) {
	p, holders, accounts, err := newParts(config.(*Config), set)
	if err != nil {
		return nil, err
	}
	f := pdatagpu.Sections(append(holders, accounts...)...)
	process, order := f.Process, misplaced.New("gpu_k8s", set.Logger)
	f.Process = func(ctx context.Context, a *pdatagpu.Arrival) ([]*gpudata.Frame, error) {
		order.Batch(a.Metrics)
		return process(ctx, a)
	}
	return pdatagpu.NewProcessor(set, p.attribution.Scope, next, f)
}

// NewStages returns gpu_k8s as two processors, called stages. The first stage is named holders,
// adds the holders of devices, and runs the power section. The second stage is named accounts, and
// runs the budget and usage sections. If neither the budget section nor the usage section is
// configured, the returned accounts stage is nil. gpu_findings runs between the two stages, because
// gpu_findings reads holders and power, and the second stage uses the results of gpu_findings.
func NewStages(set processor.Settings, cfg *Config, next consumer.Metrics) (holders, accounts *pdatagpu.Processor, err error) {
	p, first, last, err := newParts(cfg, set)
	if err != nil {
		return nil, nil, err
	}
	if holders, err = pdatagpu.NewProcessor(set, p.attribution.Scope, next, pdatagpu.Sections(first...)); err != nil || len(last) == 0 {
		return holders, nil, err
	}
	accounts, err = pdatagpu.NewProcessor(set, p.attribution.Scope, next, pdatagpu.Sections(last...))
	return holders, accounts, err
}

// newParts returns the processor and, for each of the two stages, the sections in the order in
// which they run.
func newParts(cfg *Config, set processor.Settings) (p *gpuK8s, holders, accounts []pdatagpu.Section, err error) {
	if p, err = newProcessor(cfg, set); err != nil {
		return nil, nil, nil, err
	}
	power, accounts, err := p.newSections(set)
	holders = append([]pdatagpu.Section{p.section()}, power...)
	return p, holders, accounts, err
}
