package gpuclusterreceiver

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/gpuclusterreceiver/internal/metadatatest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/kubetest"
)

func TestConditionsAboveTheLimitAreDroppedCountedAndLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := gpuNode("a")
		for i := range 40 {
			node.Status.Conditions = append(node.Status.Conditions,
				corev1.NodeCondition{Type: corev1.NodeConditionType(fmt.Sprintf("GPU%02d", i)), Status: corev1.ConditionFalse})
		}
		node.Status.Conditions = append(node.Status.Conditions,
			corev1.NodeCondition{Type: corev1.NodeConditionType("GPU" + strings.Repeat("x", 254)), Status: corev1.ConditionTrue})
		telemetry := componenttest.NewTelemetry()
		defer func() { require.NoError(t, telemetry.Shutdown(context.WithoutCancel(t.Context()))) }()
		core, logs := observer.New(zap.WarnLevel)
		set := metadatatest.NewSettings(telemetry)
		set.Logger = zap.New(core)
		r := startReplica(t, kubetest.NewClient(node, gpuNode("b")), nil, set, nil)
		defer r.stop()

		after(r.cfg.CollectionInterval / 2)
		var shown []string
		for _, line := range r.emittedPoints() {
			if strings.Contains(line, signal.K8sNodeGPUCondition.Name) {
				shown = append(shown, line)
			}
		}
		require.Len(t, shown, maxConditions)
		assert.Equal(t, "{k8s.node.name=a} k8s.node.gpu.condition {k8s.node.condition.status=false, k8s.node.condition.type=GPU31} = 1", shown[31])

		after(10 * r.cfg.CollectionInterval)
		metadatatest.AssertEqualReceiverGpuClusterConditionsDropped(t, telemetry, []metricdata.DataPoint[int64]{{Value: 9}}, metricdatatest.IgnoreTimestamp())
		require.Equal(t, 1, logs.Len())
		assert.Contains(t, logs.All()[0].Message, "at most 32 condition series")
		assert.Equal(t, map[string]any{"k8s.node.name": "a", "conditions": int64(9)}, logs.All()[0].ContextMap())
	})
}

func TestConditionsOfClaimsWithLongTypesAreCountedAndLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		device := resourcev1.DeviceRequestAllocationResult{Request: "gpu", Driver: "gpu.nvidia.com", Pool: "a", Device: "gpu-0"}
		claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "held", UID: "u"}}
		claim.Status.Allocation = &resourcev1.AllocationResult{
			Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{device}},
		}
		claim.Status.Devices = []resourcev1.AllocatedDeviceStatus{{Driver: device.Driver, Pool: device.Pool, Device: device.Device, Conditions: []metav1.Condition{
			{Type: "example.com/" + strings.Repeat("x", 300), Status: metav1.ConditionTrue}, {Type: "Ready", Status: metav1.ConditionTrue},
		}}}
		slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: resourcev1.ResourceSliceSpec{
			Driver: device.Driver, Pool: resourcev1.ResourcePool{Name: device.Pool, ResourceSliceCount: 1}, Devices: []resourcev1.Device{{Name: device.Device}},
		}}
		telemetry := componenttest.NewTelemetry()
		defer func() { require.NoError(t, telemetry.Shutdown(context.WithoutCancel(t.Context()))) }()
		core, logs := observer.New(zap.WarnLevel)
		set := metadatatest.NewSettings(telemetry)
		set.Logger = zap.New(core)
		r := startReplica(t, kubetest.NewClient(claim, slice), func(cfg *Config) {
			cfg.Metrics = componenthelper.Metrics{signal.K8sResourceClaimDeviceCondition.Name: {Enabled: new(true)}}
		}, set, nil)
		defer r.stop()

		after(10 * r.cfg.CollectionInterval)
		assert.Contains(t, strings.Join(r.emittedPoints(), "\n"), "dra.condition.status=true, dra.condition.type=Ready")
		metadatatest.AssertEqualReceiverGpuClusterConditionsDropped(t, telemetry, []metricdata.DataPoint[int64]{{Value: 1}}, metricdatatest.IgnoreTimestamp())
		require.Equal(t, 1, logs.Len())
		assert.Contains(t, logs.All()[0].Message, "more than 256 bytes")
		assert.Equal(t, map[string]any{"claim": "team/held", "conditions": int64(1)}, logs.All()[0].ContextMap())
	})
}

// When the status of a condition changes, there must be no point with the previous status.
func TestAConditionHasOnlyItsCurrentStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := gpuNode("a")
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: "XidCriticalError", Status: corev1.ConditionFalse})
		client := kubetest.NewClient(node)
		r := startReplica(t, client, nil, nop(), nil)
		defer r.stop()
		series := func(status string) string {
			return "{k8s.node.name=a} k8s.node.gpu.condition {k8s.node.condition.status=" + status + ", k8s.node.condition.type=XidCriticalError} = 1"
		}

		after(r.cfg.CollectionInterval / 2)
		healthy := r.emittedPoints()
		assert.Contains(t, healthy, series("false"))
		assert.NotContains(t, healthy, series("true"))

		sick := node.DeepCopy()
		sick.Status.Conditions[1].Status = corev1.ConditionTrue
		require.NoError(t, client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("nodes"), sick, ""))
		after(r.cfg.CollectionInterval)
		said := r.emittedPoints()
		assert.Contains(t, said, series("true"))
		assert.NotContains(t, said, series("false"))

		require.NoError(t, client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("nodes"), gpuNode("a"), ""))
		after(r.cfg.CollectionInterval)
		assert.NotContains(t, strings.Join(r.emittedPoints(), "\n"), "XidCriticalError", "the condition was removed")
	})
}
