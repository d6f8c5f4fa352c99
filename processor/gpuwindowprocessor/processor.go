package gpuwindowprocessor

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor/internal/window"
)

// maxWait is the longest time that the emission loop waits between checks. The limit ensures that
// the loop soon detects that the wall clock was set forward.
const maxWait = time.Second

const (
	// maxJitter is the maximum delay before closed windows are sent. Each process chooses a random
	// delay when it starts, so that many agents do not send windows at the same time.
	maxJitter = time.Second
	// maxSaveInterval is the maximum time between two writes of a node's state. If the process
	// crashes, the samples from at most this period are lost.
	maxSaveInterval = 30 * time.Second
)

// forever is later than the end of every window.
var forever = time.Unix(0, math.MaxInt64)

// windowProcessor runs an engine. The processor adds samples to the engine when they arrive, and
// sends windows after they close.
type windowProcessor struct {
	cfg       *Config
	id        component.ID
	logger    *zap.Logger
	next      consumer.Metrics
	telemetry *metadata.TelemetryBuilder
	points    map[bool]metric.MeasurementOption

	engine  *window.Engine
	readers sync.Pool // of *reader
	writer  writer
	store   *stateStore
	// jitter is the random delay before closed windows are sent.
	jitter time.Duration

	// The emission loop uses the following fields. After the loop has ended, the shutdown method
	// uses these fields.
	rows        []window.Row
	due         time.Time
	pauseUntil  time.Time // time after which batches are sent without pauses
	nextSave    time.Time
	sendFailure componenthelper.Failure
	health      healthCheck

	conflicts conflictDetector

	stop     chan struct{}
	done     chan struct{}
	cancel   context.CancelFunc
	shutOnce sync.Once
}

func newWindowProcessor(set processor.Settings, cfg *Config, next consumer.Metrics) (*windowProcessor, error) {
	telemetry, err := metadata.NewTelemetryBuilder(set.TelemetrySettings)
	if err != nil {
		return nil, err
	}
	p := &windowProcessor{
		cfg: cfg, id: set.ID, logger: set.Logger, next: next, telemetry: telemetry,
		points: map[bool]metric.MeasurementOption{true: outcome("emitted"), false: outcome("dropped")},
		writer: writer{
			version: set.BuildInfo.Version, starts: cfg.StartTimestamp,
			onResources: cfg.DeviceAttributes == onResources,
			flat:        cfg.FlatAttributes,
		},
	}
	p.health = newWatch(cfg, set.ID, set.Logger)
	p.conflicts = conflictDetector{logger: set.Logger, idle: cfg.IdleTimeout, counters: map[counterID]*counterStarts{}}
	p.sendFailure = componenthelper.Failure{
		Logger: set.Logger, Level: zap.ErrorLevel,
		Fails: "The next consumer refuses windows; they are dropped.", Works: "The next consumer takes windows again.",
	}
	if !cfg.noJitter {
		p.jitter = rand.N(min(maxJitter, cfg.Window/60))
	}
	return p, nil
}

func outcome(name string) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(attribute.String("outcome", name)))
}

// start restores the state, if storage is configured, and starts the emission loop.
func (p *windowProcessor) start(ctx context.Context, host component.Host) error {
	if p.cfg.Storage != nil {
		s, err := openStore(ctx, host, p.cfg, p.id, p.logger, p.telemetry)
		if err != nil {
			return err
		}
		p.store = s
		p.engine = s.restore(ctx, p.cfg.settings(), time.Now())
	} else {
		p.engine = window.New(p.cfg.settings(), time.Now())
	}
	if err := p.observe(); err != nil {
		return err
	}
	p.stop, p.done = make(chan struct{}), make(chan struct{})
	// The emission loop outlives the call to the start method.
	loop, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p.cancel = cancel
	go p.run(loop)
	return nil
}

// The observe method registers the engine's counts as self-metrics.
func (p *windowProcessor) observe() error {
	var outcomes [window.Outcomes]metric.MeasurementOption
	for o := range outcomes {
		outcomes[o] = outcome(window.Outcome(o).String())
	}
	closed, dropped := outcome("closed"), outcome("dropped")
	t := p.telemetry
	for _, register := range []func() error{
		func() error {
			return t.RegisterProcessorGpuWindowSamplesCallback(func(_ context.Context, o metric.Int64Observer) error {
				for i, n := range p.engine.Stats().Samples {
					o.Observe(int64(n), outcomes[i])
				}
				return nil
			})
		},
		func() error {
			return t.RegisterProcessorGpuWindowWindowsCallback(func(_ context.Context, o metric.Int64Observer) error {
				s := p.engine.Stats()
				o.Observe(int64(s.WindowsClosed), closed)
				o.Observe(int64(s.WindowsDropped), dropped)
				return nil
			})
		},
		p.observed(t.RegisterProcessorGpuWindowClampedCallback, func(s window.Stats) int64 { return int64(s.Clamped) }),
		p.observed(t.RegisterProcessorGpuWindowClockStepsCallback, func(s window.Stats) int64 { return int64(s.ClockSteps) }),
		p.observed(t.RegisterProcessorGpuWindowSeriesCallback, func(s window.Stats) int64 { return int64(s.Series) }),
		p.observed(t.RegisterProcessorGpuWindowSeriesEndedCallback, func(s window.Stats) int64 { return int64(s.SeriesEnded) }),
		p.observed(t.RegisterProcessorGpuWindowSeriesLimitCallback, func(window.Stats) int64 { return int64(p.cfg.MaxSeries) }),
	} {
		if err := register(); err != nil {
			return err
		}
	}
	return nil
}

// The observed method returns a function that registers one of the engine's counts as a
// self-metric.
func (p *windowProcessor) observed(register func(metric.Int64Callback) error, count func(window.Stats) int64) func() error {
	return func() error {
		return register(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(count(p.engine.Stats()))
			return nil
		})
	}
}

// The process method adds the samples of a batch to the engine. Afterward, only metrics that are
// forwarded immediately remain in the batch.
func (p *windowProcessor) process(_ context.Context, a *pdatagpu.Arrival) ([]*gpudata.Frame, error) {
	now := time.Now()
	in := p.engine.Begin(now)
	r, ok := p.readers.Get().(*reader)
	if !ok {
		r = &reader{conflicts: &p.conflicts}
	}
	r.read(in, a.Metrics, now)
	for _, f := range a.Frames {
		frameReaderOf(in, f, p.cfg.MaxSeries).read(in, f, now)
	}
	r.read(in, a.Unplaced(), now)
	in.End()
	p.health.logDelta(r.delta, now)
	r.delta = ""
	p.readers.Put(r)
	if p.cfg.Passthrough == passthroughAll {
		return a.Frames, nil
	}
	a.Metrics = onlyUntouched(a.Metrics)
	if p.cfg.FlatAttributes {
		pdatagpu.Flatten(a.Own())
	}
	return nil, nil
}

// run runs the emission loop.
func (p *windowProcessor) run(ctx context.Context) {
	defer close(p.done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-timer.C:
		}
		p.tick(ctx)
		timer.Reset(p.nextDelay(time.Now()))
	}
}

// tick performs all work that is due.
func (p *windowProcessor) tick(ctx context.Context) {
	now := time.Now()
	upTo, pending := p.engine.ClosedUpTo(now)
	if pending && p.due.IsZero() {
		p.due = now.Add(p.jitter)
	}
	if pending && !now.Before(p.due) {
		p.due = time.Time{}
		p.emit(ctx, upTo)
	}
	p.health.logProblems(p.engine.Stats(), time.Now())
	if now := time.Now(); !now.Before(p.engine.NextExpiry()) {
		p.expire(ctx, now)
	}
	if now := time.Now(); p.store != nil && !now.Before(p.nextSave) {
		p.nextSave = now.Add(p.store.step)
		p.store.save(ctx, p.engine, now, false)
	}
}

// nextDelay returns how long the emission loop must wait until work is due.
func (p *windowProcessor) nextDelay(now time.Time) time.Duration {
	wait := min(maxWait, p.engine.NextClose().Sub(now), p.engine.NextExpiry().Sub(now))
	if !p.due.IsZero() {
		wait = min(wait, p.due.Sub(now))
	}
	if p.store != nil {
		wait = min(wait, p.nextSave.Sub(now))
	}
	return max(wait, time.Millisecond)
}

// The emit method sends the windows that end at or before upTo. If storage is configured, the
// windows are marked as sent in storage before emit sends them, so that no window is sent twice. If
// writing to storage fails, emit still sends the windows.
func (p *windowProcessor) emit(ctx context.Context, upTo time.Time) {
	if p.store != nil {
		p.store.markClosed(ctx, upTo)
	}
	p.pauseUntil = time.Now().Add(p.cfg.Window / 4)
	for em := p.engine.Fetch(upTo); em != nil; em = p.engine.Fetch(upTo) {
		for more := true; more; {
			p.rows, more = em.Next(p.rows, p.cfg.maxBatchPoints)
			p.send(ctx, !more)
		}
		em.Close()
	}
}

// batchPause is the pause between two batches of an emission. Without pauses, the queue of an
// exporter would contain all points of a window at the same time.
const batchPause = 50 * time.Millisecond

// pauseBetweenBatches waits for batchPause, unless the emission has already taken too long or the
// processor is shutting down.
func (p *windowProcessor) pauseBetweenBatches() {
	if time.Now().After(p.pauseUntil) {
		return
	}
	timer := time.NewTimer(batchPause)
	defer timer.Stop()
	select {
	case <-p.stop:
	case <-timer.C:
	}
}

// The expire method ends idle series and sends the points that mark their ends.
func (p *windowProcessor) expire(ctx context.Context, now time.Time) {
	for more := true; more; {
		p.rows, more = p.engine.Expire(now, p.rows, p.cfg.maxBatchPoints)
		p.send(ctx, !more)
	}
}

// send sends the rows in batches of limited size. If the all parameter is false, rows that do not
// fill a batch are kept for the next call.
func (p *windowProcessor) send(ctx context.Context, all bool) {
	rows := p.rows
	for limit := p.cfg.maxBatchPoints; len(rows) >= limit || all && len(rows) > 0; {
		n := p.sendBatch(ctx, rows[:min(limit, len(rows))])
		if rows = rows[n:]; !all || len(rows) > 0 {
			p.pauseBetweenBatches()
		}
	}
	p.rows = p.rows[:copy(p.rows, rows)]
}

// sendBatch sends as many rows as fit in one batch to the next consumer, and returns how many rows
// it sent. If the context is done, sendBatch drops all rows instead. If the consumer refuses the
// batch, the batch is dropped, because exporter queues are responsible for retries.
func (p *windowProcessor) sendBatch(ctx context.Context, rows []window.Row) int {
	if ctx.Err() != nil {
		p.countPoints(ctx, len(rows), false)
		return len(rows)
	}
	md, n := p.writer.writeBatch(rows)
	err := p.next.ConsumeMetrics(ctx, md)
	p.countPoints(ctx, n, err == nil)
	p.sendFailure.Result(err)
	return n
}

func (p *windowProcessor) countPoints(ctx context.Context, points int, emitted bool) {
	p.telemetry.ProcessorGpuWindowPoints.Add(ctx, int64(points), p.points[emitted])
}

// shutdownPatience is the maximum time that the processor spends sending windows at shutdown. The
// context that the Collector passes has no deadline, but an orchestrator kills a process that does
// not exit within about 30 s.
const shutdownPatience = 5 * time.Second

// shutdown stops the emission loop and sends closed windows. If storage is configured, shutdown
// stores the open windows. If storage is not configured, shutdown sends the observed part of the
// open windows. In a tier, the storage may never be read again. Therefore, windows that have ended
// are sent even if their grace period is not over. Points that cannot be sent within
// shutdownPatience are dropped and counted. If storage is configured and shutdownPatience is over
// before shutdown starts to send windows, shutdown stores the windows instead of dropping them.
func (p *windowProcessor) shutdown(ctx context.Context) error {
	var err error
	p.shutOnce.Do(func() {
		defer p.telemetry.Shutdown()
		defer p.health.series.Forget()
		if p.stop == nil {
			return
		}
		flush, stopFlush := context.WithTimeout(ctx, shutdownPatience)
		defer stopFlush()
		defer p.cancel()
		close(p.stop)
		// The loop may be blocked in a call to the next consumer or to the storage. The blocked
		// call returns when the context of the loop is canceled.
		defer context.AfterFunc(flush, p.cancel)()
		select {
		case <-p.done:
		case <-ctx.Done():
			err = ctx.Err()
			return
		}
		if p.store == nil {
			p.emit(flush, forever)
			return
		}
		p.engine.Stop()
		// If there is no time left to send windows, they are sent after the restart.
		now := time.Now()
		upTo, pending := p.engine.ClosedUpTo(now)
		length := int64(p.cfg.Window)
		if ended := time.Unix(0, now.UnixNano()/length*length); p.cfg.Tier && ended.After(upTo) {
			upTo, pending = ended, true
		}
		if pending && flush.Err() == nil {
			p.emit(flush, upTo)
		}
		p.store.save(ctx, p.engine, time.Now(), true)
		err = p.store.close(ctx)
	})
	return err
}
