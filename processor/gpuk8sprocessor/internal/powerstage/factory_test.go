package powerstage

import (
	"context"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/processor"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/processlists"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/section"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/sectiontest"
)

// NewFactory returns a factory for a processor that runs only this section.
func NewFactory() processor.Factory {
	return sectiontest.NewFactory(metadata.Type, createDefaultConfig, metadata.MetricsStability, newProcessor,
		func(p *gpuPower) (gpudata.Scope, pdatagpu.Functions) {
			return p.scope, functionsOf(p)
		})
}

func createDefaultConfig() component.Config {
	cfg := NewDefaultConfig()
	cfg.Shared = &section.Shared{Kubernetes: kube.NewDefaultConfig()}
	return &cfg
}

// factoryOf returns a factory for a processor that runs only the given section.
func factoryOf(p *gpuPower) processor.Factory {
	return sectiontest.NewFactory(metadata.Type, createDefaultConfig, metadata.MetricsStability,
		func(*Config, processor.Settings) (*gpuPower, error) { return p, nil },
		func(p *gpuPower) (gpudata.Scope, pdatagpu.Functions) { return p.scope, functionsOf(p) })
}

// functionsOf returns the functions of a processor that runs the section for process lists and then
// this section.
func functionsOf(p *gpuPower) pdatagpu.Functions {
	lists := processlists.New(1000).Section(func(context.Context, time.Time, int64) {})
	return pdatagpu.Sections(lists, p.section())
}
