package gpuk8sprocessor

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/otlptranslator"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"pgregory.net/rapid"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/exporters"
	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/attribution"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/metadatatest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/cpumeter"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/pdatatest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/pointtest"
)

// held sets a kubelet response in which each device is allocated to a container named ns/<pod>/c.
// The ids map contains the pod's name for each device ID.
func held(p *gpuK8s, now time.Time, ids map[string]string) {
	s := attribution.Sources{Listing: attribution.Listing{State: kube.Synced, Time: now.UnixNano()}}
	for id, pod := range ids {
		s.Listing.Containers = append(s.Listing.Containers, attribution.ContainerResources{
			Namespace: "ns", Pod: pod, Container: "c",
			Devices: []catalogue.PluginID{exporters.PluginID(lengthen(id))},
		})
	}
	p.tracker.Update(now, s)
}

func process(t testing.TB, p *gpuK8s, lines ...string) pmetric.Metrics {
	t.Helper()
	for i := range lines {
		lines[i] = lengthen(lines[i])
	}
	md, err := p.processMetrics(context.Background(), parse(t, lines, 10*time.Second))
	require.NoError(t, err)
	return md
}

func TestARepeatedPointIsACompleteCopy(t *testing.T) {
	p := newTestProcessor(t, "", processortest.NewNopSettings(metadata.Type))
	held(p, time.Unix(5, 0), map[string]string{"GPU-1": "a"})
	md := parse(t, []string{lengthen("GPU-1 hw.errors=3 error.type=xid_31 since=2s")}, 10*time.Second)
	m := md.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().At(0)
	m.Metadata().PutStr("prometheus.type", "counter")
	e := m.Sum().DataPoints().At(0).Exemplars().AppendEmpty()
	e.SetIntValue(7)
	e.SetTimestamp(9e9)

	md, err := p.processMetrics(context.Background(), md)
	require.NoError(t, err)
	copies := 0
	for _, rm := range md.ResourceMetrics().All() {
		for _, c := range rm.ScopeMetrics().At(0).Metrics().All() {
			if c.Name() != signal.HwErrors.Name {
				continue
			}
			copies++
			assert.Equal(t, signal.HwErrors.Unit, c.Unit())
			assert.Equal(t, signal.HwErrors.Description, c.Description())
			assert.True(t, c.Sum().IsMonotonic())
			assert.Equal(t, pmetric.AggregationTemporalityCumulative, c.Sum().AggregationTemporality())
			assert.Equal(t, map[string]any{"prometheus.type": "counter"}, c.Metadata().AsRaw())
			dp := c.Sum().DataPoints().At(0)
			assert.Equal(t, int64(3), dp.IntValue())
			assert.EqualValues(t, 2e9, dp.StartTimestamp())
			assert.EqualValues(t, 10e9, dp.Timestamp())
			require.Equal(t, 1, dp.Exemplars().Len())
			assert.Equal(t, int64(7), dp.Exemplars().At(0).IntValue())
		}
	}
	assert.Equal(t, 2, copies)
}

// cAdvisor exported accelerator metrics until Kubernetes 1.25. The test translates the metric names
// to Prometheus names before comparing them with cAdvisor's names.
func TestAcceleratorMetricsHaveTheNamesOfCAdvisor(t *testing.T) {
	p := newTestProcessor(t, "testdata/golden/accelerator_metrics_cover_the_devices_that_a_container_holds", processortest.NewNopSettings(metadata.Type))
	held(p, time.Unix(5, 0), map[string]string{"GPU-1": "a"})
	describe := " hw.vendor=NVIDIA hw.model=NVIDIA-H100-80GB-HBM3"
	md := process(t, p, "GPU-1 hw.gpu.memory.limit=85899345920"+describe, "GPU-1 hw.gpu.memory.usage=1073741824"+describe,
		"GPU-1 hw.gpu.utilization=0.25 hw.gpu.task=general"+describe)
	names := otlptranslator.NewMetricNamer("", otlptranslator.UnderscoreEscapingWithSuffixes)
	var labels otlptranslator.LabelNamer
	got := map[string]float64{}
	for _, rm := range md.ResourceMetrics().All() {
		if text(rm.Resource().Attributes(), signal.K8sPodName) == "" {
			continue
		}
		for _, m := range rm.ScopeMetrics().At(0).Metrics().All() {
			require.Equal(t, pmetric.MetricTypeGauge, m.Type())
			name, err := names.Build(otlptranslator.Metric{Name: m.Name(), Unit: m.Unit(), Type: otlptranslator.MetricTypeGauge})
			require.NoError(t, err)
			dp := m.Gauge().DataPoints().At(0)
			rendered := map[string]string{}
			for k, v := range dp.Attributes().All() {
				label, err := labels.Build(k)
				require.NoError(t, err)
				rendered[label] = shorten(v.Str())
			}
			assert.Equal(t, map[string]string{
				"make": "nvidia", "model": "NVIDIA-H100-80GB-HBM3", "acc_id": "GPU-1", "hw_id": "GPU-1", "gpu_sharing_strategy": "none",
			}, rendered)
			got[name] = points.Value(dp)
		}
	}
	assert.Equal(t, map[string]float64{
		"container_accelerator_memory_total_bytes": 85899345920,
		"container_accelerator_memory_used_bytes":  1073741824,
		"container_accelerator_duty_cycle":         25,
	}, got)
}

func TestABatchWithoutDevicesIsUnchanged(t *testing.T) {
	p := newTestProcessor(t, "", processortest.NewNopSettings(metadata.Type))
	held(p, time.Unix(5, 0), map[string]string{"GPU-1": "a"})
	md := pmetric.NewMetrics()
	rm := md.ResourceMetrics().AppendEmpty()
	rm.SetSchemaUrl("https://example.com/schema")
	rm.Resource().Attributes().PutStr("service.name", "x")
	m := rm.ScopeMetrics().AppendEmpty().Metrics().AppendEmpty()
	m.SetName(signal.HwPower.Name)
	m.SetEmptyHistogram().DataPoints().AppendEmpty().Attributes().PutStr(signal.HardwareID, lengthen("GPU-1"))
	want := pmetric.NewMetrics()
	md.CopyTo(want)
	got, err := p.processMetrics(context.Background(), md)
	require.NoError(t, err)
	assert.Equal(t, want, got)
}

func TestAnEmptiedBatchIsNotSent(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	cfg.Metrics = componenthelper.Metrics{signal.K8sContainerGPUMemoryUsage.Name: {Enabled: new(false)}}
	cfg.Kubernetes.AuthType = kube.AuthNone
	sink := &consumertest.MetricsSink{}
	p, err := NewFactory().CreateMetrics(t.Context(), processortest.NewNopSettings(metadata.Type), cfg, sink)
	require.NoError(t, err)
	md := parse(t, []string{"pod=ns/a/c GPU-1 k8s.container.gpu.memory.usage=5"}, 10*time.Second)
	require.NoError(t, p.ConsumeMetrics(t.Context(), md))
	assert.Empty(t, sink.AllMetrics())
}

func TestDroppedUnknownAndUnmatchedDataIsCounted(t *testing.T) {
	tel := componenttest.NewTelemetry()
	set := processortest.NewNopSettings(metadata.Type)
	set.TelemetrySettings = tel.NewTelemetrySettings()
	p := newTestProcessor(t, "", set)
	p.cfg.NodeName = "" // If no node name is set, the processor reads neither the kubelet nor the API server.
	require.NoError(t, p.start(t.Context(), componenttest.NewNopHost()))
	p.cfg.NodeName = "n1"

	process(t, p, "GPU-1 hw.gpu.memory.usage=40000000000", "GPU-1 hw.gpu.memory.limit=80000000000",
		"GPU-2 hw.gpu.memory.limit=80000000000",
		"pod=ns/a/c GPU-1 k8s.container.gpu.memory.usage=0", "pod=ns/b/c GPU-1 k8s.container.gpu.memory.usage=0",
		"pod=ns/a/c GPU-2 k8s.container.gpu.memory.usage=80000000001")
	reason := func(r string, n int64) metricdata.DataPoint[int64] {
		return metricdata.DataPoint[int64]{Value: n, Attributes: attribute.NewSet(attribute.String("reason", r))}
	}
	metadatatest.AssertEqualProcessorGpuK8sPointsDropped(t, tel, []metricdata.DataPoint[int64]{
		reason("false_zero", 2), reason("above_device_memory", 1),
	}, metricdatatest.IgnoreTimestamp())
	process(t, p, "pod=ns/a/c - process.gpu.memory.usage=1 process.pid=1 gpu.process.source=x",
		"GPU-1 process.gpu.memory.usage=1 process.pid=2 gpu.process.source=x", "GPU-1 process.gpu.memory.usage=1 process.pid=2 gpu.process.source=y")
	metadatatest.AssertEqualProcessorGpuK8sPointsDropped(t, tel, []metricdata.DataPoint[int64]{
		reason("false_zero", 2), reason("above_device_memory", 1), reason("no_device", 1), reason("second_source", 1),
	}, metricdatatest.IgnoreTimestamp())

	process(t, p, "pod=///uid-a GPU-1 process.gpu.memory.usage=1 process.pid=1", "pod=///uid-a GPU-1 process.gpu.utilization=1 process.pid=1",
		"GPU-1 process.gpu.memory.usage=1 process.pid=2 container.id=c2")
	metadatatest.AssertEqualProcessorGpuK8sProcessPointsUnknown(t, tel, []metricdata.DataPoint[int64]{{Value: 2}}, metricdatatest.IgnoreTimestamp())

	p.tracker.Update(time.Unix(5, 0), attribution.Sources{Listing: attribution.Listing{
		State: kube.Synced, Time: 5e9,
		Containers: []attribution.ContainerResources{
			{Namespace: "ns", Pod: "a", Devices: []catalogue.PluginID{{Raw: "?"}, {Raw: "MIG-1", MIGUUID: "MIG-1"}, {Raw: "GPU-1", UUID: "GPU-1"}}},
			{Namespace: "ns", Pod: "b", Devices: []catalogue.PluginID{{Raw: "?"}, {Raw: "nvidia9", Name: "nvidia9"}, {Raw: "GPU-1", UUID: "GPU-1"}}},
		},
	}})
	metadatatest.AssertEqualProcessorGpuK8sUnattributed(t, tel, []metricdata.DataPoint[int64]{
		reason("unknown_id", 1), reason("unreadable_annotation", 0), reason("unknown_mig_device", 1), reason("unknown_device_name", 1), reason("no_slice", 0), reason("no_uuid", 0),
		reason("not_scraped", 1),
	}, metricdatatest.IgnoreTimestamp())
	metadatatest.AssertEqualProcessorGpuK8sConflicts(t, tel, []metricdata.DataPoint[int64]{{Value: 1}}, metricdatatest.IgnoreTimestamp())
	require.NoError(t, p.shutdown(t.Context()))
	require.NoError(t, p.shutdown(t.Context()), "twice")
}

func TestBatchesOfSeveralReceiversAreProcessedConcurrently(t *testing.T) {
	p := newTestProcessor(t, "", processortest.NewNopSettings(metadata.Type))
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for n := range 50 {
				held(p, time.Unix(5, int64(n)), map[string]string{"GPU-1": fmt.Sprint("p", n)})
				md := process(t, p, fmt.Sprintf("GPU-%d hw.power=100", i+1), "pod=ns/x/c GPU-2 gpu.device.holder=1",
					"pod=///uid-x GPU-2 process.gpu.utilization=1 process.pid=1")
				assert.Positive(t, md.DataPointCount())
			}
		})
	}
	wg.Wait()
}

// For any input, a container never has two points with the same device, metric, time, and
// identifying attributes. All points of device series are kept.
func TestNoPointIsSentTwice(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := newTestProcessor(t, "", processortest.NewNopSettings(metadata.Type))
		delete(p.attribution.Disabled, signal.ContainerAcceleratorMemoryUsed)
		delete(p.attribution.Disabled, signal.ContainerAcceleratorDutyCycle)
		ids := []string{"GPU-1", "GPU-2", "GPU-2/gi7", "GPU-2/gi8"}
		containers := map[string]attribution.ContainerResources{}
		for range rapid.IntRange(0, 6).Draw(rt, "held") {
			pod := rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "pod")
			board, instance, _ := strings.Cut(rapid.SampledFrom(ids).Draw(rt, "device"), "/gi")
			c := containers[pod]
			c.Namespace, c.Pod, c.Container = "ns", pod, "c"
			c.Devices = append(c.Devices, catalogue.PluginID{
				Raw: rapid.SampledFrom([]string{"x", "y"}).Draw(rt, "raw"), UUID: board, GPUInstance: instance,
				Replica: rapid.Bool().Draw(rt, "replica"),
			})
			containers[pod] = c
		}
		s := attribution.Sources{Listing: attribution.Listing{State: rapid.SampledFrom([]kube.Phase{kube.Off, kube.Stale, kube.Synced}).Draw(rt, "state")}}
		for _, c := range containers {
			s.Listing.Containers = append(s.Listing.Containers, c)
		}
		if rapid.Bool().Draw(rt, "uids") {
			s.PodsState = kube.Synced
			s.Pods = []attribution.Pod{{Namespace: "ns", Name: "a", UID: "uid-a", Containers: []attribution.PodContainer{{Name: "c", ID: "c1"}}}}
		}
		p.tracker.Update(time.Unix(5, 0), s)

		series := map[string]bool{}
		for range rapid.IntRange(1, 20).Draw(rt, "lines") {
			id := rapid.SampledFrom(ids).Draw(rt, "id")
			switch rapid.IntRange(0, 4).Draw(rt, "kind") {
			case 0:
				series[id+" hw.gpu.utilization=0.5 hw.gpu.task="+rapid.SampledFrom([]string{"general", "encoder"}).Draw(rt, "task")] = true
			case 1:
				series[id+" hw.gpu.memory.usage=4000000000"] = true
			case 2:
				pod := rapid.SampledFrom([]string{"ns/a/c", "ns/a/c/uid-a", "ns/b/c", "mon/dcgm-exporter-1/exporter"}).Draw(rt, "holder")
				series["pod="+pod+" "+id+" gpu.device.holder=1"] = true
			case 3:
				pod := rapid.SampledFrom([]string{"ns/a/c", "ns/a/c/uid-a", "ns/b/c"}).Draw(rt, "user")
				series[fmt.Sprintf("pod=%s %s k8s.container.gpu.memory.usage=%d", pod, id, rapid.IntRange(0, 2).Draw(rt, "bytes"))] = true
			case 4:
				pid := rapid.IntRange(1, 3).Draw(rt, "pid")
				series[fmt.Sprintf("pod=%s %s process.gpu.utilization=0.5 process.pid=%d container.id=%s", []string{"", "///uid-a", "///uid-a", "///uid-x"}[pid],
					id, pid, []string{"", "c1", "c2", "c3"}[pid])] = true
			}
		}
		var lines []string
		device := 0
		for line := range series {
			lines = append(lines, line)
			if !strings.HasPrefix(line, "pod=") { // Lines that start with pod= are points of a pod or of a pod's processes.
				device++
			}
		}
		md, err := p.processMetrics(context.Background(), parse(t, lines, 10*time.Second))
		if err != nil {
			return // the batch was emptied
		}
		seen := map[string]bool{}
		kept := 0
		for _, rm := range md.ResourceMetrics().All() {
			attrs := rm.Resource().Attributes()
			if text(attrs, signal.K8sPodName) == "mon/dcgm-exporter-1" {
				rt.Fatal("the exporter is a holder of a device")
			}
			for _, sm := range rm.ScopeMetrics().All() {
				for _, m := range sm.Metrics().All() {
					for _, dp := range points.Of(m).All() {
						own := ""
						for k, v := range dp.Attributes().All() {
							if role := signal.RoleOf(k); role == signal.DistinguishesSeries || role == signal.IdentifiesDevice {
								own += k + "=" + v.AsString() + ","
							}
						}
						key := pointtest.Text(attrs, signal.HostName) + m.Name() + own
						if seen[key] {
							rt.Fatalf("duplicate point: %s\n%s", key, render(md))
						}
						seen[key] = true
						if text(attrs, signal.K8sPodName) == "" && m.Name() != signal.GPUSharingClients.Name && !strings.HasPrefix(m.Name(), "process.") {
							kept++
						}
					}
				}
			}
		}
		if kept != device {
			rt.Fatalf("%d of %d device points remain:\n%s", kept, device, render(md))
		}
	})
}

// The processor can run on a gateway even if the agents that send data to the gateway also run the
// processor.
func TestASecondProcessorAddsNothing(t *testing.T) {
	p := newTestProcessor(t, "", processortest.NewNopSettings(metadata.Type))
	held(p, time.Unix(5, 0), map[string]string{"MIG-GPU-1/7/0": "a", "MIG-GPU-1/8/0": "b", "GPU-2": "a"})
	md := process(t, p, "GPU-1 hw.power=100", "GPU-1/gi7 gpu.engine.active=0.5", "GPU-1/gi8 gpu.engine.active=stale", "GPU-2 hw.power=50", "GPU-3 hw.power=20",
		"pod=ns/a/c GPU-2 k8s.container.gpu.memory.usage=1000 team=x")
	want := render(md)
	md, err := p.processMetrics(t.Context(), md)
	require.NoError(t, err)
	assert.Equal(t, want, render(md))
}

// nodeBatch returns the output of gpu_synthesizer for one scrape of 8 boards that each have 7
// instances. The returned map contains the pod that holds each device, by device ID.
func nodeBatch(b testing.TB, at time.Duration) (pmetric.Metrics, map[string]string) {
	b.Helper()
	var lines []string
	holders := map[string]string{}
	describe := " hw.name=nvidia0 hw.model=NVIDIA-H100-80GB-HBM3 hw.vendor=NVIDIA hw.type=gpu"
	for g := 1; g <= 8; g++ {
		board := fmt.Sprint("GPU-", g)
		for _, series := range []string{
			"hw.power=100", "hw.energy=1", "hw.temperature=40 hw.sensor_location=gpu", "hw.temperature=40 hw.sensor_location=memory",
			"gpu.clock.frequency=1 gpu.clock.domain=sm", "gpu.clock.frequency=1 gpu.clock.domain=memory",
			"gpu.clock.event.active=0 gpu.clock.event.reason=sw_power_cap", "gpu.clock.event.active=0 gpu.clock.event.reason=hw_slowdown",
			"gpu.clock.throttle.time=1 gpu.clock.violation=power", "gpu.clock.throttle.time=1 gpu.clock.violation=thermal",
			"gpu.pcie.throughput=1 network.io.direction=transmit", "gpu.pcie.throughput=1 network.io.direction=receive",
		} {
			lines = append(lines, board+" "+series+describe)
		}
		for i := range 7 {
			id := fmt.Sprintf("%s/gi%d", board, 7+i)
			holders[fmt.Sprintf("MIG-%s/%d/0", board, 7+i)] = fmt.Sprintf("worker-%d-%d", g, i)
			for _, series := range []string{
				"hw.gpu.memory.usage=1", "hw.gpu.memory.limit=2", "hw.gpu.memory.utilization=0.5", "hw.gpu.utilization=0.5 hw.gpu.task=general",
				"gpu.engine.active=0.5", "gpu.sm.active=0.5", "gpu.sm.occupancy=0.5", "gpu.dram.active=0.5", "gpu.pipe.active=0.5 gpu.pipe=tensor", "hw.errors=0",
			} {
				lines = append(lines, id+" "+series+" gpu.mig.profile=1g.10gb"+describe)
			}
		}
	}
	for i := range lines {
		lines[i] = lengthen(lines[i])
	}
	return parse(b, lines, at), holders
}

// BenchmarkProcessor processes batches from a node with 8 boards that each have 7 instances. Each
// instance has one holder. The results are reported per emitted point.
func BenchmarkProcessor(b *testing.B) {
	p := newTestProcessor(b, "", processortest.NewNopSettings(metadata.Type))
	template, holders := nodeBatch(b, 10*time.Second)
	held(p, time.Unix(5, 0), holders)
	b.ReportAllocs()
	var cpu cpumeter.Meter
	left := 0
	for b.Loop() {
		b.StopTimer()
		md := pmetric.NewMetrics()
		template.CopyTo(md)
		b.StartTimer()
		cpu.Start(b)
		out, err := p.processMetrics(context.Background(), md)
		cpu.Stop(b)
		require.NoError(b, err)
		left = out.DataPointCount()
	}
	b.ReportMetric(float64(left), "points")
	cpu.Report(b, left)
}

// The limit on allocations is 10% above the value that was measured when this test was written.
func TestABatchOfANodeStaysWithinItsAllocations(t *testing.T) {
	p := newTestProcessor(t, "", processortest.NewNopSettings(metadata.Type))
	_, holders := nodeBatch(t, 0)
	held(p, time.Unix(5, 0), holders)
	assert.Less(t, pdatatest.Allocations(t, pdatagpu.Sections(p.section()).Process, func(i int) pmetric.Metrics {
		md, _ := nodeBatch(t, time.Duration(10+i)*time.Second)
		return md
	}), 381.0)
}

func TestAProcessWithoutADeviceIsLoggedAfterTheDevicesOfItsNodeAreKnown(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	set := processortest.NewNopSettings(metadata.Type)
	set.Logger = zap.New(core)
	p := newTestProcessor(t, "", set)
	const process7 = "pod=ns/a/c - process.gpu.memory.usage=1 process.pid=7 gpu.process.source=x"
	assert.Zero(t, process(t, p, process7).DataPointCount())
	assert.Empty(t, logs.All(), "the devices may arrive with the next scrape")
	for range 2 {
		process(t, p, "GPU-1 hw.power=1", "GPU-2 hw.power=1", process7)
	}
	require.Equal(t, 1, logs.Len())
	assert.Contains(t, logs.All()[0].Message, "The device of a process is unknown")
	assert.Equal(t, map[string]any{
		"k8s.node.name": "n1", "k8s.namespace.name": "ns", "k8s.pod.name": "a", "process.pid": "7", "exporter": "x",
	}, logs.All()[0].ContextMap())
}
