package pdatagpu

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.uber.org/zap"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// consumed is what a component behind gpu_forward got.
type consumed struct {
	consumer.Metrics
	frames, points int
	last           pmetric.Metrics // of a pipeline that takes metrics alone
	fails          error
}

// reading returns a pipeline whose first processor takes frames, and leaves them as they are or not.
func reading(t *testing.T, reads bool) *consumed {
	t.Helper()
	p := &consumed{}
	var err error
	p.Metrics, err = NewProcessor(processortest.NewNopSettings(synthesizer.Type()), gpudata.NewScope("test", ""), consumertest.NewNop(), Functions{
		Takes: TakesFrames, Reads: reads,
		Process: func(_ context.Context, a *Arrival) ([]*gpudata.Frame, error) {
			p.frames += len(a.Frames)
			p.points += a.Metrics.DataPointCount()
			return nil, p.fails
		},
	})
	require.NoError(t, err)
	return p
}

// exporting returns a pipeline that takes metrics alone.
func exporting(t *testing.T) *consumed {
	t.Helper()
	p := &consumed{}
	p.Metrics = function(func(_ context.Context, md pmetric.Metrics) error {
		p.points += md.DataPointCount()
		p.last = md
		return p.fails
	})
	return p
}

// fork returns what sends a frame of one sample, beside a metric of one point, through gpu_forward to
// pipelines.
func fork(t *testing.T, pipelines ...*consumed) (send func() error) {
	t.Helper()
	all := make([]consumer.Metrics, len(pipelines))
	for i, p := range pipelines {
		all[i] = p
	}
	fanOut := function(func(ctx context.Context, md pmetric.Metrics) error {
		var errs []error
		for _, p := range all {
			errs = append(errs, p.ConsumeMetrics(ctx, md))
		}
		return errors.Join(errs...)
	})
	named := map[string]consumer.Metrics{}
	for i, p := range all {
		named[fmt.Sprint("metrics/", i)] = p
	}
	f := NewForward(component.MustNewID("gpu_forward"), zap.NewNop(), fanOut, named)
	set := processortest.NewNopSettings(synthesizer.Type())
	source, err := NewProcessor(set, gpudata.NewScope("test", ""), f, Functions{
		Process: func(context.Context, *Arrival) ([]*gpudata.Frame, error) {
			frame := &gpudata.Frame{Place: gpudata.Place{Node: "n"}, Time: 1}
			frame.Device("GPU-1").Samples.Add(gpudata.Sample{Metric: signal.HwGPUUtilization, Own: signal.TaskGeneral, Value: 0.5})
			return []*gpudata.Frame{frame}, nil
		},
	})
	require.NoError(t, err)
	return func() error {
		md := pmetric.NewMetrics()
		gauge(md, "up")
		return source.ConsumeMetrics(t.Context(), md)
	}
}

// The first batch asks the forward, the second one what is behind it; each pipeline gets every
// sample, as a frame or as a point.
func TestEachPipelineGetsFramesOrTheirPoints(t *testing.T) {
	const batches = 5
	a, b, adds, exports := reading(t, true), reading(t, true), reading(t, false), exporting(t)
	send := fork(t, a, adds, exports, b)
	for range batches {
		require.NoError(t, send())
	}
	for _, p := range []*consumed{a, b} {
		assert.Equal(t, batches-2, p.frames)
		assert.Equal(t, 2*2+(batches-2), p.points)
	}
	for _, p := range []*consumed{adds, exports} {
		assert.Zero(t, p.frames)
		assert.Equal(t, 2*batches, p.points)
	}
}

// Else a gpu_forward with one pipeline, behind another one, would let additions into the other's.
func TestTheOnlyPipelineGetsMetricsTooIfItAddsToFrames(t *testing.T) {
	p := reading(t, false)
	send := fork(t, p)
	for range 4 {
		require.NoError(t, send())
	}
	assert.Zero(t, p.frames)
	assert.Equal(t, 2*4, p.points)
}

func TestWhereNobodyTakesFramesTheyAreMadeMetricsOnce(t *testing.T) {
	a, b := exporting(t), exporting(t)
	send := fork(t, a, b)
	for range 4 {
		require.NoError(t, send())
	}
	assert.Equal(t, 8, a.points)
	assert.Equal(t, 8, b.points)
	same := a.last == b.last
	assert.True(t, same, "one batch for both")
}

func TestAPipelineThatFailsKeepsNothingFromTheOthers(t *testing.T) {
	full := errors.New("full")
	before, fails, after := reading(t, true), reading(t, true), exporting(t)
	send := fork(t, before, fails, after)
	for range 2 {
		require.NoError(t, send())
	}
	fails.fails = full
	require.ErrorIs(t, send(), full)
	assert.Equal(t, 1, before.frames)
	assert.Equal(t, 1, fails.frames)
	assert.Equal(t, 3*2, after.points)
}

// Where all get metrics too: a failure on any batch, the first ones among them, is the failing
// pipeline's own.
func TestAPipelineOfMetricsThatFailsKeepsNothingFromTheOthers(t *testing.T) {
	for first := range 4 {
		for _, others := range []func(*testing.T) *consumed{exporting, func(t *testing.T) *consumed { t.Helper(); return reading(t, false) }} {
			fails, other := exporting(t), others(t)
			send := fork(t, fails, other)
			for i := range 6 {
				fails.fails = nil
				if i >= first {
					fails.fails = errors.New("full")
				}
				require.ErrorIs(t, send(), fails.fails)
			}
			assert.Equal(t, 2*6, other.points, "failing from batch %d on", first)
		}
	}
}
