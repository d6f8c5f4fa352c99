package budgetstage

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/kubelettest"
)

// NewSynthesizerFactory and NewK8sFactory return the factories for gpu_synthesizer and gpu_k8s.
// Only an external test package can set NewSynthesizerFactory and NewK8sFactory, because both
// components import this package.
var NewSynthesizerFactory, NewK8sFactory func() processor.Factory

// chain returns a pipeline that consists of gpu_synthesizer and gpu_k8s, and the sink that receives
// the output of gpu_k8s. In the test, the kubelet reports that two pods share a GPU through time
// slicing.
func chain(t *testing.T) (processor.Metrics, *consumertest.MetricsSink) {
	t.Helper()
	const gpu = "GPU-00000000-0000-0000-0000-000000000001"
	kubelet := kubelettest.Start(t)
	holds := func(pod, id string) kube.ContainerResources {
		return kube.ContainerResources{
			Namespace: "ns", Pod: pod, Container: "main",
			Devices: []kube.DeviceRef{{Resource: "nvidia.com/gpu", ID: id}},
		}
	}
	kubelet.Set(holds("a", gpu+"::0"), holds("b", gpu+"::1"))

	sink := &consumertest.MetricsSink{}
	f := NewK8sFactory()
	cfg := f.CreateDefaultConfig()
	require.NoError(t, confmap.NewFromStringMap(map[string]any{
		"node_name": "n1", "kubernetes": map[string]any{"auth_type": "none"},
		"sources": map[string]any{"pod_resources": map[string]any{"socket": kubelet.Socket()}},
	}).Unmarshal(cfg))
	k8s, err := f.CreateMetrics(context.Background(), processortest.NewNopSettings(f.Type()), cfg, sink)
	require.NoError(t, err)
	f = NewSynthesizerFactory()
	synthesizer, err := f.CreateMetrics(context.Background(), processortest.NewNopSettings(f.Type()), f.CreateDefaultConfig(), k8s)
	require.NoError(t, err)
	for _, p := range []processor.Metrics{k8s, synthesizer} {
		require.NoError(t, p.Start(context.Background(), componenttest.NewNopHost()))
		t.Cleanup(func() { require.NoError(t, p.Shutdown(context.Background())) })
	}
	return synthesizer, sink
}

// scrape returns the metrics of an exporter that reports the memory of each pod and, without a pod
// label, the memory of the device. All arguments are in MiB.
func scrape(used, a, b float64) pmetric.Metrics {
	stamp := pcommon.NewTimestampFromTime(time.Now()) // gpu_k8s knows the holders only for the time since gpu_k8s started.
	md := pmetric.NewMetrics()
	ms := md.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics()
	add := func(name, pod string, v float64) {
		m := ms.AppendEmpty()
		m.SetName(name)
		dp := m.SetEmptyGauge().DataPoints().AppendEmpty()
		dp.SetTimestamp(stamp)
		dp.SetDoubleValue(v)
		for k, v := range map[string]string{
			"gpu": "0", "UUID": "GPU-00000000-0000-0000-0000-000000000001", "device": "nvidia0", "modelName": "Tesla T4", "Hostname": "n1",
		} {
			dp.Attributes().PutStr(k, v)
		}
		if pod != "" {
			dp.Attributes().PutStr("namespace", "ns")
			dp.Attributes().PutStr("pod", pod)
			dp.Attributes().PutStr("container", "main")
		}
	}
	add("DCGM_FI_DEV_FB_USED", "", used)
	add("DCGM_FI_DEV_FB_FREE", "", 14900-used)
	add("DCGM_FI_DEV_FB_RESERVED", "", 460)
	add("DCGM_FI_DEV_FB_USED", "a", a)
	add("DCGM_FI_DEV_FB_USED", "b", b)
	return md
}

func TestTheSectionReadsTheOutputOfSynthesizerAndK8s(t *testing.T) {
	firstProcessor, sink := chain(t)
	cfg := defaults()
	cfg.Sources.ExtendedResources = []ExtendedResourceConfig{{Name: "example.com/gpumem", Unit: "MiB"}}
	pod := func(name, memory string) string {
		return `apiVersion: v1
kind: Pod
metadata: {name: ` + name + `, namespace: ns, uid: uid-` + name + `}
spec: {containers: [{name: main, resources: {limits: {example.com/gpumem: ` + memory + `}}}]}`
	}
	p := newTestProcessor(t, cfg, nop(), componenttest.NewNopHost(), parseObjects(t, pod("a", "3k")+"\n---\n"+pod("b", "5k")))
	process := func(md pmetric.Metrics) string {
		sink.Reset()
		require.NoError(t, firstProcessor.ConsumeMetrics(context.Background(), md))
		require.Len(t, sink.AllMetrics(), 1)
		return feed(t, p, sink.AllMetrics()[0])
	}

	got := process(scrape(6500, 2000, 4400))
	assert.Contains(t, got, "reason=adds_up, state=valid")
	assert.Regexp(t, `k8s.pod.name=a.* k8s.container.gpu.memory.budget.utilization \{.*\} = 0\.666667 1`, got)
	assert.Regexp(t, `k8s.pod.name=b.* k8s.container.gpu.memory.budget.utilization \{.*\} = 0\.88 1`, got)
	assert.Regexp(t, `gpu.memory.headroom \{.*\} = 8400 Mi`, got, "the driver's reserved memory is not free")

	got = process(scrape(6500, 0, 0))
	assert.NotContains(t, got, "state=valid", "false zeros")
	assert.NotContains(t, got, "budget.utilization")

	got = process(scrape(10000, 5000, 4400))
	assert.Regexp(t, `k8s.pod.name=a.* k8s.container.gpu.memory.budget.utilization \{.*\} = 1\.66667 1`, got, "the pod exceeds its budget")
}
