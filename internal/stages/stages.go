// Package stages runs the processors of this project inside another component, one after another,
// without converting the data to pdata between them. The order of the stages does not depend on the
// order in the configuration. gpu_synthesizer is not one of these stages, because the configuration
// of gpu_synthesizer can contain the stages. In receivers, [receiverstages] runs gpu_synthesizer
// before these stages.
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

// Config has a section for each stage. The gpu_k8s and gpu_window sections contain the settings of
// the processors with the same names. A stage runs if its section exists, even if the section is
// empty.
type Config struct {
	K8s configoptional.Optional[gpuk8sprocessor.Config] `mapstructure:"gpu_k8s"`
	// Findings configures gpu_findings, which adds samples of gpu.finding. If gpu_events is also a
	// stage, gpu_events converts the findings to log records.
	Findings configoptional.Optional[gpueventsconnector.FindingsConfig] `mapstructure:"gpu_findings"`
	Window   configoptional.Optional[gpuwindowprocessor.Config]         `mapstructure:"gpu_window"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// NewDefaultConfig returns a configuration in which all sections have their default settings. No
// section is enabled.
func NewDefaultConfig() Config {
	return Config{
		K8s:      DefaultOf[gpuk8sprocessor.Config](gpuk8sprocessor.NewFactory()),
		Findings: gpueventsconnector.NewDefaultFindings(),
		Window:   DefaultOf[gpuwindowprocessor.Config](gpuwindowprocessor.NewFactory()),
	}
}

// DefaultOf returns a section with the default settings of a factory. The returned section is not
// enabled.
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
// owner's name: for example, the ID of the gpu_window stage in the dcgm/x receiver is gpu_window/x.
// Because the ID has the same form as a processor's ID, stored state can still be read after a
// processor becomes a stage.
func (o Owner) Stage(of component.Type) (component.ID, component.TelemetrySettings) {
	telemetry := o.Telemetry
	telemetry.Logger = o.Telemetry.Logger.With(zap.String("stage", of.String()))
	return component.NewIDWithName(of, o.ID.Name()), telemetry
}

// The processor method returns the component settings for a stage that is a processor.
func (o Owner) processor(of component.Type) processor.Settings {
	id, telemetry := o.Stage(of)
	return processor.Settings{ID: id, TelemetrySettings: telemetry, BuildInfo: o.BuildInfo}
}

// Append appends to the list each stage whose section exists. The events parameter is the
// gpu_events stage, or nil. gpu_events runs before gpu_window, because gpu_events reads the samples
// from which windows are computed. gpu_k8s consists of two stages, and gpu_findings runs between
// them. The rules of gpu_findings require holders and power from the first stage of gpu_k8s. In the
// second stage, the usage section of gpu_k8s ignores a device's utilization if a rule has found
// that the utilization is incorrect.
func Append(list *pdatagpu.Stages, cfg *Config, owner Owner, events *pdatagpu.Processor, next consumer.Metrics) error {
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
		of := gpuwindowprocessor.NewFactory().Type()
		window, err := gpuwindowprocessor.NewStage(owner.processor(of), cfg.Window.Get(), next)
		if err != nil {
			return fmt.Errorf("stages::%s: %w", of, err)
		}
		list.Append(of.String(), window)
	}
	return nil
}

// AppendProcessor creates a processor of this project and appends it to a list as a stage.
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
