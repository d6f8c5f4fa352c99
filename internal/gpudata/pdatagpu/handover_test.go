package pdatagpu

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor/processorhelper"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-gpu/otelcol-gpu/internal/exposition"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// target is a processor that takes, and remembers what came to it.
type target struct {
	*Processor
	taken   atomic.Int64 // payloads
	batches atomic.Int64 // points of batches
	fails   error
}

var synthesizer = component.MustNewID("gpu_synthesizer")

// payload is a row; nobody takes unwanted.
var payload, unwanted = rows(), rows()

func rows() *Rows {
	return &Rows{Sets: []*exposition.LabelSet{{Samples: []exposition.Sample{{Metric: &exposition.Metric{Name: "row"}, Value: 1}}}}}
}

func newTarget(t *testing.T, next consumer.Metrics) *target {
	t.Helper()
	set := processortest.NewNopSettings(synthesizer.Type())
	set.ID = synthesizer
	to := &target{}
	var err error
	to.Processor, err = NewProcessor(set, gpudata.NewScope("test", ""), next, Functions{
		Takes: func(p Payload) bool { return p != Payload(unwanted) },
		Process: func(_ context.Context, a *Arrival) ([]*gpudata.Frame, error) {
			if a.Rows != nil {
				to.taken.Add(1)
			}
			to.batches.Add(int64(a.Metrics.DataPointCount()))
			return nil, to.fails
		},
	})
	require.NoError(t, err)
	return to
}

// between returns a processor of the collector's helper in front of next.
func between(t *testing.T, id string, next consumer.Metrics, change func(pmetric.Metrics) (pmetric.Metrics, error)) consumer.Metrics {
	t.Helper()
	typ := component.MustNewType(id)
	set := processortest.NewNopSettings(typ)
	set.ID = component.NewID(typ)
	p, err := processorhelper.NewMetrics(t.Context(), set, nil, next,
		func(_ context.Context, md pmetric.Metrics) (pmetric.Metrics, error) { return change(md) })
	require.NoError(t, err)
	return p
}

func unchanged(md pmetric.Metrics) (pmetric.Metrics, error) { return md, nil }

// function is a consumer that is no processor.
type function func(context.Context, pmetric.Metrics) error

func (f function) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

func (f function) ConsumeMetrics(ctx context.Context, md pmetric.Metrics) error { return f(ctx, md) }

// gauge appends a gauge with one point.
func gauge(md pmetric.Metrics, name string) {
	m := md.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics().AppendEmpty()
	m.SetName(name)
	m.SetEmptyGauge().DataPoints().AppendEmpty().SetIntValue(1)
}

// send sends a batch of one point beside a payload of one point.
func send(ctx context.Context, s *Sender, next consumer.Metrics, p Payload) error {
	md := pmetric.NewMetrics()
	gauge(md, "up")
	return s.Send(ctx, next, p, md)
}

func newSender(logger *zap.Logger, enabled bool) *Sender {
	return NewSender(logger, zap.InfoLevel, enabled)
}

func TestWhatStandsBetweenDecidesWhetherPayloadsAreHandedOver(t *testing.T) {
	for name, tt := range map[string]struct {
		payload Payload
		between func(*testing.T, consumer.Metrics) consumer.Metrics
		refusal string // empty: handed over
	}{
		"nothing": {between: func(_ *testing.T, next consumer.Metrics) consumer.Metrics { return next }},
		"memory_limiter": {between: func(t *testing.T, next consumer.Metrics) consumer.Metrics {
			t.Helper()
			return between(t, "memory_limiter", next, unchanged)
		}},
		"a filter that lets everything through": {
			between: func(t *testing.T, next consumer.Metrics) consumer.Metrics {
				t.Helper()
				return between(t, "filter", next, unchanged)
			},
			refusal: "the processor filter stands between",
		},
		"something that is no processor": {
			between: func(_ *testing.T, next consumer.Metrics) consumer.Metrics {
				return function(next.ConsumeMetrics)
			},
			refusal: "pdatagpu.function.ConsumeMetrics stands between",
		},
		"something that copies": {
			between: func(_ *testing.T, next consumer.Metrics) consumer.Metrics {
				return function(func(ctx context.Context, md pmetric.Metrics) error {
					clone := pmetric.NewMetrics()
					md.CopyTo(clone)
					return next.ConsumeMetrics(ctx, clone)
				})
			},
			refusal: "a fan-out or a processor between has copied the batch",
		},
		"memory_limiter in name, that changes the batch": {
			between: func(t *testing.T, next consumer.Metrics) consumer.Metrics {
				t.Helper()
				return between(t, "memory_limiter", next, func(md pmetric.Metrics) (pmetric.Metrics, error) {
					md.ResourceMetrics().At(0).Resource().Attributes().PutStr("a", "b")
					return md, nil
				})
			},
			refusal: "the batch was changed in between",
		},
		"another goroutine": {
			between: func(_ *testing.T, next consumer.Metrics) consumer.Metrics {
				return function(func(ctx context.Context, md pmetric.Metrics) error {
					done := make(chan error)
					go func() { done <- next.ConsumeMetrics(ctx, md) }()
					return <-done
				})
			},
			refusal: "nobody who takes them was reached in the same call",
		},
		"a queue": {
			between: func(_ *testing.T, next consumer.Metrics) consumer.Metrics {
				return function(func(_ context.Context, md pmetric.Metrics) error {
					return next.ConsumeMetrics(context.Background(), md) //nolint:contextcheck // as queues do
				})
			},
			refusal: "nobody who takes them was reached in the same call",
		},
		"a taker that wants metrics": {
			payload: unwanted,
			between: func(_ *testing.T, next consumer.Metrics) consumer.Metrics { return next },
			refusal: "gpu_synthesizer wants metrics",
		},
	} {
		t.Run(name, func(t *testing.T) {
			core, logs := observer.New(zap.InfoLevel)
			s, to := newSender(zap.New(core), true), newTarget(t, consumertest.NewNop())
			if tt.payload == nil {
				tt.payload = payload
			}
			next := tt.between(t, to)
			require.NoError(t, send(t.Context(), s, next, tt.payload))
			assert.EqualValues(t, 0, to.taken.Load(), "the first batch is metrics")
			assert.EqualValues(t, 2, to.batches.Load())
			require.NoError(t, send(t.Context(), s, next, tt.payload))
			require.Equal(t, 1, logs.Len(), "one line a link")
			if tt.refusal == "" {
				assert.EqualValues(t, 1, to.taken.Load())
				assert.EqualValues(t, 2+1, to.batches.Load(), "what is not handed over is in the batch")
				return
			}
			assert.EqualValues(t, 0, to.taken.Load())
			assert.EqualValues(t, 2+2, to.batches.Load())
			assert.Contains(t, logs.All()[0].ContextMap()["reason"], tt.refusal)
		})
	}
}

func TestASenderThatIsNotEnabledSendsMetrics(t *testing.T) {
	s, to := newSender(zap.NewNop(), false), newTarget(t, consumertest.NewNop())
	for range 3 {
		require.NoError(t, send(t.Context(), s, to, payload))
	}
	assert.EqualValues(t, 0, to.taken.Load())
	assert.EqualValues(t, 3*2, to.batches.Load())
}

func TestAPayloadThatIsNotTakenGoesOutAsMetricsOnceInASecondCall(t *testing.T) {
	s, to, elsewhere := newSender(zap.NewNop(), true), newTarget(t, consumertest.NewNop()), &consumertest.MetricsSink{}
	require.NoError(t, send(t.Context(), s, to, payload))
	require.NoError(t, send(t.Context(), s, elsewhere, payload))
	require.Len(t, elsewhere.AllMetrics(), 2)
	var names []string
	for _, md := range elsewhere.AllMetrics() {
		require.Equal(t, 1, md.DataPointCount())
		names = append(names, md.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().At(0).Name())
	}
	assert.Equal(t, []string{"up", "row"}, names, "what went beside is not sent twice")

	require.NoError(t, send(t.Context(), s, to, payload))
	assert.EqualValues(t, 0, to.taken.Load(), "the link has ended")
}

func TestAnotherTakerThanTheOneThatAcceptedDoesNotTake(t *testing.T) {
	s, to, other := newSender(zap.NewNop(), true), newTarget(t, consumertest.NewNop()), newTarget(t, consumertest.NewNop())
	require.NoError(t, send(t.Context(), s, to, payload))
	require.NoError(t, send(t.Context(), s, other, payload))
	assert.EqualValues(t, 0, other.taken.Load())
	assert.EqualValues(t, 1+1, other.batches.Load(), "both parts, as metrics")
}

func TestARefusalInBetweenIsReturnedAndNothingIsSentAgain(t *testing.T) {
	full := errors.New("memory is full")
	refuse := false
	s, to := newSender(zap.NewNop(), true), newTarget(t, consumertest.NewNop())
	calls := 0
	limiter := between(t, "memory_limiter", to, func(md pmetric.Metrics) (pmetric.Metrics, error) {
		calls++
		if refuse {
			return md, full
		}
		return md, nil
	})
	refuse = true
	require.ErrorIs(t, send(t.Context(), s, limiter, payload), full)
	refuse = false
	require.NoError(t, send(t.Context(), s, limiter, payload), "the question is asked again")
	refuse = true
	require.ErrorIs(t, send(t.Context(), s, limiter, payload), full)
	assert.Equal(t, 3, calls)
	refuse = false
	require.NoError(t, send(t.Context(), s, limiter, payload))
	assert.EqualValues(t, 1, to.taken.Load(), "the link still stands")
	to.fails = full
	require.ErrorIs(t, send(t.Context(), s, limiter, payload), full, "the taker's own error")
	assert.EqualValues(t, 2, to.taken.Load())
}

func TestComponentsBehindTheTakerSeeNoOffer(t *testing.T) {
	behindIt := newTarget(t, consumertest.NewNop())
	first := newTarget(t, behindIt)
	s := newSender(zap.NewNop(), true)
	for range 3 {
		require.NoError(t, send(t.Context(), s, first, payload))
	}
	assert.EqualValues(t, 2, first.taken.Load())
	assert.EqualValues(t, 0, behindIt.taken.Load())
	assert.EqualValues(t, 2+1+1, behindIt.batches.Load())
}

func TestNothingIsLostWhereManySendAtOnce(t *testing.T) {
	s, to := newSender(zap.NewNop(), true), newTarget(t, consumertest.NewNop())
	var sending sync.WaitGroup
	for range 8 {
		sending.Go(func() {
			for range 100 {
				assert.NoError(t, send(t.Context(), s, to, payload))
			}
		})
	}
	sending.Wait()
	assert.EqualValues(t, 2*800, to.batches.Load()+to.taken.Load())
	assert.Positive(t, to.taken.Load())
}

func TestASharedBatchIsCopiedBeforeItIsChanged(t *testing.T) {
	md := pmetric.NewMetrics()
	gauge(md, "a")
	a := &Arrival{Metrics: md}
	assert.Equal(t, md, a.Own())
	md.MarkReadOnly()
	own := a.Own()
	gauge(own, "b")
	assert.Equal(t, 1, md.DataPointCount())
	assert.Equal(t, 2, own.DataPointCount())
}
