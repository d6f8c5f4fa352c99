package pdatagpu

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"pgregory.net/rapid"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/internal/stage"
)

// sampled contains device metrics, each with a value for the metric's own attribute.
var sampled = []gpudata.Sample{
	{Metric: signal.HwPower},
	{Metric: signal.HwGPUMemoryUsage},
	{Metric: signal.HwEnergy, Start: 5},
	{Metric: signal.HwErrors, Own: "xid_48", Start: 7},
	{Metric: signal.HwErrors},
	{Metric: signal.GPUClockEventActive, Own: "sw_thermal"},
	{Metric: signal.HwTemperature, Own: signal.LocationMemory},
}

var trainer = gpudata.NewOwner(gpudata.Ownership{Job: "train-0", WorkloadKind: "JobSet", Workload: "train", KueueWorkload: "jobset-train", Labels: gpudata.NewLabels(map[string]string{"team": "vision", "a/b": "c"})})

func frames(t *rapid.T) []*gpudata.Frame {
	var out []*gpudata.Frame
	for n := range rapid.IntRange(1, 3).Draw(t, "frames") {
		node := rapid.SampledFrom([]string{"n1", "n2"}).Draw(t, "node")
		f := &gpudata.Frame{Place: gpudata.Place{Cluster: "c", Node: node}, Host: "h-" + node, Time: int64(1000 + n)}
		if node == "n1" { // the frames of n1 share a Resource
			f.HostType, f.NodeLabels = "p5.48xlarge", map[string]string{"pool": "train", "zone": "a"}
		}
		for d := range rapid.IntRange(1, 3).Draw(t, "devices") {
			device(t, f, fmt.Sprintf("GPU-%d", d))
		}
		for pid := range rapid.IntRange(0, 2).Draw(t, "unplaced") {
			unplaced(t, f, fmt.Sprint(pid))
		}
		f.Sort()
		out = append(out, f)
	}
	return out
}

func device(t *rapid.T, f *gpudata.Frame, id string) {
	d := f.Device(id)
	d.Observed = true
	d.Description = gpudata.Description{Name: "nvidia0", Model: "NVIDIA H100 80GB HBM3", Vendor: signal.VendorNVIDIA, Driver: "580"}
	if rapid.Bool().Draw(t, "claimed") {
		d.Allocation = gpudata.Allocation{Claim: "claim", Driver: "gpu.nvidia.com", Pool: "p", Device: "gpu-0"}
	}
	value := func(m *signal.Metric) float64 {
		if m.IsRatio() {
			return rapid.Float64Range(0, 1).Draw(t, "ratio")
		}
		return float64(rapid.IntRange(0, 1<<40).Draw(t, "value"))
	}
	add := func(to *gpudata.Samples, s gpudata.Sample) {
		s.Value = value(s.Metric)
		to.Add(s)
	}
	add(&d.Samples, gpudata.Sample{Metric: signal.GPUSMActive}) // an observed device has at least one sample
	for i := range sampled {
		if rapid.Bool().Draw(t, "sampled") {
			add(&d.Samples, sampled[i])
		}
	}
	for n := range rapid.IntRange(0, 2).Draw(t, "users") {
		u := d.User(rapid.SampledFrom([]gpudata.Holder{
			{Namespace: "ml", Pod: fmt.Sprint("train-", n), UID: "u", Container: "main"}, {Name: fmt.Sprint("box-", n)}, {Job: fmt.Sprint(n)},
		}).Draw(t, "holder"))
		if u.Holds = rapid.Bool().Draw(t, "holds"); u.Holds {
			u.Source, u.Strategy, u.Allocation.Claim, u.Replicas = signal.HolderSourceDRA, signal.SharingDRA, "claim", 2
			d.HoldersKnown = true
		}
		if !u.Holds || rapid.Bool().Draw(t, "uses") {
			add(&u.Samples, gpudata.Sample{Metric: signal.K8sContainerGPUMemoryUsage})
		}
		if u.Holder.InPod() {
			u.Owner = trainer
		}
	}
	for n := range rapid.IntRange(0, 2).Draw(t, "processes") {
		p := d.Process(fmt.Sprint(10 + n))
		p.ContainerID = "id"
		p.Holder = gpudata.Holder{UID: "u"}
		add(&p.Samples, gpudata.Sample{Metric: signal.ProcessGPUMemoryUsage})
		d.Listed, d.Count = true, 5
	}
}

func unplaced(t *rapid.T, f *gpudata.Frame, pid string) {
	u := &gpudata.Unplaced{Process: gpudata.Process{PID: pid}, Exporter: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "exporter")}
	u.Named = rapid.SampledFrom([]gpudata.NamedDevice{{}, {Board: "GPU-0"}, {MIGUUID: "MIG-1"}, {Name: "nvidia0"}}).Draw(t, "named")
	u.Holder = rapid.SampledFrom([]gpudata.Holder{{}, {Namespace: "ml", Pod: "train-0", Container: "main"}}).Draw(t, "holder")
	u.Samples.Add(gpudata.Sample{Metric: signal.ProcessGPUMemoryUsage, Value: float64(rapid.IntRange(0, 1<<40).Draw(t, "value"))})
	f.Unplaced = append(f.Unplaced, u)
}

// The described function formats the contents of frames for comparisons.
func described(all []*gpudata.Frame) (out []string) {
	for _, f := range all {
		for _, u := range f.Unplaced {
			out = append(out, fmt.Sprint(f.Time, f.Place, f.Host, u.Exporter, u.Named, u.PID, u.Holder, u.Samples.All()[0].Metric.Name, u.Samples.All()[0].Value))
		}
		for _, d := range f.Devices {
			say := func(who string, samples gpudata.Samples) {
				for _, s := range samples.All() {
					out = append(out, fmt.Sprint(f.Time, f.Place, f.Host, f.HostType, f.NodeLabels, d.Device.ID(), d.Description, d.HoldersKnown, d.Listed, d.Count,
						who, s.Metric.Name, s.Own, s.Start, s.Value))
				}
			}
			say("", d.Samples)
			for _, u := range d.Users {
				who := fmt.Sprint(u.Holder, u.Owner.Ownership(), u.Holds, u.Source, u.Strategy, u.Replicas)
				if u.Holds { // the claim of a container that does not hold the device is unknown
					who += fmt.Sprint(u.Allocation)
				}
				out = append(out, who)
				say(who, u.Samples)
			}
			for _, p := range d.Processes {
				say(fmt.Sprint(p.PID, p.ContainerID, p.Holder), p.Samples)
			}
		}
	}
	return out
}

func TestFramesThatAreWrittenAreReadAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		given := frames(t)
		md := pmetric.NewMetrics()
		(&Writer{Scope: gpudata.NewScope("test", "")}).Write(given, md)
		b := Read(md, func(*signal.Metric) bool { return true })
		assert.ElementsMatch(t, described(given), described(b.Frames))
		assert.Equal(t, [stage.Drops]int64{}, b.Counts(everything).Dropped)

		// Samples that were read are incoming and must not be written again.
		before := md.DataPointCount()
		b.Settle(gpudata.NewScope("another", ""), nil)
		b.writeAdded()
		assert.Equal(t, before, md.DataPointCount())

		again := pmetric.NewMetrics()
		(&Writer{Scope: gpudata.NewScope("test", "")}).Write(b.Frames, again)
		assert.Equal(t, before, again.DataPointCount())
		assert.ElementsMatch(t, described(given), described(Read(again, func(*signal.Metric) bool { return true }).Frames))
	})
}

func TestPointsThatAreNotObservationsAreCounted(t *testing.T) {
	md := pmetric.NewMetrics()
	ms := md.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics()
	point := func(s *signal.Metric, id string, at int64, v float64) {
		m := ms.AppendEmpty()
		m.SetName(s.Name)
		dp := m.SetEmptyGauge().DataPoints().AppendEmpty()
		dp.SetTimestamp(pcommon.Timestamp(at))
		dp.SetDoubleValue(v)
		if id != "" {
			dp.Attributes().PutStr(signal.HardwareID, id)
		}
	}
	point(signal.HwPower, "GPU-1", 0, 1)
	point(signal.HwPower, "GPU-1", 1, -1)
	point(signal.HwPower, "", 1, 1)
	point(signal.HwTemperature, "GPU-1", 1, -3)
	point(signal.GPUDeviceHolder, "GPU-1", 1, 1)
	point(signal.HwEnergy, "GPU-1", 1, -1) // this metric is not wanted
	b := Read(md, func(s *signal.Metric) bool { return s != signal.HwEnergy })
	assert.Equal(t, [stage.Drops]int64{stage.NoTime: 1, stage.OutOfRange: 1, stage.NoDevice: 1, stage.NoHolder: 1}, b.Counts(everything).Dropped)
	assert.Len(t, b.Frames[0].Devices[0].Samples.All(), 1, "temperatures may be below zero")
}

func TestPointsOfADeviceJoinItsSeriesRegardlessOfTheHost(t *testing.T) {
	md := pmetric.NewMetrics()
	resource := func(attrs map[string]any, s *signal.Metric) {
		rm := md.ResourceMetrics().AppendEmpty()
		_ = rm.Resource().Attributes().FromRaw(attrs)
		m := rm.ScopeMetrics().AppendEmpty().Metrics().AppendEmpty()
		m.SetName(s.Name)
		dp := m.SetEmptyGauge().DataPoints().AppendEmpty()
		dp.SetTimestamp(1)
		dp.SetDoubleValue(1)
		dp.Attributes().PutStr(signal.HardwareID, "GPU-1")
	}
	resource(map[string]any{signal.K8sNodeName: "n1", signal.K8sPodName: "a"}, signal.GPUDeviceHolder)
	resource(map[string]any{signal.K8sNodeName: "n1", signal.HostName: "h"}, signal.HwPower)
	b := Read(md, func(*signal.Metric) bool { return true })
	d := b.Frames[0].Devices[0]
	d.Samples.Add(gpudata.Sample{Metric: signal.GPUPowerIdle, Value: 1})
	d.Users[0].Samples.Add(gpudata.Sample{Metric: signal.K8sContainerGPUPower, Value: 1})
	b.Settle(gpudata.NewScope("test", ""), nil)
	b.writeAdded()
	assert.Equal(t, 2, md.ResourceMetrics().Len())
	assert.Equal(t, 4, md.DataPointCount())
}
