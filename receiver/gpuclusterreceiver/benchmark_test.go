package gpuclusterreceiver

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pmetric"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/gpuclusterreceiver/internal/demand"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/kubetest"
)

// These constants define the size of the large cluster. Half of the nodes allocate GPUs with the
// device plugin, and the other half with DRA.
const (
	largeNodes  = 5_000
	draNodes    = largeNodes / 2
	largePods   = 50_000
	largeClaims = 20_000
	nodeGPUs    = 8
)

// BenchmarkLargeCluster starts a receiver for a large cluster and then measures an emission.
// BenchmarkLargeCluster also reports the memory usage of the receiver and its caches, and the time
// from Start to the end of the first emission. The reported time includes the list calls to the
// fake API server, because the fake API server runs in the same process.
func BenchmarkLargeCluster(b *testing.B) {
	client := largeCluster(b)
	before := liveHeap()

	cfg := createDefaultConfig().(*Config)
	cfg.LeaderElection.Enabled = false
	cfg.CollectionInterval = time.Hour
	first := make(chan int, 1000)
	next, err := consumer.NewMetrics(func(_ context.Context, md pmetric.Metrics) error {
		first <- md.DataPointCount()
		return nil
	})
	require.NoError(b, err)
	r, err := newReceiver(nop(), cfg, next)
	require.NoError(b, err)
	r.newCache = func(o kube.Options, set component.TelemetrySettings) (*kube.Cache, error) {
		return kube.NewCache(client, o, set), nil
	}
	start := time.Now()
	require.NoError(b, r.Start(b.Context(), componenttest.NewNopHost()))
	points := 0
	for n := maxBatch; n == maxBatch; { // Every batch except the last one is full.
		n = <-first
		points += n
	}
	firstEmission := time.Since(start)
	kept := liveHeap() - before

	b.ReportAllocs()
	for b.Loop() {
		now := time.Now()
		rest, _ := r.store.points(now, r.observed(), make([]demand.Point, 0, points))
		for len(rest) > 0 {
			_, n := r.batches.build(rest, now)
			rest = rest[n:]
		}
	}
	b.ReportMetric(float64(kept)/1e6, "MB-kept")
	b.ReportMetric(firstEmission.Seconds(), "s-to-first-emission")
	b.ReportMetric(float64(points), "points/op")
	require.NoError(b, r.Shutdown(b.Context()))
}

func liveHeap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// largeCluster returns a fake API server whose lists are decoded from protobuf, as in production.
// Therefore, the decoded objects do not share strings with the objects in the test.
func largeCluster(b *testing.B) *fake.Clientset {
	b.Helper()
	client := kubetest.NewClient(&resourcev1.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu.nvidia.com"},
		Spec: resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{{
			CEL: &resourcev1.CELDeviceSelector{Expression: `device.driver == "gpu.nvidia.com"`},
		}}},
	})
	serve(b, client, "pods", &corev1.PodList{Items: fill(largePods, largePod)})
	serve(b, client, "nodes", &corev1.NodeList{Items: fill(largeNodes, largeNode)})
	serve(b, client, "resourceslices", &resourcev1.ResourceSliceList{Items: fill(draNodes, largeSlice)})
	serve(b, client, "resourceclaims", &resourcev1.ResourceClaimList{Items: fill(largeClaims, largeClaim)})
	return client
}

func fill[T any](n int, item func(int) T) []T {
	var out []T
	for i := range n {
		out = append(out, item(i))
	}
	return out
}

// wireList is a list of API objects that can be encoded as protobuf.
type wireList[T any] interface {
	*T
	apiruntime.Object
	Marshal() ([]byte, error)
	Unmarshal(data []byte) error
}

func serve[T any, P wireList[T]](b *testing.B, client *fake.Clientset, resourceName string, list P) {
	b.Helper()
	wire, err := list.Marshal()
	require.NoError(b, err)
	client.PrependReactor("list", resourceName, func(clienttesting.Action) (bool, apiruntime.Object, error) {
		decoded := P(new(T))
		return true, decoded, decoded.Unmarshal(wire)
	})
}

func nodeName(i int) string { return fmt.Sprintf("gpu-node-%04d.cluster.example.com", i) }

// largeConditions are node conditions from the kubelet, and from node-problem-detector with GPU
// plugins. Five of the conditions match the default patterns.
var largeConditions = func() []corev1.NodeCondition {
	conditions := []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	for _, healthy := range []corev1.NodeConditionType{
		corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure, "KernelDeadlock", "ReadonlyFilesystem",
		"GPUMissing", "XIDErrors", "NVLinkStatusInactive", "IBLinkFlapping", "GPUClockThrottling", "UnhealthyNvidiaDevicePlugin",
	} {
		conditions = append(conditions, corev1.NodeCondition{Type: healthy, Status: corev1.ConditionFalse})
	}
	for i := range conditions {
		conditions[i].Reason, conditions[i].Message = "AsExpected", "a description of what was checked"
	}
	return conditions
}()

func largeNode(i int) corev1.Node {
	amounts := corev1.ResourceList{
		"cpu": resource.MustParse("192"), "memory": resource.MustParse("2Ti"), "pods": resource.MustParse("110"),
	}
	if i >= draNodes {
		amounts["nvidia.com/gpu"] = resource.MustParse(fmt.Sprint(nodeGPUs))
	}
	n := corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: nodeName(i), UID: types.UID(fmt.Sprintf("node-uid-%d", i)), Labels: map[string]string{}},
		Status: corev1.NodeStatus{
			Capacity: amounts, Allocatable: amounts,
			Conditions: largeConditions,
		},
	}
	for l := range 40 {
		n.Labels[fmt.Sprintf("feature.node.kubernetes.io/label-%d", l)] = "true"
	}
	return n
}

func largeSlice(i int) resourcev1.ResourceSlice {
	name := nodeName(i)
	s := resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: name + "-gpu.nvidia.com-x7k2p"},
		Spec: resourcev1.ResourceSliceSpec{
			Driver: "gpu.nvidia.com", NodeName: &name,
			Pool: resourcev1.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: 1},
		},
	}
	for d := range nodeGPUs {
		attributes := map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{}
		for k, v := range map[string]string{
			"type": "gpu", "uuid": gpuUUID(i, d), "productName": "NVIDIA H100 80GB HBM3", "brand": "Nvidia", "architecture": "Hopper",
			"cudaComputeCapability": "9.0.0", "driverVersion": "580.65.6", "cudaDriverVersion": "13.0.0", "addressingMode": "HMM",
			"resource.kubernetes.io/pciBusID": fmt.Sprintf("0000:%02x:00.0", d), "resource.kubernetes.io/pcieRoot": "pci0000:00",
		} {
			attributes[resourcev1.QualifiedName(k)] = resourcev1.DeviceAttribute{StringValue: &v}
		}
		s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{
			Name: fmt.Sprintf("gpu-%d", d), Attributes: attributes,
			Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"memory": {Value: resource.MustParse("81559Mi")}},
		})
	}
	return s
}

func gpuUUID(node, device int) string {
	return fmt.Sprintf("GPU-%08d-0000-4000-8000-%012d", node, device)
}

// largeClaim returns a pending claim if i is a multiple of ten. Otherwise, largeClaim returns a
// reserved claim.
func largeClaim(i int) resourcev1.ResourceClaim {
	pod := fmt.Sprintf("trainer-%d", i)
	c := resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team", Name: pod + "-gpu-9v4kd", UID: types.UID(fmt.Sprintf("claim-uid-%d", i)),
		Annotations:     map[string]string{resourcev1.PodResourceClaimAnnotation: "gpu"},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(&metav1.ObjectMeta{Name: pod, UID: types.UID("uid-" + pod)}, corev1.SchemeGroupVersion.WithKind("Pod"))},
	}}
	c.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu.nvidia.com", Count: 1}}}
	if i%10 == 0 {
		return c
	}
	c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{{
		Request: "gpu", Driver: "gpu.nvidia.com", Pool: nodeName(i % draNodes), Device: fmt.Sprintf("gpu-%d", i/draNodes),
	}}}}
	c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: pod, UID: types.UID("uid-" + pod)}}
	return c
}

// largePod returns a pod that has a claim, requests a GPU from the device plugin, or uses no GPU.
func largePod(i int) corev1.Pod {
	name := fmt.Sprintf("trainer-%d", i)
	p := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.Unix(1_800_000_000, 0),
			Labels:        map[string]string{"app": "trainer", "pod-template-hash": "6d4b75cb6d", "team": "research"},
			Annotations:   map[string]string{"kubectl.kubernetes.io/restartedAt": "2026-11-20T12:00:00Z"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet", FieldsV1: metav1.NewFieldsV1(strings.Repeat("f", 2000))}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	container := corev1.Container{Name: "main", Image: "registry.example.com/team/trainer:v1.2.3", Command: []string{"/bin/train", "--config=/etc/train.yaml"}}
	for e := range 10 {
		container.Env = append(container.Env, corev1.EnvVar{Name: fmt.Sprintf("VARIABLE_%d", e), Value: "some value"})
	}
	switch {
	case i < largeClaims:
		template, claim := "one-gpu", name+"-gpu-9v4kd"
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: &template}}
		p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: &claim}}
		container.Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
	case i < 2*largeClaims:
		gpus := corev1.ResourceList{"cpu": resource.MustParse("8"), "memory": resource.MustParse("64Gi"), "nvidia.com/gpu": resource.MustParse("1")}
		container.Resources = corev1.ResourceRequirements{Requests: gpus, Limits: gpus}
	}
	p.Spec.Containers = []corev1.Container{container, {Name: "sidecar", Image: "registry.example.com/mesh/proxy:v2"}}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/5000 nodes are available"}}
	if i%10 != 0 {
		p.Spec.NodeName = nodeName(i % largeNodes)
		p.Status.Phase = corev1.PodRunning
		p.Status.Conditions[0].Status, p.Status.Conditions[0].Reason = corev1.ConditionTrue, ""
	}
	return p
}
