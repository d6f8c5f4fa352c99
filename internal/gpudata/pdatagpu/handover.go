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
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Payload is what a component can hand to the next one instead of metrics.
type Payload interface {
	// Points returns how many points the payload has as metrics.
	Points() int
	// WriteTo appends these points to a batch.
	WriteTo(md pmetric.Metrics)
}

// offer is what a [Sender] hands over beside a batch of metrics, in the context of the call
// that the batch travels in. It is valid during that call.
type offer struct {
	payload Payload
	sender  *Sender
	beside  pmetric.Metrics // the very batch that was sent
	// whole makes the batch that says in metrics what the payload and the batch beside it
	// say; it is set where the sender wants to know whether it may hand over.
	whole func() pmetric.Metrics
	span  *eventSpan

	taken   bool
	answer  *Taker // which may take from now on
	refusal string // why nobody may
}

type offerKey struct{}

func with(ctx context.Context, o *offer) context.Context {
	return context.WithValue(ctx, offerKey{}, o)
}

// Sender hands payloads to the next component, which must have a [Taker], without making
// metrics of them. Its first batch goes out as metrics and tells whether that is possible:
// the taker must get the very batch that was sent, unchanged, with nothing in between but
// the collector's own wrappers and memory_limiter. Where it is not, all batches are metrics,
// and the log says why. A Sender may be used by several goroutines.
type Sender struct {
	logger *zap.Logger
	level  zapcore.Level // of what is said of handing over
	shared bool          // others are handed the same

	mu      sync.Mutex
	probing bool
	to      *Taker // nil until one may take
	refused bool
}

// NewSender returns a sender. One that is not enabled sends metrics alone.
func NewSender(logger *zap.Logger, level zapcore.Level, enabled bool) *Sender {
	return &Sender{logger: logger, level: level, refused: !enabled}
}

// Send sends a payload and a batch beside it to next. The batch is not used any more then.
func (s *Sender) Send(ctx context.Context, next consumer.Metrics, p Payload, beside pmetric.Metrics) error {
	s.mu.Lock()
	to, probe := s.to, s.to == nil && !s.refused && !s.probing
	s.probing = s.probing || probe
	s.mu.Unlock()
	switch {
	case to != nil:
		return s.hand(ctx, next, p, beside)
	case probe:
		return s.probe(ctx, next, p, beside)
	default:
		p.WriteTo(beside)
		return next.ConsumeMetrics(ctx, beside)
	}
}

// hand hands a payload over. Where nobody acknowledges it, and nobody in between refused the
// call, the payload goes out as metrics in a second call.
func (s *Sender) hand(ctx context.Context, next consumer.Metrics, p Payload, beside pmetric.Metrics) error {
	o := &offer{payload: p, sender: s, beside: beside}
	err := next.ConsumeMetrics(with(ctx, o), o.beside)
	o.payload = nil // a queue behind the taker may keep the context
	if o.taken || err != nil {
		return err
	}
	s.refuse("they were not taken")
	md := pmetric.NewMetrics()
	p.WriteTo(md)
	return next.ConsumeMetrics(ctx, md)
}

// probe sends the first batch as metrics and learns whether the next ones may be handed over.
func (s *Sender) probe(ctx context.Context, next consumer.Metrics, p Payload, beside pmetric.Metrics) error {
	whole := func() pmetric.Metrics {
		md := pmetric.NewMetrics()
		beside.CopyTo(md)
		p.WriteTo(md)
		return md
	}
	span := &eventSpan{Span: trace.SpanFromContext(ctx)}
	o := &offer{payload: p, sender: s, beside: whole(), whole: whole, span: span}
	err := next.ConsumeMetrics(with(trace.ContextWithSpan(ctx, span), o), o.beside)
	s.mu.Lock()
	s.probing = false
	s.to = o.answer
	s.mu.Unlock()
	switch {
	case o.answer != nil:
		s.logger.Log(s.level, "Samples are handed to the next component without a detour")
	case o.refusal != "":
		s.refuse(o.refusal)
	case err == nil:
		s.refuse("nobody who takes them was reached in the same call")
	}
	return err // an error without an answer: it is tried again with the next batch
}

// refuse makes all further batches metrics.
func (s *Sender) refuse(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.refused {
		s.refused, s.to = true, nil
		s.logger.Log(s.level, "Samples are sent to the next component as metrics", zap.String("reason", why))
	}
}

func (s *Sender) taker() *Taker {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.to
}

// hands reports whether payloads are handed over, or may be yet.
func (s *Sender) hands() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.refused
}

// Taker is the side of a component that takes payloads. The component's ConsumeMetrics asks it.
type Taker struct {
	ID component.ID // the component's
	// Takes reports whether the component can use a payload instead of metrics; nil: none.
	Takes func(Payload) bool
	// Reads says that the component leaves payloads as they came, but for their order: others may be
	// handed the same after it.
	Reads bool
}

// take returns the payload that was handed over beside a batch, or nil. From then on the
// sender relies on the taker to process it.
func (t *Taker) take(ctx context.Context, md pmetric.Metrics) Payload {
	o, _ := ctx.Value(offerKey{}).(*offer)
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
	return o.payload
}

// judge returns why the component may not take what the sender of a batch hands over, empty
// when it may.
func (t *Taker) judge(o *offer, md pmetric.Metrics, between string) string {
	if t.Takes == nil || !t.Takes(o.payload) {
		return t.ID.String() + " wants metrics"
	}
	if o.sender.shared && !t.Reads {
		return t.ID.String() + " adds to what others are handed too"
	}
	if o.beside != md {
		return "a fan-out or a processor between has copied the batch"
	}
	for _, id := range o.span.processors() {
		if id != t.ID.String() && id != memoryLimiter && !strings.HasPrefix(id, memoryLimiter+"/") {
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
	"go.opentelemetry.io/collector/processor/processorhelper.", // whose processors name themselves on the span
}

// foreignCaller returns the function nearest to the sender's call of the next consumer,
// between it and the taker's component, that is not known to pass calls on. A fan-out is
// one: each of its branches would get the payload.
func foreignCaller() string {
	pcs := make([]uintptr, 128)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	foreign, own := "", true // the taker's own functions
	for {
		f, more := frames.Next()
		switch {
		case strings.HasSuffix(f.Function, "/pdatagpu.(*Sender).probe"):
			return foreign
		case own:
			own = !strings.HasSuffix(f.Function, ".ConsumeMetrics")
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
