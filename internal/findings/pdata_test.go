package findings_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/findings"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// linesOf formats the findings and the samples of gpu.finding in a frame.
func linesOf(f *gpudata.Frame) (lines []string) {
	for _, x := range f.Findings {
		lines = append(lines, fmt.Sprintf("%s %v", x.Body, x))
	}
	for _, d := range f.Devices {
		for _, s := range d.Samples.Added() {
			if s.Metric == signal.GPUFinding {
				lines = append(lines, fmt.Sprintf("%s %s=%v", d.Device.ID(), s.Own, s.Value))
			}
		}
	}
	slices.Sort(lines)
	return lines
}

// The forms type evaluates each frame twice. A stage evaluates frames unchanged. A processor in a
// pipeline evaluates frames that were written as data points and read again.
type forms struct {
	stage, plain *findings.Tracker
	writer       pdatagpu.Writer
}

func newForms() *forms {
	return &forms{stage: findings.New(findings.DefaultSettings()), plain: findings.New(findings.DefaultSettings())}
}

func (f *forms) evaluate(t *testing.T, frame *gpudata.Frame) (stage, plain []string) {
	t.Helper()
	md := pmetric.NewMetrics()
	frame.Sort()
	f.writer.Write([]*gpudata.Frame{frame}, md)
	read := pdatagpu.Read(md, findings.Wants).Frames
	require.Len(t, read, 1)
	f.stage.Frame(frame, time.Unix(0, frame.Time))
	f.plain.Frame(read[0], time.Unix(0, frame.Time))
	return linesOf(frame), linesOf(read[0])
}

// In half of the timelines, the holders come from gpu_k8s; in the other half, they come from an
// exporter's labels.
func TestFramesFromPointsHaveTheSameFindings(t *testing.T) {
	found := map[string]int{}
	for seed := range uint64(40) {
		w, both := newWorld(seed), newForms()
		w.frames(func(at float64, f *gpudata.Frame) {
			if seed%4 < 2 {
				f.Share(&gpudata.Attribution{})
			} else {
				for _, d := range f.Devices {
					d.HoldersKnown = false // labels cannot prove that a device has no holder
				}
			}
			stage, plain := both.evaluate(t, f)
			require.Equal(t, stage, plain, "timeline %d at %.0f s", seed, at)
			for _, x := range f.Findings {
				found[x.Name]++
			}
		})
	}
	for _, rule := range signal.Values(signal.Finding) {
		assert.Positive(t, found[rule], rule)
	}
}

// If a row remap is pending on a board whose status is already worse, only frames show the pending
// row remap. In data points, hw.status contains only the worst state of the board, so the rule's
// verdict is unknown.
func TestFramesFromPointsHideAPendingRowRemapBehindAWorseStatus(t *testing.T) {
	f := &gpudata.Frame{Place: gpudata.Place{Node: "n1"}, Time: start.UnixNano()}
	d := f.Device("GPU-1")
	d.Observed, d.FailurePredicted = true, true
	d.Samples.Add(gpudata.Sample{Metric: signal.HwStatus, Own: signal.StatusPredictedFailure})
	d.Samples.Add(gpudata.Sample{Metric: signal.HwStatus, Own: signal.StatusFailed, Value: 1})
	d.Samples.Add(gpudata.Sample{Metric: signal.HwErrors, Own: "row_remap_correctable", Value: 3})
	f.MarkIncoming()
	stage, plain := newForms().evaluate(t, f)
	assert.Len(t, stage, 2, "the finding and its sample: %v", stage)
	assert.Empty(t, plain)
}
