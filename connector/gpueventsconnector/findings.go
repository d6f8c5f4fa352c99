package gpueventsconnector

import (
	"context"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/connector"
	"go.uber.org/zap"

	"github.com/otelcol-gpu/otelcol-gpu/connector/gpueventsconnector/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/events"
	"github.com/otelcol-gpu/otelcol-gpu/internal/findings"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/internal/stage"
)

// FindingsType is the type name of the stage that evaluates the rules for findings.
var FindingsType = component.MustNewType("gpu_findings")

// FindingsConfig configures the rules for findings, both for the gpu_findings stage and for
// gpu_events.
type FindingsConfig findings.Settings

// NewDefaultFindings returns a findings section that is absent by default. If the configuration
// contains the section, settings that are omitted from it have default values.
func NewDefaultFindings() configoptional.Optional[FindingsConfig] {
	return configoptional.Default(FindingsConfig(findings.DefaultSettings()))
}

// Unmarshal implements confmap.Unmarshaler by calling [componenthelper.Unmarshal].
func (cfg *FindingsConfig) Unmarshal(conf *confmap.Conf) error {
	return componenthelper.Unmarshal(conf, cfg)
}

// Validate implements confmap.Validator. The returned error lists all settings that are out of
// range.
func (cfg *FindingsConfig) Validate() error {
	var p componenthelper.Problems
	p.Check(cfg.MaxGap >= time.Second && cfg.MaxGap <= time.Hour, "max_gap is %s: must be 1s to 1h; write the unit, as in 60s", cfg.MaxGap)
	for i, rule := range signal.Findings() {
		d := (*findings.Settings)(cfg).Of(i).For
		p.Check(d >= time.Minute && d <= 24*time.Hour, "%s::for is %s: must be 1m to 24h; write the unit, as in 5m", rule.Name, d)
	}
	for _, ratio := range []struct {
		field string
		value float64
	}{
		{"spinning::utilization", cfg.Spinning.Utilization},
		{"spinning::tensor", cfg.Spinning.Tensor},
		{"spinning::dram", cfg.Spinning.DRAM},
		{"spinning::links", cfg.Spinning.Links},
		{"spinning::power", cfg.Spinning.Power},
		{"latched_utilization::utilization", cfg.LatchedUtilization.Utilization},
		{"latched_utilization::power", cfg.LatchedUtilization.Power},
		{"slow_device::clock", cfg.SlowDevice.Clock},
	} {
		p.Check(ratio.value > 0 && ratio.value <= 1, "%s is %v: must be above 0 and at most 1", ratio.field, ratio.value)
	}
	p.Check(cfg.SlowDevice.Devices >= 3 && cfg.SlowDevice.Devices <= 1000, "slow_device::devices is %d: must be 3 to 1000", cfg.SlowDevice.Devices)
	rate := cfg.MemoryDegrading.CorrectedPerHour
	p.Check(rate > 0 && rate <= 1e12, "memory_degrading::corrected_per_hour is %v: must be above 0 and at most 1e12", rate)
	return p.Err()
}

// findingsStage is the gpu_findings stage. The stage adds samples to the frames, and records in the
// frames when findings start and end. The gpu_events stage, which must follow gpu_findings, writes
// the log records.
type findingsStage struct {
	logger    *zap.Logger
	scope     gpudata.Scope
	telemetry *metadata.TelemetryBuilder

	tracker *findings.Tracker
	refused componenthelper.Trouble // limits warnings about too many nodes or devices
}

// NewFindings returns the gpu_findings stage.
func NewFindings(set connector.Settings, cfg *FindingsConfig) (*pdatagpu.Processor, error) {
	s, err := newFindingsStage(set, cfg)
	if err != nil {
		return nil, err
	}
	return pdatagpu.NewStage(pdatagpu.Sections(s.section())), nil
}

func (s *findingsStage) section() pdatagpu.Section {
	shutdown := func(context.Context) error {
		s.telemetry.Shutdown()
		return nil
	}
	return pdatagpu.Section{Wants: findings.Wants, Process: s.process, Shutdown: shutdown}
}

func newFindingsStage(set connector.Settings, cfg *FindingsConfig) (*findingsStage, error) {
	telemetry, err := metadata.NewTelemetryBuilder(set.TelemetrySettings)
	return &findingsStage{
		logger: set.Logger, scope: gpudata.NewScope(metadata.ScopeName, set.BuildInfo.Version), telemetry: telemetry,
		tracker: findings.New(findings.Settings(*cfg)),
	}, err
}

func (s *findingsStage) process(ctx context.Context, batch *stage.Batch) {
	now := time.Now()
	for _, f := range batch.Frames {
		s.tracker.Frame(f, now)
	}
	batch.Settle(s.scope, nil)
	skipped := [events.NumSkips]int64{events.Future: s.tracker.Future.Swap(0), events.ClockSetBack: s.tracker.SetBack.Swap(0)}
	componenthelper.CountBy[events.Skip](ctx, s.telemetry.ConnectorGpuEventsFramesSkipped, "reason", skipped[:])
	if s.tracker.Refused.Load() > 0 && s.refused.ShouldLog(now) {
		s.logger.Warn("Too many nodes or devices are known. Further ones have no findings.")
	}
}
