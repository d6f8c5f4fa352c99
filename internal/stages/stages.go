// Package stages runs the processors of this project inside another component, one after another and
// without pdata between them. The order of the stages is fixed here, whatever their order in YAML.
// gpu_synthesizer is not among them: it has this section itself, and [receiverstages] puts it first.
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

// Config has a section for each stage, with the settings of the processor of that name. A stage runs
// if its section exists, even if the section is empty.
type Config struct {
	K8s configoptional.Optional[gpuk8sprocessor.Config] `mapstructure:"gpu_k8s"`
	// Findings adds samples of gpu.finding. gpu_events, where it is a stage too, makes log records of them.
	Findings configoptional.Optional[gpueventsconnector.FindingsConfig] `mapstructure:"gpu_findings"`
	Window   configoptional.Optional[gpuwindowprocessor.Config]         `mapstructure:"gpu_window"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// NewDefaultConfig returns sections with the processors' defaults, none of which exists.
func NewDefaultConfig() Config {
	return Config{
		K8s:      DefaultOf[gpuk8sprocessor.Config](gpuk8sprocessor.NewFactory()),
		Findings: gpueventsconnector.NewDefaultFindings(),
		Window:   DefaultOf[gpuwindowprocessor.Config](gpuwindowprocessor.NewFactory()),
	}
}

// DefaultOf returns a section that has a factory's defaults and does not exist yet.
func DefaultOf[C any](f component.Factory) configoptional.Optional[C] {
	return configoptional.Default(*f.CreateDefaultConfig().(*C)) //nolint:forcetypeassert // a factory returns its own Config
}

// Owner is the component that runs the stages.
type Owner struct {
	ID        component.ID
	Telemetry component.TelemetrySettings
	BuildInfo component.BuildInfo
}

// Stage returns the id and the telemetry of a stage of the owner. The id has the owner's name:
// gpu_window/x in dcgm/x. Stored state therefore survives a move from processors to stages.
func (o Owner) Stage(of component.Type) (component.ID, component.TelemetrySettings) {
	telemetry := o.Telemetry
	telemetry.Logger = o.Telemetry.Logger.With(zap.String("stage", of.String()))
	return component.NewIDWithName(of, o.ID.Name()), telemetry
}

// Append appends the stages whose sections exist to a list that sends to next. events, which may be
// nil, runs before the windows: it reads the samples that windows are made of.
func Append(ctx context.Context, list *pdatagpu.Stages, cfg *Config, owner Owner, events *pdatagpu.Processor, next consumer.Metrics) error {
	k8s := cfg.K8s.Get()
	if cfg.Findings.HasValue() {
		rules, err := newFindings(cfg.Findings.Get(), owner)
		if err != nil {
			return err
		}
		if k8s != nil {
			of := *k8s
			of.BehindPower, k8s = &rules, &of
		} else {
			list.Append(gpueventsconnector.FindingsType.String(), pdatagpu.NewStage(rules))
		}
	}
	if k8s != nil {
		if err := AppendProcessor(ctx, list, gpuk8sprocessor.NewFactory(), k8s, owner, next); err != nil {
			return err
		}
	}
	if events != nil {
		list.Append("gpu_events", events)
	}
	if cfg.Window.HasValue() {
		return AppendProcessor(ctx, list, gpuwindowprocessor.NewFactory(), cfg.Window.Get(), owner, next)
	}
	return nil
}

// newFindings returns what gpu_findings does. It runs inside gpu_k8s: behind holders and power, whose
// samples the rules need, and before usage, which does not count a utilization that is not true.
func newFindings(cfg *gpueventsconnector.FindingsConfig, owner Owner) (pdatagpu.Functions, error) {
	id, telemetry := owner.Stage(gpueventsconnector.FindingsType)
	f, err := gpueventsconnector.NewFindings(connector.Settings{ID: id, TelemetrySettings: telemetry, BuildInfo: owner.BuildInfo}, cfg)
	if err != nil {
		return f, fmt.Errorf("stages::%s: %w", gpueventsconnector.FindingsType, err)
	}
	return f, nil
}

// AppendProcessor appends a stage that is a processor of this project.
func AppendProcessor(ctx context.Context, list *pdatagpu.Stages, f processor.Factory, cfg component.Config, owner Owner, next consumer.Metrics) error {
	id, telemetry := owner.Stage(f.Type())
	made, err := f.CreateMetrics(ctx, processor.Settings{ID: id, TelemetrySettings: telemetry, BuildInfo: owner.BuildInfo}, cfg, next)
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
