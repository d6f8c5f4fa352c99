package gpuclusterreceiver

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/gpuclusterreceiver/internal/demand"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/kubetest"
)

// The code that applies default requests must not modify objects in the cache, because cached
// objects are shared.
func TestConvertingAPodDoesNotChangeIt(t *testing.T) {
	limits := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("2")}
	p := &corev1.Pod{
		Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: "init", Resources: corev1.ResourceRequirements{Limits: limits}}},
			Containers: []corev1.Container{
				{Name: "plain"},
				{Name: "main", Resources: corev1.ResourceRequirements{Limits: limits, Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}}},
			},
			Overhead: corev1.ResourceList{"example.com/bandwidth": resource.MustParse("5k")},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	before := p.DeepCopy()
	got := convertPod(p, gpushare.Families{})
	assert.Equal(t, before, p)
	assert.Equal(t, []demand.Request{
		{Resource: "example.com/bandwidth", Effective: 5000},
		{Resource: "nvidia.com/gpu", Effective: 2, Regular: 2},
	}, got.Requests)
}

// Impossibly large amounts count as 2^50, so that sums over all objects in a cluster do not
// overflow.
func TestQuantitiesAreRoundedToUnits(t *testing.T) {
	for text, want := range map[string]int64{
		"1": 1, "5k": 5000, "4Gi": 4 << 30, "100m": 1, "0": 0, "-1": 0,
		"9223372036854775807": 1 << 50, "1e30": 1 << 50,
	} {
		amount := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse(text)}
		c := demand.New(demand.Options{IsGPU: gpushare.IsGPU})
		c.SetNode(convertNode(&corev1.Node{Status: corev1.NodeStatus{Allocatable: amount, Capacity: amount}}, nil))
		points, _ := c.Points(time.Now(), demand.Observed{Nodes: true}, nil)
		sums := map[string]int64{} // sums over all states of the node
		for _, p := range points {
			sums[p.Metric.Name] += p.Int
		}
		assert.Equal(t, map[string]int64{signal.K8sGPUAllocatable.Name: want, signal.K8sGPUCapacity.Name: want}, sums, text)

		p := convertPod(&corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Resources: corev1.ResourceRequirements{Requests: amount}},
		}}}, gpushare.Families{})
		require.Len(t, p.Requests, 1)
		assert.Equal(t, want, p.Requests[0].Effective, text)
	}
}

func TestTooLongAttributesAreDroppedAndCounted(t *testing.T) {
	long := slices.Repeat([]string{strings.Repeat("x", 64)}, 10)
	short := "Hopper"
	s, dropped := convertSlice(&resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{
		Driver: "gpu.nvidia.com",
		Devices: []resourcev1.Device{{Name: "gpu-0", Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
			"fabric": {StringValues: long}, "architecture": {StringValue: &short},
		}}},
	}})
	assert.Equal(t, []string{"fabric"}, dropped)
	assert.Equal(t, []demand.Attribute{{Key: "dra.attribute.architecture", Value: "Hopper"}}, s.Devices[0].Attributes)
}

func TestIdentityWithSeveralValuesIsDroppedAndCounted(t *testing.T) {
	s, dropped := convertSlice(&resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{
		Driver: "gpu.nvidia.com",
		Devices: []resourcev1.Device{{Name: "gpu-0", Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
			"uuid": {StringValues: []string{"GPU-1", "GPU-2"}},
		}}},
	}})
	assert.Equal(t, []string{"uuid"}, dropped)
	assert.Empty(t, s.Devices[0].UUID)
	assert.Equal(t, []demand.Attribute{{Key: "dra.attribute.uuid", Value: "GPU-1,GPU-2"}}, s.Devices[0].Attributes)
}

func TestDroppedAttributesAreLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slice := func(name string) *resourcev1.ResourceSlice {
			device := resourcev1.Device{Name: "gpu-0", Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
				"fabric": {StringValues: slices.Repeat([]string{strings.Repeat("x", 64)}, 10)},
			}}
			second := device
			second.Name = "gpu-1"
			return &resourcev1.ResourceSlice{
				ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec: resourcev1.ResourceSliceSpec{
					Driver: "gpu.nvidia.com", Pool: resourcev1.ResourcePool{Name: name, ResourceSliceCount: 1},
					Devices: []resourcev1.Device{device, second},
				},
			}
		}
		core, logs := observer.New(zap.WarnLevel)
		set := nop()
		set.Logger = zap.New(core)
		r := startReplica(t, kubetest.NewClient(gpuNode("a"), slice("a"), slice("b")), nil, set, nil)
		defer r.stop()
		after(time.Minute)
		require.Equal(t, 1, logs.Len())
		said := logs.All()[0]
		assert.Contains(t, said.Message, "longer than 256 bytes")
		assert.Contains(t, said.Message, "k8s.resourceslice.device")
		fields := said.ContextMap()
		assert.Contains(t, []any{"a", "b"}, fields["k8s.resourceslice.name"])
		delete(fields, "k8s.resourceslice.name")
		assert.Equal(t, map[string]any{"dra.driver": "gpu.nvidia.com", "attributes": []any{"fabric"}}, fields)
	})
}

func TestRepeatedlyDroppedPoolsAndDevicesAreLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		half := &resourcev1.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: "a"},
			Spec: resourcev1.ResourceSliceSpec{
				Driver: "gpu.nvidia.com", Pool: resourcev1.ResourcePool{Name: "node-1", Generation: 1, ResourceSliceCount: 2},
				Devices: []resourcev1.Device{{Name: "gpu-0"}},
			},
		}
		held := &resourcev1.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "held", UID: "u"},
			Status: resourcev1.ResourceClaimStatus{Allocation: &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
				Results: []resourcev1.DeviceRequestAllocationResult{{Driver: "gpu.nvidia.com", Pool: "node-1", Device: "gpu-0", Request: "r"}},
			}}},
		}
		core, logs := observer.New(zap.WarnLevel)
		set := nop()
		set.Logger = zap.New(core)
		r := startReplica(t, kubetest.NewClient(gpuNode("a"), half, held), nil, set, nil)
		defer r.stop()
		after(r.cfg.CollectionInterval / 2)
		require.Zero(t, logs.Len(), "a pool is incomplete for a short time while its driver replaces the slices")
		after(10 * r.cfg.CollectionInterval)
		require.Equal(t, 2, logs.Len())
		pools, devices := logs.All()[0], logs.All()[1]
		assert.Contains(t, pools.Message, "The pool is not emitted")
		assert.Equal(t, map[string]any{"pool": "gpu.nvidia.com/node-1", "pools": int64(1)}, pools.ContextMap())
		assert.Contains(t, devices.Message, "They cannot be joined to telemetry")
		assert.Equal(t, map[string]any{"device": "gpu.nvidia.com/node-1/gpu-0", "devices": int64(1)}, devices.ContextMap())
	})
}

// The devices that are allocated to the claims in this test are not in any pool. Therefore, the
// points for these devices lack the attributes that identify a device in telemetry.
func TestTenThousandClaimsAreCountedAndLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := kubetest.NewClient()
		for i := range 10_000 {
			name := fmt.Sprint("held-", i)
			require.NoError(t, client.Tracker().Add(&resourcev1.ResourceClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID(name)},
				Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{
					{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu.nvidia.com"}},
				}}},
				Status: resourcev1.ResourceClaimStatus{
					Allocation: &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
						Results: []resourcev1.DeviceRequestAllocationResult{{Driver: "gpu.nvidia.com", Pool: "gone", Device: name, Request: "r"}},
					}},
					ReservedFor: []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: name, UID: types.UID(name)}},
				},
			}))
		}
		core, logs := observer.New(zap.WarnLevel)
		set := nop()
		set.Logger = zap.New(core)
		r := startReplica(t, client, nil, set, nil)
		defer r.stop()
		after(r.cfg.CollectionInterval / 2)
		devices := 0
		lines := r.emittedPoints()
		for _, line := range lines {
			if strings.Contains(line, " k8s.resourceclaim.device {") {
				devices++
				require.NotContains(t, line, signal.HardwareID)
			}
		}
		assert.Equal(t, 10_000, devices)
		assert.Contains(t, lines, "{} k8s.resourceclaim.count {k8s.deviceclass.name=gpu.nvidia.com, state=reserved} = 10000")
		after(5 * r.cfg.CollectionInterval)
		require.Equal(t, 1, logs.Len(), "%v", logs.All())
		assert.Equal(t, int64(10_000), logs.All()[0].ContextMap()["devices"])
	})
}

// Missing fields must not cause an error.
func TestEmptyObjectsHaveNoPoints(t *testing.T) {
	assert.Empty(t, convertPod(&corev1.Pod{}, gpushare.Families{}).Requests)
	empty, _ := convertSlice(&resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{Devices: []resourcev1.Device{{}}}})
	assert.Len(t, empty.Devices, 1)
}

func TestDevicesWithTooLongIDsHaveNoHealthAndAreCounted(t *testing.T) {
	p := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "a", AllocatedResourcesStatus: []corev1.ResourceStatus{
		{Name: "nvidia.com/gpu", Resources: []corev1.ResourceHealth{
			{ResourceID: corev1.ResourceID(strings.Repeat("x", 256)), Health: corev1.ResourceHealthStatusHealthy},
			{ResourceID: corev1.ResourceID(strings.Repeat("x", 257)), Health: corev1.ResourceHealthStatusHealthy},
			{},
		}},
		{Name: corev1.ResourceName("claim:" + strings.Repeat("y", 257)), Resources: []corev1.ResourceHealth{{ResourceID: "z"}}},
	}}}}}
	pod := convertPod(p, gpushare.Families{})
	assert.Len(t, pod.Health, 1)
	assert.EqualValues(t, 2, pod.HealthDropped)
}
