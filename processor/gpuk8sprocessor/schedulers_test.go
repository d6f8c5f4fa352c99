package gpuk8sprocessor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/attribution"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/kubelettest"
)

// schedulersPod returns a pod with two containers. The container named main requests one resource.
func schedulersPod(namespace, name, asked string, labels, annotations map[string]string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + name), Labels: labels, Annotations: annotations},
		Spec:       corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "main"}, {Name: "side"}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	if asked != "" {
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceName(asked): resource.MustParse("1")}
	}
	return p
}

func TestSchedulerAnnotationsSetTheHolders(t *testing.T) {
	reservation := containerWith("gpu-reservation-1", "nvidia.com/gpu=GPU-1")
	reservation.Namespace = "kai-resource-reservation"
	kubelet := kubelettest.Start(t)
	kubelet.Set(reservation, containerWith("hami", "nvidia.com/gpu=GPU-1-3"), containerWith("volcano", "volcano.sh/vgpu-number=GPU-1-4"), containerWith("rdma", "nvidia.com/gpu=GPU-4"))
	p := asking(t, kubelet, componenttest.NewNopHost(), componenttest.NewNopTelemetrySettings(), false,
		schedulersPod("kai-resource-reservation", "gpu-reservation-1", "nvidia.com/gpu", map[string]string{"runai-gpu-group": "g1"}, nil),
		schedulersPod("ns", "kai", "", map[string]string{"runai-gpu-group": "g1"}, map[string]string{"gpu-fraction": "0.5"}),
		schedulersPod("ns", "hami", "nvidia.com/gpu", nil, map[string]string{"hami.io/vgpu-devices-allocated": lengthen("GPU-2") + ",NVIDIA,1024,30:;"}),
		schedulersPod("ns", "volcano", "volcano.sh/vgpu-number", nil, map[string]string{"volcano.sh/vgpu-ids-new": lengthen("GPU-6") + ",NVIDIA,1024,30:"}),
		schedulersPod("ns", "koordinator", "koordinator.sh/gpu", nil, map[string]string{
			"scheduling.koordinator.sh/device-allocated": lengthen(`{"gpu":[{"minor":2,"id":"GPU-3","resources":{"koordinator.sh/gpu-core":"100","koordinator.sh/gpu-memory-ratio":"100"}}]}`),
		}),
		schedulersPod("ns", "rdma", "nvidia.com/gpu", nil, map[string]string{"scheduling.koordinator.sh/device-allocated": `{"rdma":[{"minor":0}]}`}),
	)
	process(t, p, "GPU-1 hw.power=1", "GPU-5 hw.power=1")
	now := time.Now().UnixNano()
	for id, want := range map[string][]string{
		"GPU-1": {"kai", "main", signal.HolderSourcePodResources, signal.SharingUnknown},
		"GPU-2": {"hami", "main", signal.HolderSourceAnnotation, signal.SharingUnknown},
		"GPU-6": {"volcano", "main", signal.HolderSourceAnnotation, signal.SharingUnknown},
		"GPU-3": {"koordinator", "main", signal.HolderSourceAnnotation, signal.SharingNone},
		"GPU-4": {"rdma", "c", signal.HolderSourcePodResources, signal.SharingNone},
	} {
		d := attribution.Decide(p.tracker.Lookup(lengthen(id), now), now, nil, nil, false)
		require.Len(t, d.Holders, 1, id)
		assert.Equal(t, want, []string{d.Holders[0].Pod, d.Holders[0].Container, d.Source, d.Strategy}, id)
	}
	assert.True(t, attribution.Decide(p.tracker.Lookup(lengthen("GPU-5"), now), now, nil, nil, false).HoldersKnown, "every ID was recognized or replaced")
}

func TestTheHoldersOfAPodGroupsClaimAreThePodsThatReferenceIt(t *testing.T) {
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: resourcev1.ResourceSliceSpec{
		Driver: "gpu.nvidia.com", NodeName: new("n1"), Pool: resourcev1.ResourcePool{Name: "n1", Generation: 1, ResourceSliceCount: 1},
	}}
	for device, id := range map[string]string{"gpu-0": "GPU-1", "gpu-1": "GPU-2"} {
		slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{Name: device, Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
			"uuid": {StringValue: new(lengthen(id))}, "type": {StringValue: new("gpu")},
		}})
	}
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "of-the-group", UID: "uid-claim"}}
	claim.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
		Results: []resourcev1.DeviceRequestAllocationResult{{Request: "gpu", Driver: "gpu.nvidia.com", Pool: "n1", Device: "gpu-0"}},
	}}
	claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{APIGroup: "scheduling.k8s.io", Resource: "podgroups", Name: "g", UID: "uid-g"}}
	worker := schedulersPod("ns", "worker", "", nil, nil)
	worker.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: new("g")}
	worker.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}}
	worker.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
	worker.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: new("of-the-group")}}
	other := schedulersPod("ns", "other", "", nil, nil)

	p := asking(t, nil, componenttest.NewNopHost(), componenttest.NewNopTelemetrySettings(), true, slice, claim, worker, other)
	require.Eventually(t, func() bool { return podsOf(p, "GPU-1") == "worker" }, 10*time.Second, 10*time.Millisecond)
	holder := holders(p, "GPU-1")[0]
	assert.Equal(t, "main", holder.Container)
	owner := p.tracker.Owner(holder.UID).Ownership()
	assert.Equal(t, []string{"PodGroup", "g"}, []string{owner.WorkloadKind, owner.Workload})
}

func TestAListWithOneValueIdentifiesADeviceOfASlice(t *testing.T) {
	listed := func(name string, ids ...string) resourcev1.Device {
		return resourcev1.Device{Name: name, Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"uuid": {StringValues: ids}}}
	}
	slice := &resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{
		Driver: "gpu.nvidia.com", Pool: resourcev1.ResourcePool{Name: "n1", ResourceSliceCount: 1},
		Devices: []resourcev1.Device{listed("one", "GPU-1"), listed("several", "GPU-2", "GPU-3")},
	}}
	devices, complete := readSlices([]*resourcev1.ResourceSlice{slice}, []string{"gpu.nvidia.com"})
	assert.True(t, complete)
	assert.Equal(t, map[attribution.DRADevice]attribution.SliceDevice{
		{Driver: "gpu.nvidia.com", Pool: "n1", Device: "one"}:     {UUID: "GPU-1"},
		{Driver: "gpu.nvidia.com", Pool: "n1", Device: "several"}: {},
	}, devices)
}

func TestEachResourceWithUnknownIDsIsLoggedOnce(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	set := componenttest.NewNopTelemetrySettings()
	set.Logger = zap.New(core)
	kubelet := kubelettest.Start(t)
	kubelet.Set(containerWith("a", "volcano.sh/vgpu-number=GPU-1-3", "rdma/hca=hca-0", "nvidia.com/gpu=GPU-2"))
	p := asking(t, kubelet, componenttest.NewNopHost(), set, false)
	p.sources.update(time.Now())
	kubelet.Set(containerWith("a", "volcano.sh/vgpu-number=GPU-1-4", "example.com/accel=7"))
	require.Eventually(t, func() bool { return logs.Len() == 2 }, 10*time.Second, 10*time.Millisecond)
	resources := map[string]string{}
	for _, e := range logs.All() {
		resources[e.ContextMap()["resource"].(string)], _ = e.ContextMap()["id"].(string)
	}
	assert.Equal(t, map[string]string{"volcano.sh/vgpu-number": lengthen("GPU-1-3"), "example.com/accel": "7"}, resources)
	assert.Equal(t, 2, p.tracker.Stats().Unattributed[attribution.UnknownID])
}

func TestAResourceInOtherResourceNamesDoesNotChangeHolders(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	all := []kube.ContainerResources{containerWith("a", "example.com/accel=7", "example.com/accel=GPU-1")}
	require.Len(t, readContainers(all, cfg)[0].Devices, 2)
	cfg.OtherResourceNames = []string{"example.com/*"}
	kept := readContainers(all, cfg)[0].Devices
	require.Len(t, kept, 1, "an ID in the form of a GPU ID is kept")
	assert.Equal(t, lengthen("GPU-1"), kept[0].UUID)
	cfg.OtherResourceNames = []string{"accel"}
	assert.ErrorContains(t, cfg.Validate(), `other_resource_names[0] is "accel"`)
}
