// Package receiverstages implements the "stages" section of receivers. The possible stages are
// gpu_synthesizer, the stages in package stages, and gpu_events. A receiver with the gpu_events
// stage must also be in a logs pipeline.
package receiverstages

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/connector"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/receiver"
	"go.uber.org/zap"

	"github.com/otelcol-gpu/otelcol-gpu/connector/gpueventsconnector"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/pipelinerules"
	"github.com/otelcol-gpu/otelcol-gpu/internal/stages"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor"
)

// Config is the "stages" section of a receiver's configuration. A stage runs if its section exists,
// even if the section is empty.
type Config struct {
	// Synthesizer configures gpu_synthesizer, which runs even if this section does not exist.
	Synthesizer configoptional.Optional[gpusynthesizerprocessor.Config] `mapstructure:"gpu_synthesizer"`

	// Sections of [stages.Config]. If that struct were embedded, error messages would mention a
	// "config" section that does not exist in the user's configuration.
	K8s      configoptional.Optional[gpuk8sprocessor.Config]            `mapstructure:"gpu_k8s"`
	Findings configoptional.Optional[gpueventsconnector.FindingsConfig] `mapstructure:"gpu_findings"`
	Window   configoptional.Optional[gpuwindowprocessor.Config]         `mapstructure:"gpu_window"`

	// Events configures gpu_events, which sends log records. If Events is set, the receiver must
	// also be in a logs pipeline.
	Events configoptional.Optional[gpueventsconnector.Config] `mapstructure:"gpu_events"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// NewDefaultConfig returns a configuration in which all sections have their default settings. No
// section is enabled.
func NewDefaultConfig() Config {
	behind := stages.NewDefaultConfig()
	return Config{
		Synthesizer: stages.DefaultOf[gpusynthesizerprocessor.Config](gpusynthesizerprocessor.NewFactory()),
		K8s:         behind.K8s,
		Findings:    behind.Findings,
		Window:      behind.Window,
		Events:      stages.DefaultOf[gpueventsconnector.Config](gpueventsconnector.NewFactory()),
	}
}

// Validate implements confmap.Validator.
func (c *Config) Validate() error {
	if c.Synthesizer.HasValue() && c.Synthesizer.Get().Stages.HasValue() {
		return errors.New("gpu_synthesizer::stages is set: must not be set here; put the stages next to gpu_synthesizer")
	}
	if c.Events.HasValue() && c.Events.Get().Findings.HasValue() {
		return errors.New("gpu_events::findings is set: must not be set here; put gpu_findings next to gpu_events")
	}
	return nil
}

// Outputs contains the pipelines to which a receiver sends data. A field is nil if the receiver is
// not in a pipeline of that kind.
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

// MetricsOrDiscard returns the metrics pipeline. If there is no metrics pipeline, MetricsOrDiscard
// returns a consumer that drops all metrics.
func (o *Outputs) MetricsOrDiscard() consumer.Metrics {
	if o.Metrics == nil {
		return discard{}
	}
	return o.Metrics
}

// discard is the next consumer of a receiver that is not in a metrics pipeline.
type discard struct{}

func (discard) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

func (discard) ConsumeMetrics(context.Context, pmetric.Metrics) error { return nil }

// New creates the stages of a receiver. The interval parameter is the time between two samples of a
// device. If gpu_events is configured but the receiver is not in a logs pipeline, New returns an
// error.
func New(ctx context.Context, cfg *Config, set receiver.Settings, interval time.Duration, out *Outputs) (*pdatagpu.Stages, error) {
	if err := cfg.checkInterval(set.Logger, interval); err != nil {
		return nil, err
	}
	next := out.MetricsOrDiscard()
	owner := stages.Owner{ID: set.ID, Telemetry: set.TelemetrySettings, BuildInfo: set.BuildInfo}
	list := pdatagpu.NewStages(next)
	if err := stages.AppendProcessor(ctx, list, gpusynthesizerprocessor.NewFactory(), cfg.Synthesizer.GetOrInsertDefault(), owner, next); err != nil {
		return nil, err
	}
	var events *pdatagpu.Processor
	if cfg.Events.HasValue() {
		var err error
		if events, err = newEvents(cfg.Events.Get(), owner, out.Logs); err != nil {
			return nil, err
		}
	}
	behind := &stages.Config{K8s: cfg.K8s, Findings: cfg.Findings, Window: cfg.Window}
	return list, stages.Append(list, behind, owner, events, next)
}

// checkInterval logs a warning for each setting that is too short for the time between two samples
// of a device.
func (c *Config) checkInterval(logger *zap.Logger, interval time.Duration) error {
	conf := confmap.New()
	if err := conf.Marshal(c); err != nil {
		return err
	}
	for i := range pipelinerules.Intervals {
		r := &pipelinerules.Intervals[i]
		value, exists := conf.Get(r.Component + confmap.KeyDelimiter + r.Setting).(time.Duration)
		if exists && !r.Allows(value, interval) {
			logger.Warn("Samples come too rarely: in stages::" + r.Component + ", " + r.Sentence(value, "the receiver reads", interval))
		}
	}
	return nil
}

// newEvents returns the gpu_events stage, which sends log records to the given consumer.
func newEvents(cfg *gpueventsconnector.Config, owner stages.Owner, next consumer.Logs) (*pdatagpu.Processor, error) {
	of := gpueventsconnector.NewFactory().Type()
	if next == nil {
		return nil, fmt.Errorf("stages::%s sends log records, but %s is not in a logs pipeline: add it to the receivers of a logs pipeline", of, owner.ID)
	}
	id, telemetry := owner.Stage(of)
	stage, err := gpueventsconnector.NewStage(connector.Settings{ID: id, TelemetrySettings: telemetry, BuildInfo: owner.BuildInfo}, cfg, next)
	if err != nil {
		return nil, fmt.Errorf("stages::%s: %w", of, err)
	}
	return stage, nil
}
