package pdatagpu

import (
	"bytes"
	"context"
	"runtime"
	"strings"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pipeline"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
)

// Offer is what a [Sender] hands over beside a batch of metrics, in the context of the call
// that the batch travels in. It is valid during that call.
type Offer struct {
	// Payload is what is handed over.
	Payload any

	sender *Sender
	beside pmetric.Metrics // the very batch that was sent
	// whole makes the batch that says in metrics what the payload and the batch beside it
	// say; it is set where the sender wants to know whether it may hand over.
	whole func() pmetric.Metrics
	span  *eventSpan

	taken   bool
	answer  *Taker // who may take from now on
	refusal string // why nobody may
}

type offerKey struct{}

func with(ctx context.Context, o *Offer) context.Context {
	return context.WithValue(ctx, offerKey{}, o)
}

// Sender hands payloads to the next component, which must be a [Taker]'s, without making
// metrics of them. Its first batch goes out as metrics and tells whether that is possible:
// the taker must get the very batch that was sent, unchanged, with nothing in between but
// the collector's own wrappers and memory_limiter. Where it is not, all batches are metrics,
// and the log says why. A Sender may be used by several goroutines.
type Sender struct {
	logger *zap.Logger

	mu      sync.Mutex
	probing bool
	to      *Taker // nil until one may take
	refused bool
}

// NewSender returns a sender. One that is not enabled sends metrics alone.
func NewSender(logger *zap.Logger, enabled bool) *Sender {
	return &Sender{logger: logger, refused: !enabled}
}

// Send sends a batch to next. beside makes the part that is not handed over; payload makes
// metrics of what is. Both may be called more than once, and payload gets the batch to
// append to.
func (s *Sender) Send(ctx context.Context, next consumer.Metrics, handed any, beside func() pmetric.Metrics, payload func(pmetric.Metrics)) error {
	whole := func() pmetric.Metrics {
		md := beside()
		payload(md)
		return md
	}
	s.mu.Lock()
	to, probe := s.to, s.to == nil && !s.refused && !s.probing
	s.probing = s.probing || probe
	s.mu.Unlock()
	switch {
	case to != nil:
		return s.hand(ctx, next, handed, beside, payload)
	case probe:
		return s.probe(ctx, next, handed, whole)
	default:
		return next.ConsumeMetrics(ctx, whole())
	}
}

// hand hands a payload over. Where the taker does not acknowledge it, and nobody in between
// refused the call, the payload goes out as metrics in a second call.
func (s *Sender) hand(ctx context.Context, next consumer.Metrics, handed any, beside func() pmetric.Metrics, payload func(pmetric.Metrics)) error {
	o := &Offer{Payload: handed, sender: s, beside: beside()}
	err := next.ConsumeMetrics(with(ctx, o), o.beside)
	o.Payload = nil // a queue behind the taker may keep the context
	if o.taken || err != nil {
		return err
	}
	s.refuse("it was not taken")
	md := pmetric.NewMetrics()
	payload(md)
	return next.ConsumeMetrics(ctx, md)
}

// probe sends the first batch as metrics and learns whether the next ones may be handed over.
func (s *Sender) probe(ctx context.Context, next consumer.Metrics, handed any, whole func() pmetric.Metrics) error {
	span := &eventSpan{Span: trace.SpanFromContext(ctx)}
	o := &Offer{Payload: handed, sender: s, beside: whole(), whole: whole, span: span}
	err := next.ConsumeMetrics(with(trace.ContextWithSpan(ctx, span), o), o.beside)
	s.mu.Lock()
	s.probing = false
	s.to = o.answer
	s.mu.Unlock()
	switch {
	case o.answer != nil:
		s.logger.Info("What is scraped is handed to the next processor without a detour")
	case o.refusal != "":
		s.refuse(o.refusal)
	case err == nil:
		s.refuse("no gpu_synthesizer was reached in the same call")
	}
	return err // an error without an answer: it is tried again with the next batch
}

// refuse makes all further batches metrics.
func (s *Sender) refuse(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.refused {
		s.refused, s.to = true, nil
		s.logger.Info("What is scraped is sent to the next processor as metrics", zap.String("reason", why))
	}
}

// Taker takes what a [Sender] hands over.
type Taker struct {
	id       component.ID
	wants    func(payload any) bool // whether it can take a payload
	incoming metric.Int64Counter
	self     metric.MeasurementOption
}

// NewTaker returns the taker of a processor made with processorhelper.
func NewTaker(set processor.Settings, wants func(payload any) bool) (*Taker, error) {
	// The helper counts the points of batches; this is its counter.
	incoming, err := set.MeterProvider.Meter("go.opentelemetry.io/collector/processor/processorhelper").Int64Counter(
		"otelcol_processor_incoming_items",
		metric.WithDescription("Number of items passed to the processor. [Alpha]"),
		metric.WithUnit("{item}"),
	)
	self := metric.WithAttributeSet(attribute.NewSet(
		attribute.String("processor", set.ID.String()), attribute.String("otel.signal", pipeline.SignalMetrics.String())))
	return &Taker{set.ID, wants, incoming, self}, err
}

// Count counts points that came without being in a batch.
func (t *Taker) Count(ctx context.Context, points int) { t.incoming.Add(ctx, int64(points), t.self) }

// Take returns the payload that was handed over beside a batch, or nil. From then on the
// sender relies on the taker to process it.
func (t *Taker) Take(ctx context.Context, md pmetric.Metrics) any {
	o, _ := ctx.Value(offerKey{}).(*Offer)
	between := ""
	if o != nil && o.whole != nil {
		if between = foreignCaller(); between == anotherGoroutine {
			return nil // the sender's call may have ended: nothing of the offer may be read
		}
	}
	switch {
	case o == nil || o.taken || o.answer != nil || o.refusal != "":
		return nil
	case o.whole != nil:
		if o.refusal = t.judge(o, md, between); o.refusal == "" {
			o.answer = t
		}
		return nil // this batch is metrics
	case o.beside != md || o.sender.taker() != t:
		return nil
	}
	o.taken = true
	return o.Payload
}

func (s *Sender) taker() *Taker {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.to
}

// judge returns why the taker may not take what the sender of a batch hands over, empty
// when it may.
func (t *Taker) judge(o *Offer, md pmetric.Metrics, between string) string {
	if !t.wants(o.Payload) {
		return t.id.String() + " wants metrics"
	}
	if o.beside != md {
		return "a fan-out or a processor between has copied the batch"
	}
	for _, id := range o.span.processors() {
		if id != t.id.String() && id != memoryLimiter && !strings.HasPrefix(id, memoryLimiter+"/") {
			return "the processor " + id + " stands between"
		}
	}
	if between != "" {
		return between + " stands between"
	}
	m := &pmetric.ProtoMarshaler{}
	sent, err := m.MarshalMetrics(o.whole())
	if err != nil {
		return err.Error()
	}
	came, err := m.MarshalMetrics(md)
	if err != nil {
		return err.Error()
	}
	if !bytes.Equal(sent, came) {
		return "the batch was changed in between"
	}
	return ""
}

const (
	memoryLimiter    = "memory_limiter"
	anotherGoroutine = "another goroutine"
)

// passing are packages whose functions pass a call on with its context and its batch.
var passing = []string{
	"go.opentelemetry.io/collector/consumer.",
	"go.opentelemetry.io/collector/consumer/internal.",
	"go.opentelemetry.io/collector/service/internal/",
	processorHelper, // whose processors name themselves on the span
}

const processorHelper = "go.opentelemetry.io/collector/processor/processorhelper."

// foreignCaller returns the function nearest to the sender's call of the next consumer,
// between it and the taker's processor, that is not known to pass calls on. A fan-out is
// one: each of its branches would get the payload.
func foreignCaller() string {
	pcs := make([]uintptr, 128)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	foreign, own := "", true // the taker's own functions, up to the helper that calls them
	for {
		f, more := frames.Next()
		switch {
		case strings.HasSuffix(f.Function, "/pdatagpu.(*Sender).probe"):
			return foreign
		case own:
			own = !strings.HasPrefix(f.Function, processorHelper)
		case !isPassing(f.Function):
			foreign = f.Function
		}
		if !more {
			return anotherGoroutine
		}
	}
}

func isPassing(function string) bool {
	for _, prefix := range passing {
		if strings.HasPrefix(function, prefix) {
			return true
		}
	}
	return false
}

// eventSpan is a span that remembers which processors named themselves on it: those of the
// collector's helper do so with each batch.
type eventSpan struct {
	trace.Span
	mu  sync.Mutex
	ids []string
}

// AddEvent implements trace.Span.
func (s *eventSpan) AddEvent(name string, options ...trace.EventOption) {
	s.mu.Lock()
	event := trace.NewEventConfig(options...)
	for _, a := range event.Attributes() {
		if a.Key == "processor" {
			s.ids = append(s.ids, a.Value.AsString())
		}
	}
	s.mu.Unlock()
	s.Span.AddEvent(name, options...)
}

func (s *eventSpan) processors() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ids
}

// Behind returns a consumer that does not hand a processor's offer on: what it was given is
// not meant for the components behind it.
func Behind(next consumer.Metrics) consumer.Metrics { return behind{next} }

type behind struct{ consumer.Metrics }

// ConsumeMetrics implements consumer.Metrics.
func (b behind) ConsumeMetrics(ctx context.Context, md pmetric.Metrics) error {
	if ctx.Value(offerKey{}) != nil {
		ctx = with(ctx, nil)
	}
	return b.Metrics.ConsumeMetrics(ctx, md)
}

// Owned returns a batch that may be changed: md itself, or a copy where others read it too.
// So that the collector puts no fan-out between a receiver and its only pipeline, our
// processors say that they do not change data; a fan-out marks what it shares.
func Owned(md pmetric.Metrics) pmetric.Metrics {
	if !md.IsReadOnly() {
		return md
	}
	own := pmetric.NewMetrics()
	md.CopyTo(own)
	return own
}
