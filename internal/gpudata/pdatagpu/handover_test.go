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
)

// target is a processor that takes, and remembers what came to it.
type target struct {
	consumer.Metrics
	taker   *Taker
	taken   atomic.Int64 // payloads
	batches atomic.Int64 // points of batches
	fails   error
}

var synthesizer = component.MustNewID("gpu_synthesizer")

func newTarget(t *testing.T) *target {
	t.Helper()
	set := processortest.NewNopSettings(synthesizer.Type())
	set.ID = synthesizer
	taker, err := NewTaker(set, func(payload any) bool { return payload != "unwanted" })
	require.NoError(t, err)
	to := &target{taker: taker}
	to.Metrics, err = processorhelper.NewMetrics(t.Context(), set, nil, Behind(consumertest.NewNop()),
		func(ctx context.Context, md pmetric.Metrics) (pmetric.Metrics, error) {
			if to.taker.Take(ctx, md) != nil {
				to.taken.Add(1)
			}
			to.batches.Add(int64(md.DataPointCount()))
			return md, to.fails
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
func send(ctx context.Context, s *Sender, next consumer.Metrics, payload any) error {
	return s.Send(ctx, next, payload,
		func() pmetric.Metrics {
			md := pmetric.NewMetrics()
			gauge(md, "up")
			return md
		},
		func(md pmetric.Metrics) { gauge(md, "row") })
}

func TestWhatStandsBetweenDecidesWhetherPayloadsAreHandedOver(t *testing.T) {
	for name, tt := range map[string]struct {
		payload any
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
			refusal: "no gpu_synthesizer was reached in the same call",
		},
		"a queue": {
			between: func(_ *testing.T, next consumer.Metrics) consumer.Metrics {
				return function(func(_ context.Context, md pmetric.Metrics) error {
					return next.ConsumeMetrics(context.Background(), md) //nolint:contextcheck // as queues do
				})
			},
			refusal: "no gpu_synthesizer was reached in the same call",
		},
		"a taker that wants metrics": {
			payload: "unwanted",
			between: func(_ *testing.T, next consumer.Metrics) consumer.Metrics { return next },
			refusal: "gpu_synthesizer wants metrics",
		},
	} {
		t.Run(name, func(t *testing.T) {
			core, logs := observer.New(zap.InfoLevel)
			s, to := NewSender(zap.New(core), true), newTarget(t)
			if tt.payload == nil {
				tt.payload = "rows"
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
	s, to := NewSender(zap.NewNop(), false), newTarget(t)
	for range 3 {
		require.NoError(t, send(t.Context(), s, to, "rows"))
	}
	assert.EqualValues(t, 0, to.taken.Load())
	assert.EqualValues(t, 3*2, to.batches.Load())
}

func TestAPayloadThatIsNotTakenGoesOutAsMetricsOnceInASecondCall(t *testing.T) {
	s, to, elsewhere := NewSender(zap.NewNop(), true), newTarget(t), &consumertest.MetricsSink{}
	require.NoError(t, send(t.Context(), s, to, "rows"))
	require.NoError(t, send(t.Context(), s, elsewhere, "rows"))
	require.Len(t, elsewhere.AllMetrics(), 2)
	var names []string
	for _, md := range elsewhere.AllMetrics() {
		require.Equal(t, 1, md.DataPointCount())
		names = append(names, md.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().At(0).Name())
	}
	assert.Equal(t, []string{"up", "row"}, names, "what went beside is not sent twice")

	require.NoError(t, send(t.Context(), s, to, "rows"))
	assert.EqualValues(t, 0, to.taken.Load(), "the link has ended")
}

func TestAnotherTakerThanTheOneThatAcceptedDoesNotTake(t *testing.T) {
	s, to, other := NewSender(zap.NewNop(), true), newTarget(t), newTarget(t)
	require.NoError(t, send(t.Context(), s, to, "rows"))
	require.NoError(t, send(t.Context(), s, other, "rows"))
	assert.EqualValues(t, 0, other.taken.Load())
	assert.EqualValues(t, 1+1, other.batches.Load(), "both parts, as metrics")
}

func TestARefusalInBetweenIsReturnedAndNothingIsSentAgain(t *testing.T) {
	full := errors.New("memory is full")
	refuse := false
	s, to := NewSender(zap.NewNop(), true), newTarget(t)
	calls := 0
	limiter := between(t, "memory_limiter", to, func(md pmetric.Metrics) (pmetric.Metrics, error) {
		calls++
		if refuse {
			return md, full
		}
		return md, nil
	})
	refuse = true
	require.ErrorIs(t, send(t.Context(), s, limiter, "rows"), full)
	refuse = false
	require.NoError(t, send(t.Context(), s, limiter, "rows"), "the question is asked again")
	refuse = true
	require.ErrorIs(t, send(t.Context(), s, limiter, "rows"), full)
	assert.Equal(t, 3, calls)
	refuse = false
	require.NoError(t, send(t.Context(), s, limiter, "rows"))
	assert.EqualValues(t, 1, to.taken.Load(), "the link still stands")
	to.fails = full
	require.ErrorIs(t, send(t.Context(), s, limiter, "rows"), full, "the taker's own error")
	assert.EqualValues(t, 2, to.taken.Load())
}

func TestComponentsBehindTheTakerSeeNoOffer(t *testing.T) {
	behindIt := newTarget(t)
	first := newTarget(t)
	set := processortest.NewNopSettings(synthesizer.Type())
	set.ID = synthesizer
	p, err := processorhelper.NewMetrics(t.Context(), set, nil, Behind(behindIt),
		func(ctx context.Context, md pmetric.Metrics) (pmetric.Metrics, error) {
			if first.taker.Take(ctx, md) != nil {
				first.taken.Add(1)
			}
			return md, nil
		})
	require.NoError(t, err)
	s := NewSender(zap.NewNop(), true)
	for range 3 {
		require.NoError(t, send(t.Context(), s, p, "rows"))
	}
	assert.EqualValues(t, 2, first.taken.Load())
	assert.EqualValues(t, 0, behindIt.taken.Load())
}

func TestNothingIsLostWhereManySendAtOnce(t *testing.T) {
	s, to := NewSender(zap.NewNop(), true), newTarget(t)
	var sending sync.WaitGroup
	for range 8 {
		sending.Go(func() {
			for range 100 {
				assert.NoError(t, send(t.Context(), s, to, "rows"))
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
	assert.Equal(t, md, Owned(md))
	md.MarkReadOnly()
	own := Owned(md)
	gauge(own, "b")
	assert.Equal(t, 1, md.DataPointCount())
	assert.Equal(t, 2, own.DataPointCount())
}
