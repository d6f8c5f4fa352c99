package kube

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
)

// BenchmarkCachedPods measures how many heap bytes each cached pod takes. The benchmark measures
// four kinds of pods: pods with every field that the cache keeps, pods with one container and one
// GPU, pods without a device, and pods that are not transformed. The time per operation is the time
// that it takes to decode and transform all pods.
func BenchmarkCachedPods(b *testing.B) {
	input, err := os.ReadFile("testdata/transform/a_pod_keeps_its_device_requests_and_allocations/input.yaml")
	require.NoError(b, err)
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(input, nil, nil)
	require.NoError(b, err)
	full, ok := object.(*corev1.Pod)
	require.True(b, ok)
	gpu := full.DeepCopy()
	gpu.DeletionTimestamp, gpu.Annotations, gpu.Spec.Overhead, gpu.Spec.SchedulingGates = nil, nil, nil, nil
	gpu.Spec.ResourceClaims, gpu.Status.ResourceClaimStatuses, gpu.Status.ExtendedResourceClaimStatus = nil, nil, nil
	gpu.Spec.InitContainers, gpu.Spec.Containers = nil, gpu.Spec.Containers[:1]
	gpu.Spec.Containers[0].Resources.Claims = nil
	plain := gpu.DeepCopy()
	plain.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
	keep := func(object any) (any, error) { return object, nil }
	for _, c := range []struct {
		name string
		pods int
		pod  *corev1.Pod
		cut  cache.TransformFunc
	}{
		{"node/full", 1_000, full, transform(Options{NodeName: "node-1"})},
		{"node/gpu", 1_000, gpu, transform(Options{NodeName: "node-1"})},
		{"cluster/full", 50_000, full, transform(Options{})},
		{"cluster/gpu", 50_000, gpu, transform(Options{})},
		{"cluster/plain", 50_000, plain, transform(Options{})},
		{"cluster/uncut", 50_000, full, keep},
	} {
		b.Run(fmt.Sprintf("%s/pods=%d", c.name, c.pods), func(b *testing.B) {
			var perPod float64
			for b.Loop() {
				perPod = bytesPerPod(b, c.pod, c.pods, c.cut)
			}
			b.ReportMetric(perPod, "B/pod")
		})
	}
}

// bytesPerPod returns the number of heap bytes per pod after adding the given number of pods to a
// store in the same way as an informer.
func bytesPerPod(b *testing.B, pod *corev1.Pod, pods int, cut cache.TransformFunc) float64 {
	b.Helper()
	store := cache.NewStore(cache.DeletionHandlingMetaNamespaceKeyFunc)
	before := heap()
	for i := range pods {
		pod.Name = "train-" + strconv.Itoa(i)
		wire, err := pod.Marshal()
		require.NoError(b, err)
		arrived := &corev1.Pod{}
		require.NoError(b, arrived.Unmarshal(wire))
		kept, err := cut(arrived)
		require.NoError(b, err)
		require.NoError(b, store.Add(kept))
	}
	used := heap() - before
	runtime.KeepAlive(store)
	return float64(used) / float64(pods)
}

// The heap function returns the number of heap bytes that are in use after a garbage collection.
func heap() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
