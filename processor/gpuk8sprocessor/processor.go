package gpuk8sprocessor

import (
	"context"
	"errors"
	"math"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/internal/stage"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/attribution"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/metadata"
)

// gpuK8s implements the gpu_k8s processor by using the attribution package.
type gpuK8s struct {
	cfg       *Config
	telemetry *metadata.TelemetryBuilder
	logger    *zap.Logger
	tracker   *attribution.Tracker
	nodes     *stage.Nodes[nodeState]
	unplaced  componenthelper.Trouble // unplaced logs processes whose device is unknown.
	// unreadablePods logs pods whose annotations cannot be read.
	unreadablePods componenthelper.Trouble
	sources        *sources
	mapping        *jobMapping // mapping is nil if no job mapping directory is configured.
	jobs           *jobs
	// attribution contains the settings for emitting container series, including which metrics are
	// disabled.
	attribution gpudata.Attribution
	now         func() time.Time
}

func newProcessor(cfg *Config, set processor.Settings) (*gpuK8s, error) {
	tb, err := metadata.NewTelemetryBuilder(set.TelemetrySettings)
	if err != nil {
		return nil, err
	}
	scope := gpudata.NewScope(metadata.ScopeName, set.BuildInfo.Version)
	p := &gpuK8s{
		cfg:       cfg,
		telemetry: tb,
		tracker:   attribution.New(history, cfg.grace(), cfg.Sources.DRA.Drivers),
		nodes:     stage.NewNodes(math.MaxInt, newNode),
		logger:    set.Logger,
		mapping:   newJobMapping(cfg, set.Logger),
		jobs: &jobs{
			Limit: stage.NewLimit(cfg.MaxJobs),
			limit: componenthelper.Limit{Component: set.ID.String(), Setting: "max_jobs", Value: cfg.MaxJobs, What: "batch jobs"},
		},
		attribution: gpudata.Attribution{Scope: scope, Disabled: cfg.Metrics.Disabled(emitted())},
		now:         time.Now,
	}
	p.sources = newSources(cfg, set.TelemetrySettings, p.tracker)
	return p, nil
}

func (p *gpuK8s) start(ctx context.Context, host component.Host) error {
	if err := p.sources.start(ctx, host); err != nil {
		return err
	}
	p.mapping.start(ctx)
	t := p.telemetry
	return errors.Join(
		t.RegisterProcessorGpuK8sJobFilesCallback(p.mapping.observe),
		t.RegisterProcessorGpuK8sSourceStateCallback(p.sources.observeStates),
		t.RegisterProcessorGpuK8sSourceAgeCallback(p.sources.observeAges),
		t.RegisterProcessorGpuK8sJobsCallback(componenthelper.Observed(func() int64 { return int64(p.jobs.Used()) })),
		t.RegisterProcessorGpuK8sConflictsCallback(componenthelper.Observed(func() int64 { return int64(p.tracker.Stats().Conflicts) })),
		t.RegisterProcessorGpuK8sUnattributedCallback(func(_ context.Context, o metric.Int64Observer) error {
			for r, n := range p.tracker.Stats().Unattributed {
				if reason := attribution.Reason(r); reason != attribution.Joined {
					o.Observe(int64(n), componenthelper.With("reason", reason.String()))
				}
			}
			return nil
		}),
	)
}

func (p *gpuK8s) shutdown(ctx context.Context) error {
	p.telemetry.Shutdown() // Stop the telemetry first, because its callbacks read the processor's state.
	p.jobs.limit.Forget()
	p.mapping.shutdown(ctx)
	p.sources.shutdown()
	return nil
}

// section returns the section that adds the holders of devices.
func (p *gpuK8s) section() pdatagpu.Section {
	wants := func(m *signal.Metric) bool { return attributionMetrics[m] }
	return pdatagpu.Section{Start: p.start, Shutdown: p.shutdown, Wants: wants, Process: p.process}
}

// process adds the holders of devices, and the containers' series, to the batch.
func (p *gpuK8s) process(ctx context.Context, batch *stage.Batch) {
	now := p.now()
	counted := p.attribute(batch.Frames, now)
	batch.Settle(p.attribution.Scope, p.attribution.Disabled)
	p.sweep(now)
	componenthelper.CountBy[dropReason](ctx, p.telemetry.ProcessorGpuK8sPointsDropped, "reason", counted.dropped[:])
	p.telemetry.ProcessorGpuK8sJobsRefused.Add(ctx, counted.refused)
	p.jobs.limit.Refused(p.logger, now, counted.refused)
	if counted.unknown > 0 {
		p.telemetry.ProcessorGpuK8sProcessPointsUnknown.Add(ctx, counted.unknown)
	}
}
