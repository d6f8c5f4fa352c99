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

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Functions contains the functions that implement a component. The component runs in a pipeline or
// as a stage.
type Functions struct {
	Start    component.StartFunc
	Shutdown component.ShutdownFunc
	// TakesRows is true if Process reads the rows of a scrape. If TakesRows is false, the rows are
	// first converted to metrics.
	TakesRows bool
	// Process processes an arrival. The metrics that Process leaves in the arrival and the frames
	// that Process returns are sent to the next component. Process may be called concurrently.
	// Process must not use the frames after it has returned them.
	Process func(context.Context, *Arrival) ([]*gpudata.Frame, error)
}

// Arrival is the input of Process. Process owns the Arrival.
type Arrival struct {
	// Metrics may be shared with other consumers. Call Own before modifying the metrics.
	Metrics pmetric.Metrics
	// Rows are the rows of a scrape if the component is a stage of the receiver that scraped them.
	// Otherwise, Rows is nil.
	Rows *Rows
	// Frames are the frames of the previous stage, oldest first.
	Frames []*gpudata.Frame
}

// Processor is a component in a pipeline. A Processor works like the Collector's processorhelper,
// but it can also be one of the [Stages] of another component.
type Processor struct {
	component.StartFunc
	component.ShutdownFunc
	takesRows bool
	next      consumer.Metrics
	process   func(context.Context, *Arrival) ([]*gpudata.Frame, error)

	scope        gpudata.Scope
	writers      sync.Pool // contains *Writer
	descriptions *descriptions

	incoming, outgoing metric.Int64Counter
	duration           metric.Float64Histogram
	self               metric.MeasurementOption
	event              trace.EventOption
}

var _ processor.Metrics = (*Processor)(nil)

// NewProcessor returns a processor.
func NewProcessor(set processor.Settings, scope gpudata.Scope, next consumer.Metrics, f Functions) (*Processor, error) {
	id := attribute.String("processor", set.ID.String())
	p := &Processor{
		StartFunc: f.Start, ShutdownFunc: f.Shutdown, takesRows: f.TakesRows, next: next,
		process: f.Process,
		scope:   scope, descriptions: newDescriptions(maxDescriptions),
		self:  metric.WithAttributeSet(attribute.NewSet(id, attribute.String("otel.signal", pipeline.SignalMetrics.String()))),
		event: trace.WithAttributes(id),
	}
	// The following self-metrics are the same as those of processorhelper.
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

// Capabilities implements consumer.Metrics. If a batch is shared, the processor itself copies the
// batch when necessary. See [Arrival.Own].
func (p *Processor) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

// ConsumeMetrics implements consumer.Metrics.
func (p *Processor) ConsumeMetrics(ctx context.Context, md pmetric.Metrics) error {
	span := trace.SpanFromContext(ctx)
	span.AddEvent("Start processing.", p.event)
	begin := time.Now()
	p.incoming.Add(ctx, int64(md.DataPointCount()), p.self)
	a := &Arrival{Metrics: md}
	frames, err := p.process(ctx, a)
	p.duration.Record(ctx, time.Since(begin).Seconds(), p.self)
	span.AddEvent("End processing.", p.event)
	if err != nil {
		return err
	}
	p.write(frames, a)
	p.outgoing.Add(ctx, int64(a.Metrics.DataPointCount()), p.self)
	if a.Metrics.ResourceMetrics().Len() == 0 {
		return nil
	}
	return p.next.ConsumeMetrics(ctx, a.Metrics)
}

// write adds the frames to the metrics of an arrival.
func (p *Processor) write(frames []*gpudata.Frame, to *Arrival) {
	if len(frames) == 0 {
		return
	}
	w, reused := p.writers.Get().(*Writer)
	if !reused {
		w = &Writer{Scope: p.scope, descriptions: p.descriptions}
	}
	w.Write(frames, to.Own())
	p.writers.Put(w)
}

// Own returns metrics that the caller may modify. If other consumers share the metrics, Own copies
// the metrics first.
func (a *Arrival) Own() pmetric.Metrics {
	if a.Metrics.IsReadOnly() {
		own := pmetric.NewMetrics()
		a.Metrics.CopyTo(own)
		a.Metrics = own
	}
	return a.Metrics
}

// ReadOnly returns the frames of the previous stage and the frames that are read from the metrics.
// The caller must not modify the frames. See [Read].
func (a *Arrival) ReadOnly(wants func(*signal.Metric) bool) *Batch {
	return a.join(Read(a.Metrics, wants))
}

// join adds the frames of the previous stage to a batch.
func (a *Arrival) join(b *Batch) *Batch {
	for _, f := range a.Frames {
		f.Sort()
		f.MarkIncoming()
	}
	b.Frames = append(slices.Clone(a.Frames), b.read...)
	slices.SortStableFunc(b.Frames, (*gpudata.Frame).Compare)
	return b
}
