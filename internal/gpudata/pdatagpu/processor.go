package pdatagpu

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pipeline"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap/zapcore"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Functions are what a component does in a pipeline.
type Functions struct {
	Start    component.StartFunc
	Shutdown component.ShutdownFunc
	// Takes reports whether the component can use a payload instead of metrics; nil: none.
	Takes func(Payload) bool
	// Reads says that Process leaves frames as they came, but for their order, and returns none of them.
	Reads bool
	// Process computes on what arrived. What it leaves of the batch and the frames that it
	// returns go to the next component. It is called by several goroutines, and does not
	// own the frames any more when it has returned them.
	Process func(context.Context, *Arrival) ([]*gpudata.Frame, error)
	// Release says that the frames which Process returned are used no more; nil where nobody
	// wants to know.
	Release func([]*gpudata.Frame)
}

// Arrival is what came to a component in one call, which owns it.
type Arrival struct {
	// Metrics may be shared with others: see Own.
	Metrics pmetric.Metrics
	// Rows were handed over by a receiver; nil for none.
	Rows *Rows
	// Frames were handed over by another component, the oldest first.
	Frames []*gpudata.Frame
}

// Processor is a component in a pipeline: what the collector's processorhelper does, and
// handing over.
type Processor struct {
	component.StartFunc
	component.ShutdownFunc
	taker   Taker
	next    consumer.Metrics
	process func(context.Context, *Arrival) ([]*gpudata.Frame, error)
	release func([]*gpudata.Frame)
	sender  *Sender

	writing sync.Mutex
	writer  Writer

	incoming, outgoing metric.Int64Counter
	duration           metric.Float64Histogram
	self               metric.MeasurementOption
	event              trace.EventOption
}

var _ processor.Metrics = (*Processor)(nil)

// NewFactory returns the factory of processors with a Config of type C, which build makes, and
// whose own scope and functions stage returns.
func NewFactory[C, P any](
	of component.Type, config component.CreateDefaultConfigFunc, stability component.StabilityLevel,
	build func(*C, processor.Settings) (P, error), stage func(P) (gpudata.Scope, Functions),
) processor.Factory {
	create := func(_ context.Context, set processor.Settings, cfg component.Config, next consumer.Metrics) (processor.Metrics, error) {
		p, err := build(cfg.(*C), set) //nolint:forcetypeassert // the collector hands a factory the Config that it made
		if err != nil {
			return nil, err
		}
		scope, functions := stage(p)
		return NewProcessor(set, scope, next, functions)
	}
	return processor.NewFactory(of, config, processor.WithMetrics(create, stability))
}

// NewProcessor returns a processor.
func NewProcessor(set processor.Settings, scope gpudata.Scope, next consumer.Metrics, f Functions) (*Processor, error) {
	id := attribute.String("processor", set.ID.String())
	p := &Processor{
		StartFunc: f.Start, ShutdownFunc: f.Shutdown, taker: Taker{set.ID, f.Takes, f.Reads}, next: next,
		process: f.Process, release: f.Release,
		sender: NewSender(set.Logger, zapcore.DebugLevel, true),
		writer: Writer{Scope: scope},
		self:   metric.WithAttributeSet(attribute.NewSet(id, attribute.String("otel.signal", pipeline.SignalMetrics.String()))),
		event:  trace.WithAttributes(id),
	}
	// The same counters as processorhelper has.
	meter := set.MeterProvider.Meter("go.opentelemetry.io/collector/processor/processorhelper")
	var err error
	if p.incoming, err = meter.Int64Counter("otelcol_processor_incoming_items",
		metric.WithDescription("Number of items passed to the processor. [Alpha]"), metric.WithUnit("{item}")); err != nil {
		return nil, err
	}
	if p.outgoing, err = meter.Int64Counter("otelcol_processor_outgoing_items",
		metric.WithDescription("Number of items emitted from the processor. [Alpha]"), metric.WithUnit("{item}")); err != nil {
		return nil, err
	}
	p.duration, err = meter.Float64Histogram("otelcol_processor_internal_duration",
		metric.WithDescription("Duration of time taken to process a batch of telemetry data through the processor. [Alpha]"), metric.WithUnit("s"))
	return p, err
}

// Capabilities implements consumer.Metrics. A processor that said that it changes data would
// get a fan-out between itself and a receiver, which no payload passes: it copies batches that
// others read instead.
func (p *Processor) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

// ConsumeMetrics implements consumer.Metrics.
func (p *Processor) ConsumeMetrics(ctx context.Context, md pmetric.Metrics) error {
	span := trace.SpanFromContext(ctx)
	span.AddEvent("Start processing.", p.event)
	begin := time.Now()
	a, came := p.taker.Arrive(ctx, md)
	p.incoming.Add(ctx, int64(came), p.self)
	frames, err := p.process(ctx, a)
	p.duration.Record(ctx, time.Since(begin).Seconds(), p.self)
	span.AddEvent("End processing.", p.event)
	if err != nil {
		return err
	}
	if p.release != nil {
		defer p.release(frames)
	}
	return p.send(Behind(ctx), frames, a.Metrics)
}

// send sends what came out to the next component.
func (p *Processor) send(ctx context.Context, frames []*gpudata.Frame, md pmetric.Metrics) error {
	out := &written{frames: frames, by: p}
	unread := func(f *gpudata.Frame) bool {
		return slices.ContainsFunc(f.Devices, func(d *gpudata.DeviceFrame) bool { return d.Unread })
	}
	p.outgoing.Add(ctx, int64(md.DataPointCount()+out.Points()), p.self)
	switch {
	case out.Points() > 0, p.sender.hands() && slices.ContainsFunc(frames, unread):
		return p.sender.Send(ctx, p.next, out, md)
	case md.ResourceMetrics().Len() > 0:
		return p.next.ConsumeMetrics(ctx, md)
	}
	return nil
}

// Behind returns a context without the offer that came in it: it is not meant for the
// components behind the one that it came to.
func Behind(ctx context.Context) context.Context {
	if ctx.Value(offerKey{}) != nil {
		return with(ctx, nil)
	}
	return ctx
}

// written are frames as a payload.
type written struct {
	frames []*gpudata.Frame
	by     *Processor
	points int // 0: not counted yet
}

// Points implements Payload.
func (w *written) Points() int {
	if w.points == 0 {
		for _, f := range w.frames {
			f.Each(func(s *gpudata.Series) { w.points += len(s.Samples) })
		}
	}
	return w.points
}

// WriteTo implements Payload.
func (w *written) WriteTo(md pmetric.Metrics) {
	w.by.writing.Lock()
	defer w.by.writing.Unlock()
	w.by.writer.Write(w.frames, md)
}

// TakesFrames is the Takes of a component that computes on frames.
func TakesFrames(p Payload) bool {
	_, frames := p.(*written)
	return frames
}

// Arrive returns what came to a component in one call, and how many points it is.
func (t *Taker) Arrive(ctx context.Context, md pmetric.Metrics) (a *Arrival, points int) {
	a = &Arrival{Metrics: md}
	points = md.DataPointCount()
	switch payload := t.take(ctx, md).(type) {
	case nil:
	case *Rows:
		a.Rows = payload
		points += payload.Points()
	case *written:
		a.Frames = payload.frames
		points += payload.Points()
	}
	return a, points
}

// Own returns the metrics as ones that may be changed: a copy where others read them too.
func (a *Arrival) Own() pmetric.Metrics {
	if a.Metrics.IsReadOnly() {
		own := pmetric.NewMetrics()
		a.Metrics.CopyTo(own)
		a.Metrics = own
	}
	return a.Metrics
}

// Look returns the frames that came to somebody who adds nothing to them: see [Read].
func (a *Arrival) Look(wants func(*signal.Metric) bool) *Batch { return a.join(Read(a.Metrics, wants)) }

// Read returns the frames that came, those of the metrics among them: see [Read].
func (a *Arrival) Read(wants func(*signal.Metric) bool) *Batch { return a.join(Read(a.Own(), wants)) }

// ReadWithEnds returns the frames that came: see [ReadWithEnds].
func (a *Arrival) ReadWithEnds(wants func(*signal.Metric) bool) *Batch {
	return a.join(ReadWithEnds(a.Own(), wants))
}

// join adds the frames that were handed over to those of a batch.
func (a *Arrival) join(b *Batch) *Batch {
	for _, f := range a.Frames {
		f.Sort()
		f.Came()
	}
	b.handed = a.Frames
	b.Frames = append(slices.Clone(a.Frames), b.read...)
	slices.SortStableFunc(b.Frames, (*gpudata.Frame).Compare)
	return b
}
