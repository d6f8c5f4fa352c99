package test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	watchdog "github.com/otelcol-gpu/otelcol-gpu/exporter/gpuwatchdogexporter"
	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuwatchdogexporter/internal/metadatatest"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/controlplane"
)

const (
	mib = 1 << 20

	waitTimeout = 30 * time.Second
	moment      = 100 * time.Millisecond
)

// A replica is a complete exporter that uses a real API server and evaluates all devices every
// second.
type replica struct {
	exporter.Metrics
	t         *testing.T
	telemetry *componenttest.Telemetry
	stopped   bool
}

func startReplica(t *testing.T, kubeconfig, ai, monitoring string, change func(*watchdog.Config)) *replica {
	t.Helper()
	cfg := watchdog.NewFactory().CreateDefaultConfig().(*watchdog.Config)
	cfg.DryRun = false
	cfg.Interval = time.Second
	cfg.MaxDataAge = 9 * time.Second
	cfg.Namespaces = []string{ai}
	cfg.Kubernetes = kube.Config{AuthType: kube.AuthKubeConfig, KubeConfig: kubeconfig}
	cfg.LeaderElection.Namespace, cfg.SharedRecord.Namespace = monitoring, monitoring
	cfg.LeaderElection.RetryPeriod = 200 * time.Millisecond
	if change != nil {
		change(cfg)
	}
	require.NoError(t, cfg.Validate())
	r := &replica{t: t, telemetry: componenttest.NewTelemetry()}
	var err error
	r.Metrics, err = watchdog.NewFactory().CreateMetrics(t.Context(), metadatatest.NewSettings(r.telemetry), cfg)
	require.NoError(t, err)
	require.NoError(t, r.Start(t.Context(), componenttest.NewNopHost()))
	t.Cleanup(r.stop)
	return r
}

func (r *replica) stop() {
	if r.stopped {
		return
	}
	r.stopped = true
	ctx := context.WithoutCancel(r.t.Context())
	require.NoError(r.t, r.Shutdown(ctx))
	require.NoError(r.t, r.telemetry.Shutdown(ctx))
}

// The counted method returns the number of evaluations with the given reason.
func (r *replica) counted(reason string) int64 {
	m, err := r.telemetry.GetMetric("otelcol_gpu_watchdog_evaluations")
	if err != nil {
		return 0
	}
	for _, dp := range m.Data.(metricdata.Sum[int64]).DataPoints {
		if v, _ := dp.Attributes.Value(attribute.Key("reason")); v.AsString() == reason {
			return dp.Value
		}
	}
	return 0
}

func (r *replica) heartbeat() float64 {
	m, err := r.telemetry.GetMetric("otelcol_gpu_watchdog_last_success")
	if err != nil {
		return 0
	}
	return m.Data.(metricdata.Gauge[float64]).DataPoints[0].Value
}

// The use type describes a pod's memory usage and its declared budget. Sizes are in MiB.
type use struct {
	pod          *corev1.Pod
	used, budget int64
}

// The pressure function returns the telemetry of a device that has 900 MiB of free memory. The
// device is on the node gpu-1.
func pressure(uses ...use) pmetric.Metrics {
	md := pmetric.NewMetrics()
	now := pcommon.NewTimestampFromTime(time.Now())
	add := func(pod *corev1.Pod, values map[*signal.Metric]int64) {
		rm := md.ResourceMetrics().AppendEmpty()
		rm.Resource().Attributes().PutStr(signal.K8sNodeName, "gpu-1")
		if pod != nil {
			rm.Resource().Attributes().PutStr(signal.K8sNamespaceName, pod.Namespace)
			rm.Resource().Attributes().PutStr(signal.K8sPodName, pod.Name)
			rm.Resource().Attributes().PutStr(signal.K8sPodUID, string(pod.UID))
		}
		ms := rm.ScopeMetrics().AppendEmpty().Metrics()
		for of, value := range values {
			m := ms.AppendEmpty()
			m.SetName(of.Name)
			dp := m.SetEmptyGauge().DataPoints().AppendEmpty()
			dp.SetTimestamp(now)
			dp.SetIntValue(value)
			dp.Attributes().PutStr(signal.HardwareID, "GPU-0")
			dp.Attributes().PutStr(signal.State, "valid")
			dp.Attributes().PutStr(signal.BudgetSource, "extended_resource")
		}
	}
	add(nil, map[*signal.Metric]int64{
		signal.HwGPUMemoryLimit: 15360 * mib, signal.HwGPUMemoryUsage: 14204 * mib, signal.GPUMemoryHeadroom: 900 * mib,
		signal.GPUMemoryAttributionState: 1,
	})
	for _, u := range uses {
		add(u.pod, map[*signal.Metric]int64{
			signal.K8sContainerGPUMemoryUsage: u.used * mib, signal.K8sContainerGPUMemoryBudget: u.budget * mib,
		})
	}
	return md
}

// The until function repeatedly sends telemetry to the replicas and waits for the condition.
func until(t *testing.T, md func() pmetric.Metrics, condition func() bool, replicas ...*replica) {
	t.Helper()
	require.Eventually(t, func() bool {
		for _, r := range replicas {
			if err := r.ConsumeMetrics(t.Context(), md()); err != nil {
				return false
			}
		}
		return condition()
	}, waitTimeout, moment)
}

func TestOneReplicaEvictsOnceAndTheOtherInheritsTheCooldown(t *testing.T) {
	plane := controlplane.Start(t)
	ai, monitoring := plane.Namespace(t), plane.Namespace(t)
	kubeconfig := grant(t, plane, ai, monitoring)
	runaway, neighbour := tenant(t, plane, ai, "runaway"), tenant(t, plane, ai, "neighbour")
	told := func() pmetric.Metrics { return pressure(use{runaway, 9000, 3000}, use{neighbour, 4000, 4500}) }

	first := startReplica(t, kubeconfig, ai, monitoring, nil)
	until(t, told, func() bool { return first.counted("breach_pending") > 0 }, first)
	second := startReplica(t, kubeconfig, ai, monitoring, nil)
	until(t, told, func() bool { return first.counted("evicted") == 1 }, first, second)
	assert.True(t, terminating(t, plane, runaway))
	assert.False(t, terminating(t, plane, neighbour))
	events, err := plane.Admin().CoreV1().Events(ai).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, events.Items, 1)
	assert.Equal(t, "GPUMemoryEviction", events.Items[0].Reason)

	until(t, told, func() bool { return first.counted("device_cooldown") > 0 }, first, second)
	assert.Zero(t, second.counted("evicted"))
	assert.Positive(t, second.counted("not_leader"))

	first.stop()
	until(t, told, func() bool { return second.counted("device_cooldown") > 0 }, second)
	assert.Zero(t, second.counted("evicted"), "the record contains the first replica's action")
	assert.False(t, terminating(t, plane, neighbour))
}

func TestDryRunEvictsNothing(t *testing.T) {
	plane := controlplane.Start(t)
	ai, monitoring := plane.Namespace(t), plane.Namespace(t)
	kubeconfig := grant(t, plane, ai, monitoring, "pods/eviction")
	runaway := tenant(t, plane, ai, "runaway")
	r := startReplica(t, kubeconfig, ai, monitoring, func(cfg *watchdog.Config) { cfg.DryRun = true })
	until(t, func() pmetric.Metrics { return pressure(use{runaway, 9000, 3000}) },
		func() bool { return r.counted("would_evict") == 1 && r.counted("device_cooldown") > 0 }, r)
	assert.False(t, terminating(t, plane, runaway))
	assert.Positive(t, r.heartbeat())
}

func TestMissingPermissionPreventsEvictionAndHeartbeat(t *testing.T) {
	plane := controlplane.Start(t)
	ai, monitoring := plane.Namespace(t), plane.Namespace(t)
	kubeconfig := grant(t, plane, ai, monitoring, "pods/eviction")
	runaway := tenant(t, plane, ai, "runaway")
	r := startReplica(t, kubeconfig, ai, monitoring, nil)
	until(t, func() pmetric.Metrics { return pressure(use{runaway, 9000, 3000}) },
		func() bool { return r.counted("no_permission") >= 4 }, r)
	assert.False(t, terminating(t, plane, runaway))
	assert.Zero(t, r.heartbeat())
}

func TestFrozenTelemetryPreventsEvictionAndHeartbeat(t *testing.T) {
	plane := controlplane.Start(t)
	ai, monitoring := plane.Namespace(t), plane.Namespace(t)
	kubeconfig := grant(t, plane, ai, monitoring)
	runaway := tenant(t, plane, ai, "runaway")
	r := startReplica(t, kubeconfig, ai, monitoring, func(cfg *watchdog.Config) { cfg.MaxDataAge = 3 * time.Second })
	frozen := pressure(use{runaway, 9000, 3000})
	until(t, func() pmetric.Metrics {
		again := pmetric.NewMetrics()
		frozen.CopyTo(again)
		return again
	}, func() bool { return r.counted("telemetry_stale") >= 3 }, r)
	assert.False(t, terminating(t, plane, runaway))
	assert.Zero(t, r.counted("evicted"))
	last := r.heartbeat()
	until(t, pmetric.NewMetrics, func() bool { return r.counted("telemetry_stale") >= 5 }, r)
	assert.InDelta(t, last, r.heartbeat(), 0)
}

// The README must list the permissions that these tests grant.
func TestReadmeListsThePermissions(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	permissions, err := os.ReadFile("testdata/rbac.yaml")
	require.NoError(t, err)
	assert.Contains(t, string(readme), string(permissions))
}
