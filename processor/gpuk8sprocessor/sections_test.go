package gpuk8sprocessor

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/internal/stage"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/metadatatest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/goldentest"
)

// finds returns a stage that adds a finding named latched, with the given value, to every device.
func finds(latched float64) *pdatagpu.Processor {
	everything := func(*signal.Metric) bool { return true }
	return pdatagpu.NewStage(pdatagpu.Sections(pdatagpu.Section{Wants: everything, Process: func(_ context.Context, batch *stage.Batch) {
		for _, f := range batch.Frames {
			for _, d := range f.Devices {
				d.Samples.Add(gpudata.Sample{Metric: signal.GPUFinding, Own: signal.FindingLatched, Value: latched})
			}
		}
		batch.Settle(gpudata.Scope(0), nil)
	}}))
}

func TestUsageReadsTheResultsOfEarlierStages(t *testing.T) {
	for name, c := range map[string]struct {
		latched float64
		active  bool
	}{"latched": {1, false}, "true": {0, true}} {
		t.Run(name, func(t *testing.T) {
			cfg := createDefaultConfig().(*Config)
			cfg.NodeName, cfg.Kubernetes.AuthType = "", kube.AuthNone
			cfg.Sources.PodResources.Enabled, cfg.Sources.DRA.Enabled = false, false
			cfg.Usage.GetOrInsertDefault()
			sink := &consumertest.MetricsSink{}
			holders, accounts, err := NewStages(processortest.NewNopSettings(metadata.Type), cfg, sink)
			require.NoError(t, err)
			p := pdatagpu.NewStages(sink)
			p.Append("gpu_k8s", holders)
			p.Append("gpu_findings", finds(c.latched))
			p.Append("gpu_k8s", accounts)
			require.NoError(t, p.Start(t.Context(), componenttest.NewNopHost()))
			for _, second := range []string{"10s", "20s"} {
				require.NoError(t, p.ConsumeMetrics(t.Context(), goldentest.Points(t,
					second+" {k8s.node.name=n1} hw.gpu.utilization {hw.id=GPU-1, hw.gpu.task=general} = 1\n"+
						second+" {k8s.node.name=n1, k8s.namespace.name=ns, k8s.pod.name=a, k8s.container.name=main} gpu.device.holder {hw.id=GPU-1, gpu.holder.source=labels} = 1\n", false)))
			}
			require.NoError(t, p.Shutdown(t.Context()))
			names := map[string]bool{}
			for point := range points.All(sink.AllMetrics()[1]) {
				names[point.Metric.Name()] = true
			}
			assert.True(t, names["k8s.container.gpu.allocated.time"])
			assert.Equal(t, c.active, names["k8s.container.gpu.active.time"])
		})
	}
}

func TestWithoutBudgetAndUsageThereAreNoAccounts(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	cfg.Power.GetOrInsertDefault()
	holders, accounts, err := NewStages(processortest.NewNopSettings(metadata.Type), cfg, consumertest.NewNop())
	require.NoError(t, err)
	assert.NotNil(t, holders)
	assert.Nil(t, accounts)
}

func TestUnreadablePodsAreCountedAndTheFirstIsLogged(t *testing.T) {
	tel := componenttest.NewTelemetry()
	core, logs := observer.New(zap.WarnLevel)
	set := processortest.NewNopSettings(metadata.Type)
	set.TelemetrySettings = tel.NewTelemetrySettings()
	set.Logger = zap.New(core)
	p, err := newProcessor(createDefaultConfig().(*Config), set)
	require.NoError(t, err)
	for _, name := range []string{"a", "b"} {
		p.unreadable(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}, errors.New("gpu-memory is plenty"))
	}
	metadatatest.AssertEqualProcessorGpuK8sDeclarationsUnreadable(t, tel, []metricdata.DataPoint[int64]{{Value: 2}}, metricdatatest.IgnoreTimestamp())
	require.Equal(t, 1, logs.Len())
	assert.Contains(t, logs.All()[0].Message, "annotations of a pod cannot be read")
	assert.Equal(t, map[string]any{"k8s.namespace.name": "ns", "k8s.pod.name": "a", "error": "gpu-memory is plenty"}, logs.All()[0].ContextMap())
}

// If no node name is set, only the sections read the API server.
func TestAKubeconfigThatCannotBeUsedFailsTheStartOfASection(t *testing.T) {
	for section, enable := range map[string]func(*Config){
		"budget": func(cfg *Config) { cfg.Budget.GetOrInsertDefault() },
		"usage":  func(cfg *Config) { cfg.Usage.GetOrInsertDefault() },
	} {
		t.Run(section, func(t *testing.T) {
			cfg := createDefaultConfig().(*Config)
			cfg.NodeName, cfg.Kubernetes = "", kube.Config{AuthType: kube.AuthKubeConfig, KubeConfig: t.TempDir() + "/none"}
			enable(cfg)
			p, err := NewFactory().CreateMetrics(t.Context(), processortest.NewNopSettings(metadata.Type), cfg, consumertest.NewNop())
			require.NoError(t, err)
			require.ErrorContains(t, p.Start(t.Context(), componenttest.NewNopHost()), "kubeconfig")
			require.NoError(t, p.Shutdown(t.Context()))
		})
	}
}

func TestProcessListsAboveMaxProcessesAreCountedAndLoggedOnce(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	cfg.NodeName, cfg.Kubernetes.AuthType, cfg.MaxProcesses = "", kube.AuthNone, 2
	cfg.Sources.PodResources.Enabled, cfg.Sources.DRA.Enabled = false, false
	cfg.Power.GetOrInsertDefault()
	tel := componenttest.NewTelemetry()
	core, logs := observer.New(zap.WarnLevel)
	set := processortest.NewNopSettings(metadata.Type)
	set.TelemetrySettings = tel.NewTelemetrySettings()
	set.Logger = zap.New(core)
	p, err := NewFactory().CreateMetrics(t.Context(), set, cfg, &consumertest.MetricsSink{})
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context(), componenttest.NewNopHost()))
	defer func() { require.NoError(t, p.Shutdown(context.Background())) }()
	for range 2 {
		require.NoError(t, p.ConsumeMetrics(t.Context(), goldentest.Points(t, `10s {} process.gpu.utilization {hw.id=GPU-1, process.pid=1} = 0.5
10s {} process.gpu.utilization {hw.id=GPU-2, process.pid=2} = 0.5
10s {} process.gpu.utilization {hw.id=GPU-2, process.pid=3} = 0.5`, false)))
	}
	metadatatest.AssertEqualProcessorGpuK8sPointsDropped(t, tel, []metricdata.DataPoint[int64]{
		{Value: 4, Attributes: attribute.NewSet(attribute.String("reason", "no_room"))},
	}, metricdatatest.IgnoreTimestamp())
	if assert.Equal(t, 1, logs.Len()) {
		assert.Contains(t, logs.All()[0].Message, "max_processes of 2 is reached: new processes are refused")
	}
}

// A receiver such as nvml sends metrics to its stages. The accounts stage reads its frames from the
// metrics that the holders stage wrote.
func TestStagesAndTheProcessorUseTheSameProcessLists(t *testing.T) {
	newConfig := func() *Config {
		cfg := createDefaultConfig().(*Config)
		cfg.NodeName, cfg.Kubernetes.AuthType = "", kube.AuthNone
		cfg.Sources.PodResources.Enabled, cfg.Sources.DRA.Enabled = false, false
		cfg.Power.GetOrInsertDefault()
		cfg.Budget.GetOrInsertDefault()
		cfg.Usage.GetOrInsertDefault()
		return cfg
	}
	const device = `{k8s.node.name=n1} hw.gpu.memory.usage {hw.id=GPU-1} = 3Gi
@{k8s.node.name=n1} hw.gpu.memory.limit {hw.id=GPU-1} = 16Gi
@{k8s.node.name=n1} hw.power {hw.id=GPU-1} = 100
@{k8s.node.name=n1, k8s.namespace.name=ns, k8s.pod.name=a, k8s.container.name=main} gpu.device.holder {hw.id=GPU-1} = 1
@{k8s.node.name=n1, k8s.namespace.name=ns, k8s.pod.name=b, k8s.container.name=main} gpu.device.holder {hw.id=GPU-1} = 1
`
	const list = `{k8s.node.name=n1} gpu.process.count {hw.id=GPU-1} = 2
@{k8s.node.name=n1, k8s.namespace.name=ns, k8s.pod.name=a, k8s.container.name=main} process.gpu.memory.usage {hw.id=GPU-1, process.pid=1} = 2Gi
@{k8s.node.name=n1, k8s.namespace.name=ns, k8s.pod.name=a, k8s.container.name=main} process.gpu.utilization {hw.id=GPU-1, process.pid=1} = 0.5
@{k8s.node.name=n1, k8s.namespace.name=ns, k8s.pod.name=b, k8s.container.name=main} process.gpu.memory.usage {hw.id=GPU-1, process.pid=2} = 1Gi
@{k8s.node.name=n1, k8s.namespace.name=ns, k8s.pod.name=b, k8s.container.name=main} process.gpu.utilization {hw.id=GPU-1, process.pid=2} = 0.25
`
	at := func(time, points string) string { return time + " " + strings.ReplaceAll(points, "@", time+" ") }
	batches := []string{
		at("10s", device) + at("10s", list),
		at("21s", list), at("20s", device), // the list arrives first
		at("30s", device), at("31s", list), // the device arrives first
		at("40s", device) + at("41s", list) + at("50s", device) + at("51s", list) + at("60s", device) + at("61s", list),
	}
	set := processortest.NewNopSettings(metadata.Type)
	run := func(sink *consumertest.MetricsSink, p interface {
		Start(ctx context.Context, host component.Host) error
		ConsumeMetrics(ctx context.Context, md pmetric.Metrics) error
		Shutdown(ctx context.Context) error
	},
	) string {
		require.NoError(t, p.Start(t.Context(), componenttest.NewNopHost()))
		for _, batch := range batches {
			require.NoError(t, p.ConsumeMetrics(t.Context(), goldentest.Points(t, batch, false)))
		}
		require.NoError(t, p.Shutdown(context.Background()))
		var text strings.Builder
		for _, md := range sink.AllMetrics() {
			text.WriteString(render(md))
		}
		return text.String()
	}
	sink := &consumertest.MetricsSink{}
	plain, err := NewFactory().CreateMetrics(t.Context(), set, newConfig(), sink)
	require.NoError(t, err)
	want := run(sink, plain)
	for _, time := range []string{"10s", "21s", "31s", "41s", "51s", "61s"} {
		assert.Contains(t, want, time+" {k8s.container.name=main, k8s.namespace.name=ns, k8s.node.name=n1, k8s.pod.name=a} k8s.container.gpu.memory.usage=2.147483648e+09")
	}

	sink = &consumertest.MetricsSink{}
	holders, accounts, err := NewStages(set, newConfig(), sink)
	require.NoError(t, err)
	stages := pdatagpu.NewStages(sink)
	stages.Append("gpu_k8s", holders)
	stages.Append("gpu_k8s", accounts)
	assert.Equal(t, want, run(sink, stages))
}
