package gpuwindowprocessor

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/pdatatest"
)

// sources contains attributes that describe only a sample of a series.
var sources = [][]gpudata.Attr{
	nil, {{Key: signal.PowerSource, Value: "sm_active"}}, {{Key: signal.PowerSource, Value: "slices"}, {Key: signal.PowerEstimated, Value: true}},
}

// randomFrame returns a random frame of a node at the current time. From frame to frame, devices
// appear and disappear, devices are held by different containers, descriptions change, and counters
// are reset.
func randomFrame(r *rand.Rand, energy map[string]float64) *gpudata.Frame {
	late := time.Duration(r.IntN(3)/2) * 40 * time.Second
	f := &gpudata.Frame{Place: gpudata.Place{Node: "n1"}, Time: time.Now().Add(-late).UnixNano()}
	if r.IntN(4) > 0 {
		f.Host = fmt.Sprint("h", r.IntN(20)/19)
	}
	f.HostType, f.NodeLabels = "p5", map[string]string{"pool": fmt.Sprint(r.IntN(20) / 19)}
	owner := gpudata.NewOwner(gpudata.Ownership{Job: "train", Workload: []string{"", "train"}[r.IntN(20)/19]})
	for _, id := range []string{"GPU-1", "GPU-1/gi7", "GPU-1/gi8", "GPU-2"} {
		if r.IntN(10) == 0 {
			continue
		}
		d := f.Device(id)
		d.Observed, d.Name, d.Driver = true, "nvidia0", fmt.Sprint("58", r.IntN(20)/19)
		if len(id) > len("GPU-1") {
			d.Parent, d.Profile = "GPU-1", "1g.10gb"
		}
		add := func(m *signal.Metric, own string, start int64, v float64) {
			if r.IntN(8) > 0 {
				d.Samples.Add(gpudata.Sample{Metric: m, Own: own, Start: start, Value: v, Ended: r.IntN(40) == 0})
			}
		}
		if energy[id] += r.Float64() * 1000; r.IntN(15) == 0 {
			energy[id] = 0
		}
		add(signal.HwPower, "", 0, float64(r.IntN(700)))
		add(signal.HwEnergy, "", 0, energy[id])
		add(signal.HwGPUUtilization, signal.TaskGeneral, 0, r.Float64())
		add(signal.GPUClockEventActive, "sw_power_cap", 0, float64(r.IntN(2)))
		add(signal.GPUClockEventActive, "hw_thermal", 0, float64(r.IntN(2)))
		add(signal.HwErrors, "xid_31", f.Time-int64(time.Hour), float64(r.IntN(3)))
		if d.Parent != "" && r.IntN(8) > 0 {
			source := sources[r.IntN(len(sources))]
			d.Samples.Add(gpudata.Sample{Metric: signal.GPUInstancePower, Value: float64(r.IntN(100)), More: source})
		}
		for _, pod := range []string{"a", "b"} {
			if r.IntN(3) > 0 {
				continue
			}
			u := d.User(gpudata.Holder{Namespace: "ns", Pod: pod, UID: "uid-" + pod, Container: "c"})
			u.Holds, d.HoldersKnown, u.Source, u.Strategy = r.IntN(4) > 0, true, signal.HolderSourcePodResources, signal.SharingTimeSlicing
			u.Owner = owner
			u.Samples.Add(gpudata.Sample{Metric: signal.K8sContainerGPUMemoryUsage, Value: float64(r.IntN(1 << 30))})
		}
		if r.IntN(3) == 0 {
			p := d.Process("7")
			p.Holder, p.ContainerID = gpudata.Holder{Namespace: "ns", Pod: "a"}, fmt.Sprint(r.IntN(2))
			p.Samples.Add(gpudata.Sample{Metric: signal.ProcessGPUMemoryUsage, Value: float64(r.IntN(1 << 30))})
		}
	}
	if r.IntN(3) == 0 {
		u := &gpudata.Unplaced{Process: gpudata.Process{PID: "8"}, Exporter: "e"}
		u.Named.Board = []string{"", "GPU-1", "GPU-9"}[r.IntN(3)]
		u.Holder = []gpudata.Holder{{}, {Namespace: "ns", Pod: "a", Container: "c"}}[r.IntN(2)]
		u.Samples.Add(gpudata.Sample{Metric: signal.ProcessGPUMemoryUsage, Value: float64(r.IntN(1 << 30))})
		f.Unplaced = append(f.Unplaced, u)
	}
	f.Share(&gpudata.Attribution{Disabled: map[*signal.Metric]bool{signal.HwEnergy: r.IntN(2) == 0}})
	return f
}

// windowsOf sends random frames to a processor and returns the output of the processor as lines of
// text.
func windowsOf(t *testing.T, seed uint64, passthrough string, arrive func(*gpudata.Frame) *pdatagpu.Arrival) (lines []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg := createDefaultConfig().(*Config)
		cfg.Window, cfg.Passthrough, cfg.noJitter = time.Minute, passthrough, true
		sink := &consumertest.MetricsSink{}
		p, err := newWindowProcessor(processortest.NewNopSettings(metadata.Type), cfg, sink)
		require.NoError(t, err)
		require.NoError(t, p.start(t.Context(), componenttest.NewNopHost()))
		r, energy := rand.New(rand.NewPCG(seed, 1)), map[string]float64{}
		for range 40 {
			frame := randomFrame(r, energy)
			if r.IntN(10) > 0 {
				_, err := p.process(t.Context(), arrive(frame))
				require.NoError(t, err)
			}
			if r.IntN(15) == 0 {
				time.Sleep(30 * time.Minute) // series end during these 30 minutes
			}
			time.Sleep(time.Duration(5+r.IntN(20)) * time.Second)
		}
		require.NoError(t, p.shutdown(t.Context()))
		for _, md := range sink.AllMetrics() {
			lines = append(lines, pdatatest.Lines(md)...)
		}
	})
	slices.Sort(lines)
	return lines
}

func TestFramesAndMetricsHaveTheSameWindows(t *testing.T) {
	seeds := uint64(100)
	if testing.Short() {
		seeds = 8
	}
	for seed := range seeds {
		for _, passthrough := range []string{passthroughLast, passthroughNone} {
			asMetrics := windowsOf(t, seed, passthrough, func(f *gpudata.Frame) *pdatagpu.Arrival {
				return &pdatagpu.Arrival{Metrics: pdatatest.Metrics([]*gpudata.Frame{f})}
			})
			require.Greater(t, len(asMetrics), 100)
			handed := windowsOf(t, seed, passthrough, func(f *gpudata.Frame) *pdatagpu.Arrival {
				return &pdatagpu.Arrival{Metrics: pmetric.NewMetrics(), Frames: []*gpudata.Frame{f}}
			})
			if !assert.Equal(t, asMetrics, handed, "seed %d, passthrough %s", seed, passthrough) {
				return
			}
		}
	}
}
