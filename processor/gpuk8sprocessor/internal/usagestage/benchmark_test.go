package usagestage

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/metadata"
)

// largeNode returns a frame that contains 8 boards that each have 7 instances. Each instance has
// one holder and six samples.
func largeNode(node string) *gpudata.Frame {
	f := &gpudata.Frame{Place: gpudata.Place{Node: node}, Time: 1e9}
	for b := range 8 {
		board := f.Device(fmt.Sprint("GPU-", b))
		board.Model, board.Observed = "NVIDIA H100 80GB HBM3", true
		board.Samples.Add(gpudata.Sample{Metric: signal.HwPower, Value: 100})
		for i := range 7 {
			d := f.Device(fmt.Sprintf("GPU-%d/gi%d", b, i))
			d.Parent, d.Model, d.Profile = board.Device.ID(), board.Model, "1g.10gb"
			d.Observed, d.HoldersKnown = true, true
			for _, m := range []*signal.Metric{signal.HwGPUMemoryUsage, signal.HwGPUMemoryLimit, signal.GPUEngineActive, signal.GPUSMActive, signal.GPUDRAMActive} {
				d.Samples.Add(gpudata.Sample{Metric: m, Value: 0.5})
			}
			d.Samples.Add(gpudata.Sample{Metric: signal.HwGPUUtilization, Own: signal.TaskGeneral, Value: 0.5})
			u := d.User(gpudata.Holder{Namespace: "namespace", Pod: fmt.Sprintf("pod-%d-%d", b, i), UID: fmt.Sprintf("6fa459ea-ee8a-3ca4-894e-%06d%06d", b, i), Container: "main"})
			u.Holds, u.Strategy = true, signal.SharingMIG
		}
	}
	f.Sort()
	return f
}

// step removes the samples that the section added to frame f, and advances the frame's time by 15
// s.
func step(f *gpudata.Frame, copies map[*gpudata.DeviceFrame]gpudata.Samples) {
	f.Time += 15e9
	for _, d := range f.Devices {
		d.Samples = copies[d]
		for _, u := range d.Users {
			u.Samples = gpudata.Samples{}
		}
	}
}

// BenchmarkUsage measures the processing of one frame with 64 devices. The ns/device result is the
// time per device.
func BenchmarkUsage(b *testing.B) {
	p, err := newWithoutPods(testConfig(), processortest.NewNopSettings(metadata.Type))
	require.NoError(b, err)
	f := largeNode("n1")
	copies := map[*gpudata.DeviceFrame]gpudata.Samples{}
	for _, d := range f.Devices {
		copies[d] = d.Samples
	}
	b.ReportAllocs()
	for b.Loop() {
		step(f, copies)
		(&usageBatch{gpuUsage: p}).countFrame(f, time.Unix(0, f.Time))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(f.Devices)), "ns/device")
}

// The target is at most 400 bytes per series. The limit is 10% above 142 bytes, which was the size
// of a series when this test was written. The race detector adds 7 bytes per series.
func TestBytesOfASeries(t *testing.T) {
	p, err := newWithoutPods(testConfig(), processortest.NewNopSettings(metadata.Type))
	require.NoError(t, err)
	heap := func() uint64 {
		var s runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	const nodes = 100
	before := heap()
	for n := range nodes {
		for at := range 3 {
			f := largeNode(fmt.Sprint("n", n))
			f.Time += int64(at) * 15e9
			(&usageBatch{gpuUsage: p}).countFrame(f, time.Unix(0, f.Time))
		}
	}
	series := nodes * 8 * (2 + 7*3)
	each := float64(heap()-before) / float64(series)
	runtime.KeepAlive(p)
	t.Logf("%.0f bytes per series", each)
	assert.Less(t, each, 156.0)
}
