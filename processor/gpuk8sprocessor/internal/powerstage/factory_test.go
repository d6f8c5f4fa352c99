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

// NewFactory returns a factory that runs the section as a separate processor.
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

// functionsOf returns the functions of the section, together with the process lists that gpu_k8s
// provides to it.
func functionsOf(p *gpuPower) pdatagpu.Functions {
	lists := processlists.New(1000).Section(func(context.Context, time.Time, int64) {})
	return pdatagpu.Sections(lists, p.section())
}
