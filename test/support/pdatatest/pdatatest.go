// Package pdatatest lets tests process the same samples in two forms, as metrics and as frames from
// the previous stage.
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

// Process is a function that processes an arrival, as a processor would.
type Process func(context.Context, *pdatagpu.Arrival) ([]*gpudata.Frame, error)

// Frames converts a batch to frames. Frames returns false if frames cannot represent the entire
// batch.
func Frames(md pmetric.Metrics) ([]*gpudata.Frame, bool) {
	for _, attributed := range []bool{false, true} {
		frames := pdatagpu.Read(md, func(*signal.Metric) bool { return true }).Frames
		for _, f := range frames {
			if attributed { // metrics written from these frames include the number of holders
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

// Metrics converts frames to metrics.
func Metrics(frames []*gpudata.Frame) pmetric.Metrics {
	md := pmetric.NewMetrics()
	w := &pdatagpu.Writer{}
	w.Write(frames, md)
	return md
}

// Lines returns one line of text for each point in a batch, sorted. The text includes everything
// except the scope.
func Lines(md pmetric.Metrics) (lines []string) {
	for p := range points.All(md) {
		lines = append(lines, fmt.Sprint(p.Timestamp(), " ", p.StartTimestamp(), " ", pointtest.Text(p.Resource.Attributes()), " ", p.Metric.Name(), " ", p.Metric.Type(), " ",
			pointtest.Text(p.Attributes()), " ", points.Value(p.NumberDataPoint), " ", p.Flags()))
	}
	slices.Sort(lines)
	return lines
}

// AsFrames processes a batch as frames and asserts that the result equals want, which is the result
// of processing the batch as metrics. AsFrames returns true if frames can represent the batch.
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

// Allocations returns the average number of allocations for processing a batch of frames, after a
// warm-up batch. The at function returns the batch with the given number; batches are numbered from
// 0.
func Allocations(t *testing.T, process Process, at func(int) pmetric.Metrics) float64 {
	t.Helper()
	const runs = 10
	arrivals := make([]*pdatagpu.Arrival, runs+2)
	for i := range arrivals {
		frames := pdatagpu.Read(at(i), func(*signal.Metric) bool { return true }).Frames
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
