package pdatagpu

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/internal/stage"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/goldentest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/pointtest"
)

func all(*signal.Metric) bool { return true }

// Samples that were added to a device are written to the Resource of the device's series. Samples
// that were added to a holder without a Resource in the batch are written to a new Resource with
// the same place attributes.
func TestAddedSamplesAreOnTheResourceOfTheirPlaceAndHolder(t *testing.T) {
	const device = `10s {k8s.node.name=n1, host.name=h1, host.type=a3} hw.power {hw.id=GPU-1} = 1
`
	for name, tt := range map[string]struct {
		input          string
		device, holder string
	}{
		"a device": {
			device,
			"{host.name=h1, host.type=a3, k8s.node.name=n1}",
			"{host.name=h1, host.type=a3, k8s.namespace.name=ns, k8s.node.name=n1, k8s.pod.name=new}",
		},
		"rows of another exporter first": {
			"10s {k8s.node.name=n1, service.name=hami} hami_vgpu_memory_used_bytes {} = 1\n" + device,
			"{host.name=h1, host.type=a3, k8s.node.name=n1}",
			"{host.name=h1, host.type=a3, k8s.namespace.name=ns, k8s.node.name=n1, k8s.pod.name=new}",
		},
		"only a holder, without a node name": {
			"10s {host.name=h1, k8s.namespace.name=ns, k8s.pod.name=a} gpu.device.holder {hw.id=GPU-1} = 1",
			"{host.name=h1}",
			"{host.name=h1, k8s.namespace.name=ns, k8s.pod.name=new}",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := Read(goldentest.Points(t, tt.input, false), all)
			require.Len(t, b.Frames, 1)
			d := b.Frames[0].Find("GPU-1")
			d.Samples.Add(gpudata.Sample{Metric: signal.GPUMemoryHeadroom})
			d.User(gpudata.Holder{Namespace: "ns", Pod: "new"}).Samples.Add(gpudata.Sample{Metric: signal.K8sContainerGPUMemoryBudget})
			b.Settle(gpudata.NewScope("test", ""), nil)
			b.writeAdded()
			added := map[string]string{}
			for p := range points.All(b.Metrics) {
				if p.Scope.Name() == "test" {
					added[p.Metric.Name()] = pointtest.Text(p.Resource.Attributes())
				}
			}
			assert.Equal(t, map[string]string{"gpu.memory.headroom": tt.device, "k8s.container.gpu.memory.budget": tt.holder}, added)
		})
	}
}

func TestARatioIsClampedOrDroppedWhereABatchIsRead(t *testing.T) {
	const device, budget, holder = "10s {} gpu.sm.active {hw.id=GPU-1} = ", "10s {k8s.pod.name=a} k8s.container.gpu.memory.budget.utilization {hw.id=GPU-1} = ", "10s {k8s.pod.name=a} k8s.container.gpu.utilization {hw.id=GPU-1} = "
	for point, want := range map[string]float64{
		device + "0": 0, device + "0.5": 0.5, device + "1": 1, device + "1.294": 1, device + "2": 1, device + "-0.05": 0,
		device + "2.01": -1, device + "-0.051": -1, device + "1.4e16": -1, device + "4294967295": -1,
		holder + "1.1": 1, holder + "100": -1,
		"10s {} process.gpu.utilization {hw.id=GPU-1, process.pid=1} = 1.5": 1,
		budget + "3":                                             3, // this ratio may exceed 1
		"10s {} hw.power {hw.id=GPU-1} = 300":                    300,
		"10s {} gpu.pcie.throughput {hw.id=GPU-1} = 5e9":         5e9,
		"10s {} hw.gpu.memory.utilization {hw.id=GPU-1} = 4.2e9": -1,
		"10s {} hw.status {hw.id=GPU-1, hw.state=ok} = 1":        1,
		"10s {} gpu.pcie.utilization {hw.id=GPU-1} = 1.05":       1,
	} {
		t.Run(point, func(t *testing.T) {
			b := Read(goldentest.Points(t, point, false), all)
			var samples []gpudata.Sample
			for _, f := range b.Frames {
				f.Each(func(s *gpudata.Series) { samples = append(samples, s.Samples...) })
			}
			if want < 0 {
				assert.Empty(t, samples)
				assert.EqualValues(t, 1, b.Counts(all).Dropped[stage.Implausible])
				return
			}
			require.Len(t, samples, 1)
			assert.InDelta(t, want, samples[0].Value, 0)
			for p := range points.All(b.Metrics) {
				assert.Equal(t, points.Value(p.NumberDataPoint) != want, b.Counts(all).Clamped == 1, "the point is counted if it was clamped")
			}
		})
	}
}

func TestPointsThatAreNotObservationsAreDroppedWithAReason(t *testing.T) {
	for name, tt := range map[string]struct {
		point string
		why   stage.Drop
	}{
		"a stale marker":                  {"10s {} gpu.process.count {hw.id=GPU-1} = stale", stage.NoValue},
		"no sample time":                  {"0s {} hw.power {hw.id=GPU-1} = 1", stage.NoTime},
		"not a number":                    {"10s {} hw.power {hw.id=GPU-1} = NaN", stage.OutOfRange},
		"infinite":                        {"10s {} hw.power {hw.id=GPU-1} = +Inf", stage.OutOfRange},
		"negative":                        {"10s {} hw.power {hw.id=GPU-1} = -1", stage.OutOfRange},
		"a holder with the value 0.5":     {"10s {k8s.pod.name=a} gpu.device.holder {hw.id=GPU-1} = 0.5", stage.OutOfRange},
		"no hw.id":                        {"10s {} hw.power {} = 1", stage.NoDevice},
		"not a GPU":                       {"10s {} hw.power {hw.id=nvme0, hw.type=disk_controller} = 1", stage.NoDevice},
		"a process without a PID":         {"10s {} process.gpu.memory.usage {hw.id=GPU-1} = 1", stage.NoDevice},
		"a holder point without a holder": {"10s {} gpu.device.holder {hw.id=GPU-1} = 1", stage.NoHolder},
		"a temperature below freezing":    {"10s {} hw.temperature {hw.id=GPU-1} = -1", stage.Drops},
	} {
		t.Run(name, func(t *testing.T) {
			var want [stage.Drops]int64
			if tt.why < stage.Drops {
				want[tt.why] = 1
			}
			b := Read(goldentest.Points(t, tt.point, false), all)
			assert.Equal(t, want, b.Counts(all).Dropped)
			assert.Len(t, b.Frames, map[bool]int{true: 1, false: 0}[tt.why == stage.Drops], "a dropped point adds no frame")
		})
	}
}
