// Package pdatatest lets tests give a processor the same samples as metrics and as frames of the
// stage before.
package pdatatest

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/pointtest"
)

// Process is what a processor does with an arrival.
type Process func(context.Context, *pdatagpu.Arrival) ([]*gpudata.Frame, error)

// Frames returns the frames of a batch; false when the batch has what frames do not hold.
func Frames(md pmetric.Metrics) ([]*gpudata.Frame, bool) {
	for _, attributed := range []bool{false, true} {
		frames := pdatagpu.ReadWithEnds(md, func(*signal.Metric) bool { return true }).Frames
		for _, f := range frames {
			if attributed { // then it is said how many share a device
				f.Share(&gpudata.Attribution{})
			}
			for _, d := range f.Devices {
				d.Repeated = 0
			}
		}
		if slices.Equal(Lines(md), Lines(Metrics(frames))) {
			return frames, true
		}
	}
	return nil, false
}

// Metrics returns the metrics that frames become.
func Metrics(frames []*gpudata.Frame) pmetric.Metrics {
	md := pmetric.NewMetrics()
	w := &pdatagpu.Writer{}
	w.Write(frames, md)
	return md
}

// Lines are the points of a batch with everything but their scopes, sorted.
func Lines(md pmetric.Metrics) (lines []string) {
	for p := range points.All(md) {
		lines = append(lines, fmt.Sprint(p.Timestamp(), " ", p.StartTimestamp(), " ", pointtest.Text(p.Resource.Attributes()), " ", p.Metric.Name(), " ", p.Metric.Type(), " ",
			pointtest.Text(p.Attributes()), " ", points.Value(p.NumberDataPoint), " ", p.Flags()))
	}
	slices.Sort(lines)
	return lines
}

// AsFrames gives a processor the frames of a batch, and asserts that the result equals want, which
// the processor made of the same batch as metrics. It reports whether frames can hold the batch.
func AsFrames(t testing.TB, process Process, md, want pmetric.Metrics) bool {
	t.Helper()
	frames, ok := Frames(md)
	a := &pdatagpu.Arrival{Metrics: md}
	if ok {
		a = &pdatagpu.Arrival{Metrics: pmetric.NewMetrics(), Frames: frames}
	}
	frames, err := process(t.Context(), a)
	require.NoError(t, err)
	got := a.Metrics
	(&pdatagpu.Writer{}).Write(frames, got)
	assert.Equal(t, Lines(want), Lines(got), "frames give the same result as metrics")
	return ok
}

// Allocations returns how often a processor allocates for the frames of a batch, once it knows what is
// in the batch. at returns the batches, the first being 0.
func Allocations(t *testing.T, process Process, at func(int) pmetric.Metrics) float64 {
	t.Helper()
	const runs = 10
	arrivals := make([]*pdatagpu.Arrival, runs+2)
	for i := range arrivals {
		frames := pdatagpu.ReadWithEnds(at(i), func(*signal.Metric) bool { return true }).Frames
		require.NotEmpty(t, frames)
		arrivals[i] = &pdatagpu.Arrival{Metrics: pmetric.NewMetrics(), Frames: frames}
	}
	next := 0
	consume := func() {
		_, err := process(t.Context(), arrivals[next])
		require.NoError(t, err)
		next++
	}
	consume()
	return testing.AllocsPerRun(runs, consume)
}
