package gpuwatchdogexporter

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuwatchdogexporter/internal/decide"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/pdatatest"
)

// The watchdog must be able to use the output of the budget section of gpu_k8s. In this test, HAMi
// reports the usage and the limits of two pods that share a GPU.
func TestBudgetProcessorOutputIsSupported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sink := gpuk8sprocessor.NewFactory(), &consumertest.MetricsSink{}
		cfg := f.CreateDefaultConfig()
		require.NoError(t, confmap.NewFromStringMap(map[string]any{
			"kubernetes": map[string]any{"auth_type": "none"},
			"sources":    map[string]any{"pod_resources": map[string]any{"enabled": false}, "dra": map[string]any{"enabled": false}},
			"budget":     nil,
		}).Unmarshal(cfg))
		p, err := f.CreateMetrics(t.Context(), processortest.NewNopSettings(f.Type()), cfg, sink)
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context(), componenttest.NewNopHost()))
		defer func() { require.NoError(t, p.Shutdown(context.WithoutCancel(t.Context()))) }()

		md := pmetric.NewMetrics()
		gauge := func(place, attributes map[string]any, name string, value int64) {
			rm := md.ResourceMetrics().AppendEmpty()
			require.NoError(t, rm.Resource().Attributes().FromRaw(place))
			m := rm.ScopeMetrics().AppendEmpty().Metrics().AppendEmpty()
			m.SetName(name)
			dp := m.SetEmptyGauge().DataPoints().AppendEmpty()
			require.NoError(t, dp.Attributes().FromRaw(attributes))
			dp.SetTimestamp(pcommon.NewTimestampFromTime(time.Now()))
			dp.SetIntValue(value)
		}
		node := map[string]any{signal.K8sNodeName: "gpu-1"}
		device := map[string]any{signal.HardwareID: "GPU-0"}
		gauge(node, device, signal.HwGPUMemoryUsage.Name, 14204*mib)
		gauge(node, device, signal.HwGPUMemoryLimit.Name, 15360*mib)
		gauge(node, device, signal.GPUSharingClients.Name, 2)
		for pod, bytes := range map[string][2]int64{"a": {10004 * mib, 3000 * mib}, "b": {4000 * mib, 4500 * mib}} {
			container := map[string]any{
				signal.K8sNodeName: "gpu-1", signal.K8sNamespaceName: "ai", signal.K8sPodName: pod,
				signal.K8sPodUID: "uid-" + pod, signal.K8sContainerName: "main",
			}
			gauge(container, map[string]any{
				signal.HardwareID: "GPU-0", signal.HolderSource: signal.HolderSourcePodResources, signal.SharingStrategy: signal.SharingTimeSlicing,
			}, signal.GPUDeviceHolder.Name, 1)
			gauge(container, device, signal.K8sContainerGPUMemoryUsage.Name, bytes[0])
			gauge(container, map[string]any{signal.HardwareID: "GPU-0", signal.BudgetSource: signal.BudgetSourceExporter},
				signal.K8sContainerGPUMemoryBudget.Name, bytes[1])
		}
		require.NoError(t, p.ConsumeMetrics(t.Context(), md))

		c, other := newCollection(90*time.Second), newCollection(90*time.Second)
		for _, out := range sink.AllMetrics() {
			c.add(out, time.Now())
			other.add(pdatatest.DevicesOnResources(out), time.Now())
		}
		assert.Equal(t, c.devices, other.devices, "the series of devices may be on separate Resources")
		windowed := newCollection(90 * time.Second)
		for _, out := range windows(t, sink.AllMetrics()) {
			windowed.add(out, time.Now())
		}
		assert.Equal(t, c.devices, windowed.devices, "gpu_window sends the last values with their times")
		s := only(t, c, time.Now())
		require.NotNil(t, s)
		assert.Equal(t, decide.Valid, s.Attribution)
		assert.EqualValues(t, 1156*mib, s.Headroom)
		assert.Equal(t, map[string][2]int64{"ai/a/main uid-a": {10004, 3000}, "ai/b/main uid-b": {4000, 4500}}, holders(s))

		key := decide.Device{Node: "gpu-1", ID: "GPU-0"}
		reason := func(change ...func(*Config)) decide.Reason {
			policy := newConfig(append(change, enforce, func(cfg *Config) { cfg.Breaches = 1 })...).policy()
			_, d := decide.Evaluate(decide.State{}, decide.Input{Device: key, Sample: s}, policy, time.Now())
			assert.Equal(t, "a", d.Victim.Pod)
			return d.Reason
		}
		assert.Equal(t, decide.EnforcedBudget, reason(), "HAMi enforces its limits")
		assert.Equal(t, decide.PodUnknown, reason(func(cfg *Config) { cfg.Budgets.Sources = []string{"exporter"} }))
	})
}

// For the metrics that the watchdog uses, gpu_window sends the last value in each window, with the
// timestamp of its sample. The watchdog must make the same decisions from the output of gpu_window
// as from the original samples. The decisions may be delayed, but by no more than the window length
// plus the grace period of gpu_window.
func TestAWatchdogBehindGPUWindowDecidesTheSame(t *testing.T) {
	behindWindows(t, func(g *guard, send func(time.Duration, card)) {
		send(5*time.Minute, relaxed)
		assert.Equal(t, map[string]int64{"no_telemetry": 1, "above_floor": 4}, g.counted(), "the first window ends after a minute")
		send(3*time.Minute, pressed)
		assert.Empty(t, g.api.evictions())
		assert.EqualValues(t, 2, g.counted()["breach_pending"])
		send(time.Minute, pressed)
		assert.Equal(t, []string{"a"}, g.api.evictions())
		assert.NotContains(t, g.counted(), "telemetry_stale")
		assert.NotContains(t, g.counted(), "telemetry_missing")
	})
}

// The values in a window keep the timestamps of their samples. If samples stop arriving before the
// end of a window, the watchdog detects that the data is stale, even though the window itself is
// recent. While the data is stale, the watchdog does not evict any pod.
func TestAWindowWithoutRecentSamplesLeadsToNoDecision(t *testing.T) {
	behindWindows(t, func(g *guard, send func(time.Duration, card)) {
		send(5*time.Minute, relaxed)
		send(2*time.Minute, pressed)
		assert.EqualValues(t, 1, g.counted()["breach_pending"])
		send(30*time.Second, pressed) // no samples in the second half of the window
		time.Sleep(5 * time.Minute)
		assert.Empty(t, g.api.evictions())
		assert.EqualValues(t, 0, g.counted()["evicted"])
		assert.Positive(t, g.counted()["telemetry_stale"])
	})
}

// behindWindows calls the test function with a watchdog that receives the output of gpu_window. The
// watchdog and gpu_window use their default settings and a fake clock. The send function sends a
// sample of the card to gpu_window every 15 seconds for the given duration.
func behindWindows(t *testing.T, test func(g *guard, send func(time.Duration, card))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := startGuard(t, ownPods(), componenttest.NewNopHost(), enforce)
		defer g.stop()
		f := gpuwindowprocessor.NewFactory()
		next, err := consumer.NewMetrics(g.consume)
		require.NoError(t, err)
		p, err := f.CreateMetrics(t.Context(), processortest.NewNopSettings(f.Type()), f.CreateDefaultConfig(), next)
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context(), componenttest.NewNopHost()))
		defer func() { require.NoError(t, p.Shutdown(context.WithoutCancel(t.Context()))) }()
		time.Sleep(7 * time.Second) // samples and evaluations must occur at different times
		test(g, func(d time.Duration, c card) {
			for range int(d / (15 * time.Second)) {
				require.NoError(t, p.ConsumeMetrics(t.Context(), c.metrics(time.Now())))
				time.Sleep(15 * time.Second) // on the fake clock
			}
		})
	})
}

// The windows function sends the batches to a gpu_window processor with default settings, waits
// until the window has ended, and returns the output of the processor.
func windows(t *testing.T, batches []pmetric.Metrics) []pmetric.Metrics {
	t.Helper()
	f, sink := gpuwindowprocessor.NewFactory(), &consumertest.MetricsSink{}
	p, err := f.CreateMetrics(t.Context(), processortest.NewNopSettings(f.Type()), f.CreateDefaultConfig(), sink)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context(), componenttest.NewNopHost()))
	for _, md := range batches {
		require.NoError(t, p.ConsumeMetrics(t.Context(), md))
	}
	time.Sleep(70 * time.Second) // on the fake clock
	require.NoError(t, p.Shutdown(context.WithoutCancel(t.Context())))
	return sink.AllMetrics()
}
