package chain

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/dcgmsim"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor"
)

const vendorsLength = 2 * time.Minute

// If a batch contains samples from nodes of four vendors, the output matches the simulation. The
// output contains nothing that a vendor's exporter does not expose.
func TestFourVendorsInOneBatchMatchTheSimulation(t *testing.T) {
	cfg := dcgmsim.NewDefaultConfig()
	cfg.Scenario, cfg.Nodes = dcgmsim.ScenarioVendors, 4
	sim, err := dcgmsim.New(cfg)
	require.NoError(t, err)
	got := seriesOf(t, sim, 0, 1, 2, 3)

	devices := map[string]int{}
	for node := range cfg.Nodes {
		for _, d := range sim.Devices(node) {
			devices[d.Vendor]++
			id := deviceID(d)
			of := func(m *signal.Metric, own string) series { return got[seriesKey{d.Vendor, id, m, own}] }
			mean := func(m *signal.Metric, own string) float64 { s := of(m, own); return s.sum / float64(s.points) }
			step := func(m *signal.Metric, own string) float64 { s := of(m, own); return s.last - s.first }

			assert.InDelta(t, sim.MeanOccupancy(d, 0, vendorsLength), mean(signal.HwGPUMemoryUtilization, ""), 0.02, "%+v", d)
			if d.Vendor == "AWS" { // utilization is reported per core, and there are no pod labels
				machine, device, _ := strings.Cut(id, "/neuron")
				number, err := strconv.Atoi(device)
				require.NoError(t, err)
				for core := range 2 {
					of := got[seriesKey{d.Vendor, fmt.Sprintf("%s/nc%d", machine, number*2+core), signal.HwGPUUtilization, signal.TaskGeneral}]
					assert.InDelta(t, sim.MeanLoad(d, 0, vendorsLength), of.sum/float64(of.points), 0.02, "%+v", d)
				}
				continue
			}
			assert.InDelta(t, sim.MeanLoad(d, 0, vendorsLength), mean(signal.HwGPUUtilization, signal.TaskGeneral), 0.02, "%+v", d)
			for _, pod := range d.Pods {
				assert.Contains(t, got, seriesKey{d.Vendor, id, signal.GPUDeviceHolder, pod}, "%+v", d)
			}
			if d.Vendor == "Google" {
				for _, m := range []*signal.Metric{signal.GPUClockThrottleTime, signal.HwEnergy, signal.HwPower, signal.HwTemperature, signal.HwErrors, signal.GPUClockFrequency} {
					for key := range got {
						assert.False(t, key.device == id && key.metric == m, "%+v", key)
					}
				}
				continue
			}
			if d.GPUInstance > 0 {
				continue
			}
			assert.InDelta(t, sim.ViolationTime(d, dcgmsim.ViolationPower, 0, vendorsLength).Seconds(), step(signal.GPUClockThrottleTime, "power"), 1e-3, "%+v", d)
			assert.InDelta(t, sim.ViolationTime(d, dcgmsim.ViolationThermal, 0, vendorsLength).Seconds(), step(signal.GPUClockThrottleTime, "thermal"), 1e-3, "%+v", d)
			assert.InDelta(t, sim.Energy(d, 0, vendorsLength), step(signal.HwEnergy, ""), 1, "%+v", d)
			if d.Vendor == "AMD" {
				assert.InDelta(t, sim.ThrottledTime(d, dcgmsim.ReasonHWThermal, 0, vendorsLength).Seconds(), step(signal.GPUClockThrottleTime, "processor_hot"), 1e-3, "%+v", d)
			}
		}
	}
	assert.Equal(t, map[string]int{"NVIDIA": 14, "AMD": 4, "Google": 4, "AWS": 4}, devices)
	known := map[string]bool{}
	for key := range got {
		known[key.device] = true
	}
	assert.Len(t, known, 14+1+4+4+4+8, "no other device: the partitioned board and the cores are devices")

	alone := map[seriesKey]series{}
	for node := range cfg.Nodes {
		maps.Copy(alone, seriesOf(t, sim, node))
	}
	assert.Equal(t, alone, got, "no vendor's rows change another's device")
}

// seriesKey identifies a series. For a device's series, the own field contains the values of the
// metric-specific attributes. For a holder's series, the own field also contains the pod.
type seriesKey struct {
	vendor, device string
	metric         *signal.Metric
	own            string
}

// series summarizes the points of one series.
type series struct {
	first, last, sum float64
	points           int
}

// seriesOf scrapes the nodes once per second, sends the samples of all nodes in a single batch, and
// returns the resulting series.
func seriesOf(t *testing.T, sim *dcgmsim.Simulation, nodes ...int) map[seriesKey]series {
	t.Helper()
	out := map[seriesKey]series{}
	sink, err := consumer.NewMetrics(func(_ context.Context, md pmetric.Metrics) error {
		for p := range points.All(md) {
			m, ok := signal.Lookup(p.Metric.Name())
			if !ok {
				continue
			}
			key := seriesKey{
				pdatagpu.Text(p.Attributes(), signal.HardwareVendor), pdatagpu.Text(p.Attributes(), signal.HardwareID), m,
				podOf(p),
			}
			for _, own := range m.Attributes {
				key.own += pdatagpu.Text(p.Attributes(), own)
			}
			s, seen := out[key]
			s.last = points.Value(p.NumberDataPoint)
			if !seen {
				s.first = s.last
			}
			s.sum += s.last
			s.points++
			out[key] = s
		}
		return nil
	})
	require.NoError(t, err)
	first := chained(t, sink, gpuk8sprocessor.NewFactory(), gpusynthesizerprocessor.NewFactory())
	begin := time.Unix(1_700_000_000, 0)
	for at := time.Duration(0); at <= vendorsLength; at += time.Second {
		batch := pmetric.NewMetrics()
		for _, node := range nodes {
			md := scraped(t, sim.AppendBody(nil, node, at), begin.Add(at))
			md.ResourceMetrics().At(0).Resource().Attributes().PutStr(signal.K8sNodeName, sim.Devices(node)[0].Host)
			md.ResourceMetrics().MoveAndAppendTo(batch.ResourceMetrics())
		}
		require.NoError(t, first.ConsumeMetrics(t.Context(), batch))
	}
	return out
}
