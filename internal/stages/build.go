package stages

import (
	"context"
	"fmt"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/connector"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/receiver"
	"go.uber.org/zap"

	"github.com/otelcol-gpu/otelcol-gpu/connector/gpueventsconnector"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpubudgetprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpupowerprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuusageprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor"
)

// Outputs are the pipelines that a receiver sends to; nil if it is not in one of that kind.
type Outputs struct {
	Metrics consumer.Metrics
	Logs    consumer.Logs
}

func (o *Outputs) add(other Outputs) {
	if other.Metrics != nil {
		o.Metrics = other.Metrics
	}
	if other.Logs != nil {
		o.Logs = other.Logs
	}
}

// MetricsOrDiscard returns the metrics pipeline, or a consumer that drops everything if there
// is none.
func (o *Outputs) MetricsOrDiscard() consumer.Metrics {
	if o.Metrics == nil {
		return discard{}
	}
	return o.Metrics
}

// discard is the next component of a receiver that is in no metrics pipeline.
type discard struct{}

func (discard) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

func (discard) ConsumeMetrics(context.Context, pmetric.Metrics) error { return nil }

// New builds the stages of a receiver. It returns an error if gpu_events has no logs pipeline.
func New(ctx context.Context, cfg *Config, owner receiver.Settings, out *Outputs) (*pdatagpu.Stages, error) {
	next := out.MetricsOrDiscard()
	list := pdatagpu.NewStages(next)
	for _, s := range []struct {
		factory processor.Factory
		config  component.Config
		exists  bool
	}{
		{gpusynthesizerprocessor.NewFactory(), cfg.Synthesizer.GetOrInsertDefault(), true},
		{gpuk8sprocessor.NewFactory(), cfg.K8s.Get(), cfg.K8s.HasValue()},
		{gpupowerprocessor.NewFactory(), cfg.Power.Get(), cfg.Power.HasValue()},
		{gpubudgetprocessor.NewFactory(), cfg.Budget.Get(), cfg.Budget.HasValue()},
		{gpuusageprocessor.NewFactory(), cfg.Usage.Get(), cfg.Usage.HasValue()},
		{nil, nil, cfg.Events.HasValue()}, // reads the samples that windows are made of
		{gpuwindowprocessor.NewFactory(), cfg.Window.Get(), cfg.Window.HasValue()},
	} {
		if !s.exists {
			continue
		}
		var err error
		if s.factory == nil {
			err = addEvents(list, cfg.Events.Get(), owner, out.Logs)
		} else {
			err = add(ctx, list, s.factory, s.config, owner, next)
		}
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

// add adds a stage that is a processor.
func add(ctx context.Context, list *pdatagpu.Stages, f processor.Factory, cfg component.Config, owner receiver.Settings, next consumer.Metrics) error {
	id, telemetry := stageOf(owner, f.Type())
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

// addEvents adds gpu_events, which sends log records to next.
func addEvents(list *pdatagpu.Stages, cfg *gpueventsconnector.Config, owner receiver.Settings, next consumer.Logs) error {
	of := gpueventsconnector.NewFactory().Type()
	if next == nil {
		return fmt.Errorf("stages::%s sends log records, but %s is not in a logs pipeline: add it to the receivers of a logs pipeline", of, owner.ID)
	}
	id, telemetry := stageOf(owner, of)
	stage, err := gpueventsconnector.NewStage(connector.Settings{ID: id, TelemetrySettings: telemetry, BuildInfo: owner.BuildInfo}, cfg, next)
	if err != nil {
		return fmt.Errorf("stages::%s: %w", of, err)
	}
	list.Append(of.String(), stage)
	return nil
}

// stageOf returns the id and the telemetry of a stage. The id has the name of the receiver:
// gpu_window/x in dcgm/x. Stored state therefore survives a move from processors to stages.
func stageOf(owner receiver.Settings, of component.Type) (component.ID, component.TelemetrySettings) {
	telemetry := owner.TelemetrySettings
	telemetry.Logger = owner.Logger.With(zap.String("stage", of.String()))
	return component.NewIDWithName(of, owner.ID.Name()), telemetry
}
