// Package stages has the configuration of the stages that follow gpu_synthesizer in the same
// component, and builds them. The order of stages is fixed here, whatever their order in YAML.
package stages

import (
	"context"
	"fmt"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/processor"
	"go.uber.org/zap"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpubudgetprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpupowerprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuusageprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor"
)

// Config has a section for each stage, with the settings of the processor of that name. A stage
// runs if its section exists, even if the section is empty.
type Config struct {
	K8s    configoptional.Optional[gpuk8sprocessor.Config]    `mapstructure:"gpu_k8s"`
	Power  configoptional.Optional[gpupowerprocessor.Config]  `mapstructure:"gpu_power"`
	Budget configoptional.Optional[gpubudgetprocessor.Config] `mapstructure:"gpu_budget"`
	Usage  configoptional.Optional[gpuusageprocessor.Config]  `mapstructure:"gpu_usage"`
	Window configoptional.Optional[gpuwindowprocessor.Config] `mapstructure:"gpu_window"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// NewDefaultConfig returns sections with the processors' defaults, none of which exists.
func NewDefaultConfig() Config {
	return Config{
		K8s:    DefaultOf[gpuk8sprocessor.Config](gpuk8sprocessor.NewFactory()),
		Power:  DefaultOf[gpupowerprocessor.Config](gpupowerprocessor.NewFactory()),
		Budget: DefaultOf[gpubudgetprocessor.Config](gpubudgetprocessor.NewFactory()),
		Usage:  DefaultOf[gpuusageprocessor.Config](gpuusageprocessor.NewFactory()),
		Window: DefaultOf[gpuwindowprocessor.Config](gpuwindowprocessor.NewFactory()),
	}
}

// DefaultOf returns a section that has a factory's defaults and does not exist yet.
func DefaultOf[C any](f component.Factory) configoptional.Optional[C] {
	return configoptional.Default(*f.CreateDefaultConfig().(*C)) //nolint:forcetypeassert // a factory returns its own Config
}

// Any reports whether a section exists.
func (c *Config) Any() bool {
	return c.K8s.HasValue() || c.Power.HasValue() || c.Budget.HasValue() || c.Usage.HasValue() || c.Window.HasValue()
}

// Owner is the component that runs the stages.
type Owner struct {
	ID        component.ID
	Telemetry component.TelemetrySettings
	BuildInfo component.BuildInfo
}

// Settings returns the settings of the stage of a type. Its id has the name of the owner:
// gpu_window/x in dcgm/x. Stored state therefore survives a move from processors to stages.
func (o *Owner) Settings(of component.Type) processor.Settings {
	set := processor.Settings{ID: component.NewIDWithName(of, o.ID.Name()), TelemetrySettings: o.Telemetry, BuildInfo: o.BuildInfo}
	set.Logger = o.Telemetry.Logger.With(zap.String("stage", of.String()))
	return set
}

// Builder builds a list of stages.
type Builder struct {
	owner *Owner
	next  consumer.Metrics
	list  *pdatagpu.Stages
}

// NewBuilder returns a builder of stages that run in the component owner and send to next.
func NewBuilder(owner *Owner, next consumer.Metrics) *Builder {
	return &Builder{owner: owner, next: next, list: pdatagpu.NewStages(next)}
}

// Add adds a stage that is the processor of a factory.
func (b *Builder) Add(ctx context.Context, f processor.Factory, cfg component.Config) error {
	made, err := f.CreateMetrics(ctx, b.owner.Settings(f.Type()), cfg, b.next)
	if err != nil {
		return fmt.Errorf("stages::%s: %w", f.Type(), err)
	}
	stage, ok := made.(*pdatagpu.Processor)
	if !ok {
		return fmt.Errorf("stages::%s: %T cannot be a stage", f.Type(), made)
	}
	b.AddStage(f.Type().String(), stage)
	return nil
}

// AddStage adds a stage that is not a processor.
func (b *Builder) AddStage(name string, stage *pdatagpu.Processor) { b.list.Append(name, stage) }

// AddHolders adds the stages that attribute devices to holders, and those that use the result:
// gpu_k8s, gpu_power, gpu_budget and gpu_usage.
func (b *Builder) AddHolders(ctx context.Context, cfg *Config) error {
	for _, section := range []struct {
		factory processor.Factory
		config  component.Config
		exists  bool
	}{
		{gpuk8sprocessor.NewFactory(), cfg.K8s.Get(), cfg.K8s.HasValue()},
		{gpupowerprocessor.NewFactory(), cfg.Power.Get(), cfg.Power.HasValue()},
		{gpubudgetprocessor.NewFactory(), cfg.Budget.Get(), cfg.Budget.HasValue()},
		{gpuusageprocessor.NewFactory(), cfg.Usage.Get(), cfg.Usage.HasValue()},
	} {
		if section.exists {
			if err := b.Add(ctx, section.factory, section.config); err != nil {
				return err
			}
		}
	}
	return nil
}

// AddWindows adds gpu_window.
func (b *Builder) AddWindows(ctx context.Context, cfg *Config) error {
	if !cfg.Window.HasValue() {
		return nil
	}
	return b.Add(ctx, gpuwindowprocessor.NewFactory(), cfg.Window.Get())
}

// Stages returns the list.
func (b *Builder) Stages() *pdatagpu.Stages { return b.list }
