package powerstage

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/processor"
	"go.uber.org/zap"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/internal/stage"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/idle"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/split"
)

// gpuPower applies the split, idle, and energy packages to the frames in each batch.
type gpuPower struct {
	cfg       *Config
	id        component.ID
	logger    *zap.Logger
	telemetry *metadata.TelemetryBuilder
	idle      idle.Table
	scope     gpudata.Scope
	disabled  map[*signal.Metric]bool

	nodes  *stage.Nodes[nodeState]
	series *componenthelper.Series     // series limits the total number of boards and energy counters.
	kinds  [idle.NumKinds]atomic.Int64 // kinds contains the number of boards for each kind of baseline.

	state      *componenthelper.State // state is nil if no storage is configured.
	stopSaving func()                 // stopSaving is nil until start is called.
	ending     componenthelper.Ending
}

// New returns the section.
func New(cfg *Config, set processor.Settings) (pdatagpu.Section, error) {
	p, err := newProcessor(cfg, set)
	if err != nil {
		return pdatagpu.Section{}, err
	}
	return p.section(), nil
}

func (p *gpuPower) section() pdatagpu.Section {
	return pdatagpu.Section{Start: p.start, Shutdown: p.shutdown, Wants: wants, Process: p.process}
}

// wants reports whether the section uses the metric m.
func wants(m *signal.Metric) bool { return powerMetrics[m] }

func newProcessor(cfg *Config, set processor.Settings) (*gpuPower, error) {
	tb, err := metadata.NewTelemetryBuilder(set.TelemetrySettings)
	if err != nil {
		return nil, err
	}
	return &gpuPower{
		cfg: cfg, id: set.ID, logger: set.Logger, telemetry: tb,
		idle:     cfg.Idle.table(),
		scope:    gpudata.NewScope(metadata.ScopeName, set.BuildInfo.Version),
		disabled: cfg.Metrics.Disabled(Emitted),
		nodes:    stage.NewNodes(cfg.MaxSeries, newNode),
		series:   componenthelper.NewSeries(set.ID.String(), "power::max_series", cfg.MaxSeries, "boards, energy counters or nodes"),
	}, nil
}

// process adds the power of boards, instances, containers, and processes to the batch. The process
// method does not change existing samples.
func (p *gpuPower) process(ctx context.Context, b *stage.Batch) {
	now := time.Now()
	batch := powerBatch{gpuPower: p, ReadCounts: b.Counts(wants), observed: map[string]bool{}}
	for _, f := range b.Frames {
		if !p.nodes.With(f.Place, now, func(pl *nodeState) { batch.frame(pl, f, now) }) {
			p.series.Refuse(1)
			batch.frame(nil, f, now)
		}
	}
	b.Settle(p.scope, p.disabled)
	p.sweep(now)
	batch.report(ctx, now)
}

// powerBatch contains the state that is needed to process one batch.
type powerBatch struct {
	*gpuPower
	stage.ReadCounts
	frozen [split.NumSources]int64
	// observed contains the boards whose measured power is in the current frame.
	observed map[string]bool
}

// frame divides the power of every board whose measured power is in the given frame. If the limit
// on the number of nodes is reached, pl is nil.
func (p *powerBatch) frame(pl *nodeState, f *gpudata.Frame, now time.Time) {
	clear(p.observed)
	for _, b := range p.boards(f) {
		p.observed[b.id()] = true
		p.sharePower(pl, b, f.Time, now)
	}
	if pl != nil {
		p.endFormerHolders(pl, p.observed, f.Time, now)
	}
}

// sharePower divides the power of a board among the board's holders.
func (p *powerBatch) sharePower(pl *nodeState, b *board, t int64, now time.Time) {
	b.attach(&b.Device, t, p.cfg.MaxGap)
	for _, i := range b.instances {
		b.Instances = append(b.Instances, &i.Instance)
		i.attach(&i.Device, t, p.cfg.MaxGap)
	}

	state := p.board(pl, b.id(), now)
	if state != nil {
		verdict := state.clock.Observe(t, now, p.cfg.MaxGap)
		b.late = verdict == gpudata.Behind || verdict == gpudata.Future
	}
	b.findUnlisted(state)
	watts, found := p.baseline(pl, state, b, t)
	if !found {
		return
	}
	b.Idle = watts
	b.Split(p.cfg.Weighting == weightingSlices)
	for s, frozen := range b.Frozen {
		if frozen {
			p.frozen[s]++
		}
	}

	addSample(&b.frame.Samples, signal.GPUPowerIdle, b.Idle, nil)
	addSample(&b.frame.Samples, signal.GPUPowerActive, b.Active, nil)
	addSample(&b.frame.Samples, signal.GPUPowerUnattributed, b.Unattributed, nil)
	p.users(pl, b, &b.device, &b.Device, b.Source, t, now)
	for _, i := range b.instances {
		addSample(&i.frame.Samples, signal.GPUInstancePower, i.Power, powerAttributes(b.Source, i.Estimated))
		p.users(pl, b, &i.device, &i.Device, b.Source, t, now)
	}
}

// users adds the power and energy of the device's holders, and the power of the device's processes.
// The device d is the board b or an instance of b.
func (p *powerBatch) users(pl *nodeState, b *board, d *device, s *split.Device, source split.Source, t int64, now time.Time) {
	for k := range s.Holders {
		h := &s.Holders[k]
		addSample(&h.Samples, signal.K8sContainerGPUPower, h.Power, powerAttributes(source, h.Estimated))
		if e, ok := p.addEnergy(pl, b, d.id(), h, t, now); ok {
			// Do not add attributes that describe how the power was divided, because the method of
			// division may have changed since e.Start.
			h.Samples.Add(gpudata.Sample{Metric: signal.K8sContainerGPUEnergy, Start: e.Start, Value: e.Joules})
		}
	}
	for k := range s.Processes {
		listed := &s.Processes[k]
		if math.IsNaN(listed.Power) {
			continue
		}
		process := d.frame.Process(listed.PID) // The process may come from the process list of another frame.
		process.ContainerID, process.Holder = listed.ContainerID, listed.Holder
		addSample(&process.Samples, signal.ProcessGPUPower, listed.Power, powerAttributes(source, listed.Estimated))
	}
}

// report adds the counts of the batch to the self-metrics.
func (p *powerBatch) report(ctx context.Context, now time.Time) {
	componenthelper.CountBy[stage.Drop](ctx, p.telemetry.ProcessorGpuPowerPointsDropped, "reason", p.Dropped[:])
	if p.Clamped > 0 {
		p.telemetry.ProcessorGpuPowerPointsClamped.Add(ctx, p.Clamped)
	}
	componenthelper.CountBy[split.Source](ctx, p.telemetry.ProcessorGpuPowerFrozen, "source", p.frozen[:])
	for k := range p.kinds {
		p.telemetry.ProcessorGpuPowerBoards.Record(ctx, p.kinds[k].Load(), componenthelper.With("idle", idle.Kind(k).String()))
	}
	p.series.Report(ctx, p.logger, now, p.telemetry.ProcessorGpuPowerSeries, p.telemetry.ProcessorGpuPowerSeriesRefused)
}
