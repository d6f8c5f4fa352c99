package synth

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/dcgm"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// temperatures adds rows of n GPUs of a node. The temperature is first for the first GPU, and 1
// more for each further one.
func temperatures(t *testing.T, s *Synthesizer, node string, n int, first float64) []*gpudata.Frame {
	t.Helper()
	spelling, ok := dcgm.Exporter.Lookup("DCGM_FI_DEV_GPU_TEMP")
	require.True(t, ok)
	b := s.Begin(time.Unix(1, 0))
	defer b.End()
	for i := range n {
		labels := catalogue.NewRow(dcgm.Exporter)
		labels.Set("UUID", fmt.Sprint("GPU-", node, i))
		b.Add(s.Row(labels, Place{Node: node}, catalogue.Holder{}), nil, spelling, 1e9, first+float64(i))
	}
	return b.Flush()
}

// told returns the temperatures in frames by device.
func told(frames []*gpudata.Frame) map[string]float64 {
	out := map[string]float64{}
	for _, f := range frames {
		for _, d := range f.Devices {
			out[f.Place.Node+" "+d.Device.ID()] = d.Samples.All()[0].Value
		}
	}
	return out
}

func TestFramesAreLeftAloneUntilTheyAreReleased(t *testing.T) {
	s := New(Options{MaxDevices: 10})
	a := temperatures(t, s, "a", 2, 40)
	b := temperatures(t, s, "b", 2, 60)
	s.Release(b)
	c := temperatures(t, s, "c", 3, 70)
	assert.Equal(t, map[string]float64{"a GPU-a0": 40, "a GPU-a1": 41}, told(a))
	assert.Equal(t, map[string]float64{"c GPU-c0": 70, "c GPU-c1": 71, "c GPU-c2": 72}, told(c))
	s.Release(a)
	s.Release(c)
	s.Release(c)
	d := temperatures(t, s, "d", 3, 80)
	assert.Equal(t, map[string]float64{"d GPU-d0": 80, "d GPU-d1": 81, "d GPU-d2": 82}, told(d))
}

func TestNodesThatComeOneAfterTheOtherShareTheMemoryOfTheirFrames(t *testing.T) {
	s := New(Options{MaxDevices: 1000})
	seen := map[*gpudata.DeviceFrame]bool{}
	for i := range 100 {
		frames := temperatures(t, s, fmt.Sprint("n", i), 3, 40)
		for _, d := range frames[0].Devices {
			seen[d] = true
		}
		s.Release(frames)
	}
	assert.Len(t, seen, 3)
}

func TestAfterAFloodNoMoreMemoryIsKeptThanThereAreDevices(t *testing.T) {
	s := New(Options{MaxDevices: 1000})
	s.Release(temperatures(t, s, "flood", 900, 40))
	assert.Len(t, s.lending.free, 900)
	spelling, _ := dcgm.Exporter.Lookup("DCGM_FI_DEV_GPU_TEMP")
	labels := catalogue.NewRow(dcgm.Exporter)
	labels.Set("UUID", "GPU-1")
	b := s.Begin(time.Unix(1, 0).Add(2 * idleLimit))
	b.Add(s.Row(labels, Place{Node: "n"}, catalogue.Holder{}), nil, spelling, int64(2*idleLimit), 40)
	s.Release(b.Flush())
	assert.Len(t, s.lending.free, 1)
}
