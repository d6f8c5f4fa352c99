package dashboardtest

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// The feed says what only an API server can: the scheduler's view, and budgets,
// which pods declare; and what the watchdog says of itself. Metrics are those of
// the contract's table, so a name or a unit that changes there changes here. The
// cluster has a bit of everything that alerts are for.

const (
	gib = 1 << 30
	// budgeted is a GPU that is nearly full, by a container over its budget.
	budgeted = "GPU-budgeted"
	// doubtful is a GPU whose containers' memory cannot be believed.
	doubtful = "GPU-doubtful"
)

// attributes are given as text, "key=value" each; the value may be empty.
type attributes []string

func (a attributes) put(to pcommon.Map) {
	for _, pair := range a {
		key, value, _ := strings.Cut(pair, "=")
		to.PutStr(key, value)
	}
}

// batch collects points by Resource.
type batch struct {
	metrics pmetric.Metrics
	now     time.Time
}

func (b *batch) resource(on ...string) *resource {
	rm := b.metrics.ResourceMetrics().AppendEmpty()
	attributes(on).put(rm.Resource().Attributes())
	return &resource{b, rm.ScopeMetrics().AppendEmpty()}
}

type resource struct {
	batch *batch
	scope pmetric.ScopeMetrics
}

// add makes one point of a metric of the contract.
func (r *resource) add(m *signal.Metric, value float64, on ...string) {
	metric := r.scope.Metrics().AppendEmpty()
	metric.SetName(m.Name)
	metric.SetUnit(m.Unit)
	var dp pmetric.NumberDataPoint
	if m.Kind == signal.Gauge {
		dp = metric.SetEmptyGauge().DataPoints().AppendEmpty()
	} else {
		sum := metric.SetEmptySum()
		sum.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
		sum.SetIsMonotonic(m.Kind == signal.Counter)
		dp = sum.DataPoints().AppendEmpty()
	}
	dp.SetTimestamp(pcommon.NewTimestampFromTime(r.batch.now))
	if m.Int {
		dp.SetIntValue(int64(value))
	} else {
		dp.SetDoubleValue(value)
	}
	attributes(on).put(dp.Attributes())
}

func clusterAndBudgets(now time.Time) pmetric.Metrics {
	b := &batch{pmetric.NewMetrics(), now}
	const inCluster = signal.K8sClusterName + "=test"

	cluster := b.resource(inCluster)
	gpus, memory := signal.Resource+"=nvidia.com/gpu", signal.Resource+"=example.com/gpumem"
	cluster.add(signal.ClusterPendingPodCount, 3, gpus)
	cluster.add(signal.ClusterPendingRequestTotal, 5, gpus)
	cluster.add(signal.ClusterRequestedAllocatableRatio, 1.25, gpus)
	for _, state := range []string{"gated", "unschedulable", "queued", "binding", "running"} {
		for _, what := range []string{gpus, memory} {
			cluster.add(signal.K8sGPUPods, 2, what, signal.State+"="+state)
			cluster.add(signal.K8sGPURequested, 4, what, signal.State+"="+state)
		}
	}
	cluster.add(signal.K8sGPUPendingOldestAge, 2000, gpus)
	cluster.add(signal.K8sGPURequestInvalid, 1, signal.Rule+"=shared_without_memory")
	driver, pool := signal.DRADriver+"=gpu.nvidia.com", signal.DRAPool+"=node-a"
	cluster.add(signal.K8sResourceSliceDevices, 8, driver, pool, signal.DRADeviceType+"=gpu")
	for _, state := range []string{"pending", "allocated", "reserved"} {
		cluster.add(signal.K8sResourceClaimCount, 1, signal.DeviceClassName+"=gpu.nvidia.com", signal.State+"="+state)
		cluster.add(signal.K8sResourceClaimRequested, 2, signal.DeviceClassName+"=gpu.nvidia.com", signal.State+"="+state)
	}
	claimed := b.resource(inCluster, signal.K8sNodeName+"=node-a", signal.K8sNamespaceName+"=ml", signal.K8sPodName+"=claimer")
	claimed.add(signal.K8sResourceClaimDevice, 1, driver, pool, signal.DRADevice+"=gpu-0", signal.HardwareID+"="+budgeted,
		signal.ResourceClaimName+"=one-gpu", signal.ResourceClaimUID+"=claim-uid", signal.DRARequest+"=gpu")

	// This one has an agent, the other one has none.
	for _, node := range []string{"node-a", "node-dark"} {
		nodes := b.resource(inCluster, signal.K8sNodeName+"="+node)
		nodes.add(signal.K8sGPUCapacity, 8, gpus, signal.State+"=schedulable")
		nodes.add(signal.K8sGPUAllocatable, 7, gpus, signal.State+"=schedulable")
	}

	device := b.resource(inCluster, signal.K8sNodeName+"=node-a", signal.HostName+"=node-a")
	id := signal.HardwareID + "=" + budgeted
	device.add(signal.HwGPUMemoryLimit, 24*gib, id)
	device.add(signal.HwGPUMemoryUsage, 23*gib, id)
	device.add(signal.GPUMemoryHeadroom, 1*gib, id)
	device.add(signal.GPUMemoryBudgetDeclared, 20*gib, id)
	device.add(signal.GPUMemoryUsageUnbudgeted, 2*gib, id)
	device.add(signal.GPUMemoryAttributionState, 1, id, signal.State+"=valid", signal.Reason+"=adds_up")
	device.add(signal.GPUMemoryAttributionState, 0, id, signal.State+"=invalid")
	device.add(signal.GPUMemoryAttributionState, 1, signal.HardwareID+"="+doubtful, signal.State+"=invalid", signal.Reason+"=false_zero")
	greedy := b.resource(inCluster, signal.K8sNodeName+"=node-a", signal.K8sNamespaceName+"=ml", signal.K8sPodName+"=greedy",
		signal.K8sPodUID+"=greedy-uid", signal.K8sContainerName+"=main")
	greedy.add(signal.K8sContainerGPUMemoryUsage, 21*gib, id)
	greedy.add(signal.K8sContainerGPUMemoryBudget, 20*gib, id, signal.BudgetSource+"=extended_resource")
	greedy.add(signal.K8sContainerGPUMemoryBudgetUtilization, 1.05, id)
	greedy.add(signal.K8sContainerGPUMemoryBudgetDriftRatio, 0.9, id)

	// Its own metrics are no part of the contract's table. It leads, and its last
	// evaluation was ten minutes ago.
	watchdog := b.resource("service.name=otelcol-gpu", "service.instance.id=watchdog-0")
	watchdog.add(&signal.Metric{Name: "otelcol_exporter_gpu_watchdog_leader", Unit: "{state}", Int: true}, 1)
	watchdog.add(&signal.Metric{Name: "otelcol_gpu_watchdog_last_success", Unit: "s"}, float64(now.Add(-10*time.Minute).Unix()))
	watchdog.add(&signal.Metric{Name: "otelcol_gpu_watchdog_evaluations", Unit: "{evaluation}", Kind: signal.Counter, Int: true},
		float64(now.Unix()), signal.Reason+"=no_pressure")
	return b.metrics
}

// send pushes metrics by OTLP and says whether somebody took them.
func send(t *testing.T, address string, metrics pmetric.Metrics) bool {
	t.Helper()
	body, err := pmetricotlp.NewExportRequestFromMetrics(metrics).MarshalProto()
	require.NoError(t, err)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/v1/metrics", bytes.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/x-protobuf")
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)
	return true
}
