// Package sectiontest runs a single section of gpu_k8s as a separate processor.
package sectiontest

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/processor"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
)

// NewFactory returns a factory for processors that run only one section of gpu_k8s. The build
// function creates the section from a configuration of type C. The stage function returns the
// section's scope and functions.
func NewFactory[C, P any](
	of component.Type, config component.CreateDefaultConfigFunc, stability component.StabilityLevel,
	build func(*C, processor.Settings) (P, error), stage func(P) (gpudata.Scope, pdatagpu.Functions),
) processor.Factory {
	create := func(_ context.Context, set processor.Settings, cfg component.Config, next consumer.Metrics) (processor.Metrics, error) {
		p, err := build(cfg.(*C), set) //nolint:forcetypeassert // the Collector passes a factory only the configs that it created
		if err != nil {
			return nil, err
		}
		scope, functions := stage(p)
		return pdatagpu.NewProcessor(set, scope, next, functions)
	}
	return processor.NewFactory(of, config, processor.WithMetrics(create, stability))
}
