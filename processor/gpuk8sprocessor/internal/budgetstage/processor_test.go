package budgetstage

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"
	"pgregory.net/rapid"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/budget"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/metadatatest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/enumtest"
)

func defaults() *Config {
	cfg := createDefaultConfig().(*Config)
	return cfg
}

func nop() processor.Settings { return processortest.NewNopSettings(metadata.Type) }

// shared returns the samples of a 16 GiB device at time t. Two pods, named a and b, share the
// device.
func shared(t, used, a, b string) string {
	return strings.ReplaceAll(fmt.Sprintf(`T {n1} hw.gpu.memory.usage {hw.id=GPU-1} = %s
T {n1} hw.gpu.memory.limit {hw.id=GPU-1} = 16Gi
T {@a} gpu.device.holder {hw.id=GPU-1, gpu.holder.source=pod_resources, gpu.sharing.strategy=time_slicing} = 1
T {@b} gpu.device.holder {hw.id=GPU-1, gpu.holder.source=pod_resources, gpu.sharing.strategy=time_slicing} = 1
T {@a} k8s.container.gpu.memory.usage {hw.id=GPU-1} = %s
T {@b} k8s.container.gpu.memory.usage {hw.id=GPU-1} = %s
`, used, a, b), "T", t)
}

// exclusive returns the samples of a 16 GiB device at time t. Only the pod named a holds the
// device.
func exclusive(t time.Duration, used string) string {
	return strings.ReplaceAll(fmt.Sprintf(`T {n1} hw.gpu.memory.usage {hw.id=GPU-1} = %s
T {n1} hw.gpu.memory.limit {hw.id=GPU-1} = 16Gi
T {@a} gpu.device.holder {hw.id=GPU-1, gpu.holder.source=pod_resources, gpu.sharing.strategy=none} = 1
`, used), "T", t.String())
}

func TestEveryReasonHasAPoint(t *testing.T) {
	p := newTestProcessor(t, defaults(), nop(), componenttest.NewNopHost(), nil)
	md := parse(t, shared("60s", "6Gi", "0", "0"), false)
	feed(t, p, md)
	states := map[string]int64{}
	for _, rm := range md.ResourceMetrics().All() {
		for _, sm := range rm.ScopeMetrics().All() {
			for _, m := range sm.Metrics().All() {
				if m.Name() != signal.GPUMemoryAttributionState.Name {
					continue
				}
				for _, dp := range m.Gauge().DataPoints().All() {
					states[pdatagpu.Text(dp.Attributes(), signal.State)+"/"+pdatagpu.Text(dp.Attributes(), signal.Reason)] = dp.IntValue()
				}
			}
		}
	}
	assert.Equal(t, map[string]int64{
		"valid/adds_up": 0, "partial/holders_unknown": 0, "partial/device_unknown": 0, "partial/usage_missing": 0,
		"partial/unexplained": 0, "invalid/false_zero": 1, "invalid/above_device": 0, "invalid/sum_above_device": 0,
		"invalid/dead_slots": 0, "invalid/stale_source": 0,
	}, states)
}

func TestDroppedPointsAreCounted(t *testing.T) {
	tel := componenttest.NewTelemetry()
	set := nop()
	set.TelemetrySettings = tel.NewTelemetrySettings()
	cfg := defaults()
	cfg.MaxSeries = 1
	p := newTestProcessor(t, cfg, set, componenttest.NewNopHost(), nil)
	feed(t, p, parse(t, `10s {n1} gpu.process.count {hw.id=GPU-1} = stale
0s {n1} hw.gpu.memory.usage {hw.id=GPU-1} = 1
10s {n1} hw.gpu.memory.usage {} = 1
10s {n1} gpu.device.holder {hw.id=GPU-1} = 1
10s {@a} gpu.device.holder {hw.id=GPU-1} = 2
10s {n1} hw.gpu.memory.usage {hw.id=GPU-1} = -1
10s {n1} process.gpu.memory.usage {hw.id=GPU-1, process.pid=1} = 1
10s {n1} process.gpu.memory.usage {hw.id=GPU-1, process.pid=2} = 1
10s {n1} process.gpu.memory.usage {hw.id=GPU-1} = 1
10s {@b} k8s.container.gpu.memory.usage {hw.id=GPU-2} = 1
10s {@c} k8s.container.gpu.memory.usage {hw.id=GPU-2} = 1
10s {n1} process.gpu.utilization {hw.id=GPU-1, process.pid=1} = 2.1
`, false))
	want := map[string]int64{
		"no_value": 1, "no_time": 1, "no_device": 2, "no_holder": 1, "out_of_range": 2, "implausible": 1, "no_room": 1,
	}
	var points []metricdata.DataPoint[int64]
	for reason, n := range want {
		points = append(points, metricdata.DataPoint[int64]{Value: n, Attributes: attribute.NewSet(attribute.String("reason", reason))})
	}
	metadatatest.AssertEqualProcessorGpuBudgetPointsDropped(t, tel, points, metricdatatest.IgnoreTimestamp())
}

func TestAUtilizationThatIsClampedIsCounted(t *testing.T) {
	tel := componenttest.NewTelemetry()
	set := nop()
	set.TelemetrySettings = tel.NewTelemetrySettings()
	p := newTestProcessor(t, defaults(), set, componenttest.NewNopHost(), nil)
	for _, ratio := range []string{"1", "1.005", "2", "-0.05", "2.01", "1e13"} {
		feed(t, p, parse(t, `10s {n1} hw.gpu.memory.utilization {hw.id=GPU-1} = `+ratio, false))
	}
	metadatatest.AssertEqualProcessorGpuBudgetPointsClamped(t, tel, []metricdata.DataPoint[int64]{{Value: 3}}, metricdatatest.IgnoreTimestamp())
}

func TestTheOtherSourcesOfBudgetsApplyIfAnAnnotationIsInvalid(t *testing.T) {
	p := newTestProcessor(t, defaults(), nop(), componenttest.NewNopHost(), parseObjects(t, `apiVersion: v1
kind: Pod
metadata: {name: a, namespace: ns, uid: u, annotations: {gpu-memory: plenty}}
spec: {containers: [{name: main}]}`))
	assert.Contains(t, feed(t, p, parse(t, exclusive(time.Second, "4Gi"), false)), "source=whole_gpu")
}

func TestEvaluationsAndSourcesAreCounted(t *testing.T) {
	tel := componenttest.NewTelemetry()
	set := nop()
	set.TelemetrySettings = tel.NewTelemetrySettings()
	p := newTestProcessor(t, defaults(), set, componenttest.NewNopHost(), parseObjects(t, `apiVersion: v1
kind: Pod
metadata: {name: a, namespace: ns, uid: u}
spec: {containers: [{name: main}]}`))
	feed(t, p, parse(t, exclusive(time.Second, "4Gi"), false))
	metadatatest.AssertEqualProcessorGpuBudgetDevices(t, tel,
		[]metricdata.DataPoint[int64]{{Value: 1, Attributes: attribute.NewSet(attribute.String("reason", "adds_up"))}}, metricdatatest.IgnoreTimestamp())
	m, err := tel.GetMetric("otelcol_processor_gpu_budget_source_state")
	require.NoError(t, err)
	held := map[string]bool{}
	for _, dp := range m.Data.(metricdata.Gauge[int64]).DataPoints {
		source, _ := dp.Attributes.Value("source")
		state, _ := dp.Attributes.Value("state")
		held[source.AsString()+" "+state.AsString()] = dp.Value == 1
	}
	assert.Len(t, held, int(kube.Absent)+1)
	assert.True(t, held["pods synced"])
}

func TestShutdownWithoutStartAndTwice(t *testing.T) {
	p, err := NewFactory().CreateMetrics(context.Background(), nop(), defaults(), consumertest.NewNop())
	require.NoError(t, err)
	require.NoError(t, p.Shutdown(context.Background()))
	require.NoError(t, p.Shutdown(context.Background()))
}

// For any batch, and for any order of the batch's points, the processor returns no error, does not
// change the existing points, and adds the same points.
func TestTheOrderOfPointsDoesNotChangeTheOutput(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		value := rapid.SampledFrom([]string{"0", "1Gi", "3000Mi", "6Gi", "17Gi", "17592186044134Mi", "stale", "-1", "NaN", "+Inf"})
		id := rapid.SampledFrom([]string{"GPU-1", "GPU-2", "GPU-1/gi7", "GPU-1/gi", ""})
		var lines []string
		seen := map[string]bool{}
		for range rapid.IntRange(1, 30).Draw(rt, "lines") {
			pod := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "pod")
			d := id.Draw(rt, "id")
			forms := []string{
				"10s {n1} hw.gpu.memory.usage {hw.id=" + d + "}", "10s {n1} hw.gpu.memory.limit {hw.id=" + d + "}",
				"10s {n1} hw.gpu.memory.utilization {hw.id=" + d + "}", "10s {n1} gpu.sharing.clients {hw.id=" + d + "}",
				"10s {@" + pod + "} gpu.device.holder {hw.id=" + d + ", gpu.holder.source=dra, gpu.sharing.strategy=none}",
				"10s {@" + pod + "} k8s.container.gpu.memory.usage {hw.id=" + d + "}",
				"10s {@" + pod + "} process.gpu.memory.usage {hw.id=" + d + ", process.pid=" + pod + "}",
				"10s {k8s.node.name=n1, k8s.pod.uid=uid-" + pod + "} process.gpu.memory.usage {hw.id=" + d + ", process.pid=1" + pod + "}",
				"10s {k8s.node.name=n1, k8s.namespace.name=ns, k8s.pod.name=" + pod + "} process.gpu.memory.usage {hw.id=" + d + ", process.pid=2" + pod + "}",
				"10s {@" + pod + "} process.gpu.utilization {hw.id=" + d + ", process.pid=3" + pod + "}",
				"10s {n1} gpu.process.count {hw.id=" + d + "}",
				"9s {@" + pod + "} k8s.container.gpu.memory.usage {hw.id=" + d + "}",
				"9s {@" + pod + "} k8s.container.gpu.memory.budget {hw.id=" + d + "}",
				"9s {k8s.node.name=n1, k8s.namespace.name=ns, k8s.pod.name=" + pod + "} k8s.container.gpu.memory.budget {hw.id=" + d + "}",
			}
			form := rapid.SampledFrom(forms).Draw(rt, "form")
			if seen[form] {
				continue // Do not generate two values for the same series, because the order of the two values would matter.
			}
			seen[form] = true
			v := value.Draw(rt, "value")
			if strings.Contains(form, "holder") {
				v = "1"
			}
			lines = append(lines, form+" = "+v)
		}
		text := strings.Join(lines, "\n")
		once := newTestProcessor(t, defaults(), nop(), componenttest.NewNopHost(), nil)
		again := newTestProcessor(t, defaults(), nop(), componenttest.NewNopHost(), nil)
		if a, b := feed(t, once, parse(t, text, false)), feed(t, again, parse(t, text, true)); a != b {
			rt.Fatalf("%s\nis\n%s\nbackwards\n%s", text, a, b)
		}
	})
}

// An outdated cache can contain a declaration that was changed or removed later.
func TestDeclarationsAreNotReadFromAnOutdatedPodCache(t *testing.T) {
	cfg := defaults()
	cfg.Sources.ExtendedResources = []ExtendedResourceConfig{{Name: "example.com/gpumem", Unit: "MiB"}}
	p := newTestProcessor(t, cfg, nop(), componenttest.NewNopHost(), parseObjects(t, `apiVersion: v1
kind: Pod
metadata: {name: a, namespace: ns, uid: uid-a}
spec: {containers: [{name: main, resources: {limits: {example.com/gpumem: 3000}}}]}`))
	at := func(seconds string) string {
		return feed(t, p, parse(t, strings.ReplaceAll(`10s {n1} hw.gpu.memory.usage {hw.id=GPU-1, hw.name=nvidia0} = 1Gi
10s {n1} hw.gpu.memory.limit {hw.id=GPU-1, hw.name=nvidia0} = 16Gi
10s {n1} gpu.sharing.clients {hw.id=GPU-1, hw.name=nvidia0} = 1
10s {@a} gpu.device.holder {hw.id=GPU-1, gpu.holder.source=pod_resources, gpu.sharing.strategy=none} = 1`, "10s", seconds), false))
	}
	assert.Contains(t, at("10s"), "k8s.container.gpu.memory.budget ")
	for i, phase := range []kube.Phase{kube.Stale, kube.Forbidden} {
		p.phase = func() kube.Phase { return phase }
		got := at([]string{"20s", "30s"}[i])
		assert.NotContains(t, got, "k8s.container.gpu.memory.budget", phase)
		assert.NotContains(t, got, "gpu.memory.budget.declared", phase)
	}
	p.phase = func() kube.Phase { return kube.Synced }
	assert.Contains(t, at("40s"), "k8s.container.gpu.memory.budget ")
}

func TestTheValuesOfSelfMetricsAreDocumented(t *testing.T) {
	assert.ElementsMatch(t, enumtest.Documented(t, "budget.drop.reason"), enumtest.Names(0, dropReason(numDropReasons)))
	assert.ElementsMatch(t, enumtest.Documented(t, "budget.reason"), enumtest.Names(0, budget.NumReasons))
}
