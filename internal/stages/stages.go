// Package stages runs the processors of this project inside another component, one after another
// and without conversions to pdata between them. Their order does not depend on the order in the
// configuration. gpu_synthesizer is not one of these stages, because its own configuration contains
// them. In receivers, [receiverstages] runs gpu_synthesizer first.
//
// [receiverstages]: github.com/otelcol-gpu/otelcol-gpu/internal/receiverstages
package stages

import (
	"context"
	"fmt"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/connector"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/processor"
	"go.uber.org/zap"

	"github.com/otelcol-gpu/otelcol-gpu/connector/gpueventsconnector"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor"
)

// Config has a section for each stage. The section contains the settings of the processor with the
// same name. A stage runs if its section exists, even if the section is empty.
type Config struct {
	K8s configoptional.Optional[gpuk8sprocessor.Config] `mapstructure:"gpu_k8s"`
	// Findings adds samples of gpu.finding. If gpu_events is also a stage, it converts the findings
	// to log records.
	Findings configoptional.Optional[gpueventsconnector.FindingsConfig] `mapstructure:"gpu_findings"`
	Window   configoptional.Optional[gpuwindowprocessor.Config]         `mapstructure:"gpu_window"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// NewDefaultConfig returns the default settings of all sections. No section is enabled.
func NewDefaultConfig() Config {
	return Config{
		K8s:      DefaultOf[gpuk8sprocessor.Config](gpuk8sprocessor.NewFactory()),
		Findings: gpueventsconnector.NewDefaultFindings(),
		Window:   DefaultOf[gpuwindowprocessor.Config](gpuwindowprocessor.NewFactory()),
	}
}

// DefaultOf returns a section with a factory's default settings. The section is not enabled.
func DefaultOf[C any](f component.Factory) configoptional.Optional[C] {
	return configoptional.Default(*f.CreateDefaultConfig().(*C)) //nolint:forcetypeassert // a factory always returns its own Config type
}

// Owner is the component that runs the stages.
type Owner struct {
	ID        component.ID
	Telemetry component.TelemetrySettings
	BuildInfo component.BuildInfo
}

// Stage returns the ID and the telemetry settings of one of the owner's stages. The ID contains the
// owner's name: the stage gpu_window of dcgm/x is gpu_window/x. Therefore, stored state is kept
// when a processor becomes a stage.
func (o Owner) Stage(of component.Type) (component.ID, component.TelemetrySettings) {
	telemetry := o.Telemetry
	telemetry.Logger = o.Telemetry.Logger.With(zap.String("stage", of.String()))
	return component.NewIDWithName(of, o.ID.Name()), telemetry
}

// processor returns the settings for a stage that is a processor.
func (o Owner) processor(of component.Type) processor.Settings {
	id, telemetry := o.Stage(of)
	return processor.Settings{ID: id, TelemetrySettings: telemetry, BuildInfo: o.BuildInfo}
}

// Append appends the stages whose sections exist to a list. events is the stage gpu_events and may
// be nil. It runs before gpu_window, because it reads the samples from which windows are computed.
// gpu_findings runs between the two stages of gpu_k8s. Its rules need holders and power from the
// first of these stages. In the second, the usage section ignores a utilization that a rule has
// found to be wrong.
func Append(ctx context.Context, list *pdatagpu.Stages, cfg *Config, owner Owner, events *pdatagpu.Processor, next consumer.Metrics) error {
	var accounts *pdatagpu.Processor
	if cfg.K8s.HasValue() {
		of := gpuk8sprocessor.NewFactory().Type()
		holders, second, err := gpuk8sprocessor.NewStages(owner.processor(of), cfg.K8s.Get(), next)
		if err != nil {
			return fmt.Errorf("stages::%s: %w", of, err)
		}
		list.Append(of.String(), holders)
		accounts = second
	}
	if cfg.Findings.HasValue() {
		of := gpueventsconnector.FindingsType
		id, telemetry := owner.Stage(of)
		set := connector.Settings{ID: id, TelemetrySettings: telemetry, BuildInfo: owner.BuildInfo}
		findings, err := gpueventsconnector.NewFindings(set, cfg.Findings.Get())
		if err != nil {
			return fmt.Errorf("stages::%s: %w", of, err)
		}
		list.Append(of.String(), findings)
	}
	if accounts != nil {
		list.Append(gpuk8sprocessor.NewFactory().Type().String(), accounts)
	}
	if events != nil {
		list.Append("gpu_events", events)
	}
	if cfg.Window.HasValue() {
		return AppendProcessor(ctx, list, gpuwindowprocessor.NewFactory(), cfg.Window.Get(), owner, next)
	}
	return nil
}

// AppendProcessor appends a stage that is a processor of this project.
func AppendProcessor(ctx context.Context, list *pdatagpu.Stages, f processor.Factory, cfg component.Config, owner Owner, next consumer.Metrics) error {
	made, err := f.CreateMetrics(ctx, owner.processor(f.Type()), cfg, next)
	if err != nil {
		return fmt.Errorf("stages::%s: %w", f.Type(), err)
	}
	stage, ok := made.(*pdatagpu.Processor)
	if !ok {
		return fmt.Errorf("stages::%s: %T cannot be a stage", f.Type(), made)
	}
	list.Append(f.Type().String(), stage)
	return nil
}
