package gpupowerprocessor

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"

	"github.com/otelcol-gpu/otelcol-gpu/internal/misplaced"
	"github.com/otelcol-gpu/otelcol-gpu/internal/sayonce"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpupowerprocessor/internal/idle"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpupowerprocessor/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpupowerprocessor/internal/split"
)

// gpuPower is the pdata shell around the split, idle and energy packages.
type gpuPower struct {
	cfg       *Config
	id        component.ID
	logger    *zap.Logger
	telemetry *metadata.TelemetryBuilder
	reasons   [numDropReasons]metric.AddOption
	sources   [split.NumSources]metric.AddOption
	kindNames [idle.NumKinds]metric.RecordOption
	idle      idle.Table
	split     split.Options

	mu     sync.Mutex
	read   reader
	write  writer
	places map[string]*place
	// shared are the devices of the frame that somebody holds and whose power was
	// shared out.
	shared map[string]bool
	// placesChanged and gone say what the storage has not got.
	placesChanged bool
	gone          []string
	series        int // boards and energy counters
	kinds         [idle.NumKinds]int64
	swept         time.Time

	refused int64 // of this batch
	limit   sayonce.Limit
	order   *misplaced.Check
	frozen  [split.NumSources]int64

	storage storage.Client // nil without one
	failing bool           // the last write to the storage failed
}

func newProcessor(cfg *Config, set processor.Settings) (*gpuPower, error) {
	tb, err := metadata.NewTelemetryBuilder(set.TelemetrySettings)
	if err != nil {
		return nil, err
	}
	p := &gpuPower{
		cfg: cfg, id: set.ID, logger: set.Logger, telemetry: tb,
		idle:   cfg.Idle.table(),
		split:  split.Options{WeighSlices: cfg.Weighting == weightingSlices},
		write:  writer{disabled: map[*signal.Metric]bool{}, version: set.BuildInfo.Version},
		places: map[string]*place{},
		shared: map[string]bool{},
		limit:  sayonce.Limit{Component: set.ID.String(), Setting: "max_series", Value: cfg.MaxSeries, What: "boards, energy counters, lists of processes or nodes"},
		order:  misplaced.New("gpu_power", misplaced.BeforeWindows, set.Logger),
	}
	for _, m := range cfg.Metrics.Disabled(emitted) {
		p.write.disabled[m] = true
	}
	for r := range p.reasons {
		p.reasons[r] = with("reason", dropReason(r).String())
	}
	for s := range p.sources {
		p.sources[s] = with("source", split.Source(s).String())
	}
	for k := range p.kindNames {
		p.kindNames[k] = with("idle", idle.Kind(k).String())
	}
	return p, nil
}

func with(key, value string) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(attribute.String(key, value)))
}

// processMetrics adds the power of boards, instances, containers and processes
// to the batch. What is in it stays as it is.
func (p *gpuPower) processMetrics(ctx context.Context, md pmetric.Metrics) (pmetric.Metrics, error) {
	p.mu.Lock()
	defer p.mu.Unlock()

	now := time.Now()
	p.order.Batch(md, now)
	frames := p.read.read(md)
	p.write.begin(md)
	for _, f := range frames {
		p.frame(f, now)
	}
	p.sweep(now)
	p.save(ctx)
	p.limit.Refused(p.logger, now, p.refused)
	p.report(ctx)
	return md, nil
}

// frame shares out the power of every board that was measured at one moment.
func (p *gpuPower) frame(f *frame, now time.Time) {
	pl := p.place(f.place, now)
	if pl != nil {
		p.remember(pl, f, now)
	}
	for _, id := range slices.Sorted(maps.Keys(f.boards)) {
		if b := f.boards[id]; b.power {
			p.share(pl, b, f, now)
		}
	}
	if pl != nil {
		pl.release(p.shared, f.time, p.cfg.MaxGap)
	}
	clear(p.shared)
}

// share shares out the power of a board.
func (p *gpuPower) share(pl *place, b *board, f *frame, now time.Time) {
	t := f.time
	b.attach(&b.Device, pl.list(f, b.id, p.cfg.MaxGap))
	instances := make([]*instance, 0, len(b.instances))
	for _, id := range slices.Sorted(maps.Keys(b.instances)) {
		i := b.instances[id]
		instances = append(instances, i)
		b.Instances = append(b.Instances, &i.Instance)
		i.attach(&i.Device, pl.list(f, i.id, p.cfg.MaxGap))
	}

	watts, known := p.baseline(pl, b, t, now)
	if !known {
		return
	}
	b.Idle = watts
	b.Split(p.split)
	for s, frozen := range b.Frozen {
		if frozen {
			p.frozen[s]++
		}
	}

	p.write.ofBoard(b, signal.GPUPowerIdle, t, b.Idle)
	p.write.ofBoard(b, signal.GPUPowerActive, t, b.Active)
	p.write.ofBoard(b, signal.GPUPowerUnattributed, t, b.Unattributed)
	p.users(pl, b, &b.device, &b.Device, t, now)
	for _, i := range instances {
		p.write.ofInstance(b, i, t)
		p.users(pl, b, &i.device, &i.Device, t, now)
	}
}

// attach gives the split the processes of the device. A list that lacks some of those
// that were counted says nothing of who did what.
func (d *device) attach(to *split.Device, l *processList) {
	if d.list = l; l == nil || float64(len(l.processes)) < l.count {
		return
	}
	for _, p := range l.processes {
		to.Processes = append(to.Processes, p.Process)
	}
}

// users adds the power of those who use a device.
func (p *gpuPower) users(pl *place, b *board, d *device, s *split.Device, t int64, now time.Time) {
	for k := range s.Holders {
		h := &s.Holders[k]
		p.write.ofHolder(b, h, d.holders[k], t)
		if e, ok := p.count(pl, d.id, h, t, now); ok {
			p.write.energy(d.holders[k], e.Start, t, e.Joules)
		}
	}
	if len(s.Holders) > 0 {
		p.shared[d.id] = true
	}
	for k := range s.Processes {
		p.write.ofProcess(b, d.list.processes[k], &s.Processes[k], t)
	}
}

// report counts what became of the batch.
func (p *gpuPower) report(ctx context.Context) {
	for r, n := range p.read.dropped {
		if n > 0 {
			p.telemetry.ProcessorGpuPowerPointsDropped.Add(ctx, n, p.reasons[r])
		}
	}
	if p.read.clamped > 0 {
		p.telemetry.ProcessorGpuPowerPointsClamped.Add(ctx, p.read.clamped)
	}
	for s, n := range p.frozen {
		if n > 0 {
			p.telemetry.ProcessorGpuPowerFrozen.Add(ctx, n, p.sources[s])
		}
	}
	if p.refused > 0 {
		p.telemetry.ProcessorGpuPowerSeriesRefused.Add(ctx, p.refused)
	}
	for k, n := range p.kinds {
		p.telemetry.ProcessorGpuPowerBoards.Record(ctx, n, p.kindNames[k])
	}
	p.telemetry.ProcessorGpuPowerSeries.Record(ctx, int64(p.series))
	p.read.dropped, p.read.clamped = [numDropReasons]int64{}, 0
	p.frozen, p.refused = [split.NumSources]int64{}, 0
}
