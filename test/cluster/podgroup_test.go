package cluster

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer/consumertest"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/controlplane"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/kubelettest"
)

// podGroup contains a PodGroup whose pods share a claim.
const podGroup = `
---
apiVersion: scheduling.k8s.io/v1alpha2
kind: PodGroup
metadata: {name: workers, namespace: NAMESPACE}
spec:
  schedulingPolicy: {basic: {}}
  resourceClaims: [{name: gpu, resourceClaimName: shared}]
`

// The scheduler reserves the claim for the PodGroup instead of for individual pods. A pod outside
// the group that references the claim does not hold the device, even if the pod was bound to the
// node without the scheduler.
func TestAClaimThatTheSchedulerReservesForAPodGroupIsHeldByThePodsOfTheGroup(t *testing.T) {
	plane := controlplane.Start(t)
	plane.StartScheduler(t)
	namespace := plane.Namespace(t)
	plane.CreateNode(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})
	plane.Create(t, controlplane.NVIDIAClass())
	plane.Create(t, controlplane.NVIDIASlice(node, gpu0))
	plane.Apply(t, withNamespace(agent+claims+podGroup, namespace))
	plane.Create(t, newClaim(namespace, "shared", false))
	var workers []string
	for _, name := range []string{"worker-0", "worker-1"} {
		pod := boundPod(namespace, name, "shared")
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: new("workers")}
		plane.Create(t, pod)
		workers = append(workers, string(pod.UID))
	}
	stranger := boundPod(namespace, "stranger", "shared")
	stranger.Spec.NodeName = node
	plane.Create(t, stranger)

	claimsOf := plane.Admin().ResourceV1().ResourceClaims(namespace)
	var claim *resourcev1.ResourceClaim
	require.Eventually(t, func() bool {
		bound, err := plane.Admin().CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
		require.NoError(t, err)
		claim, err = claimsOf.Get(t.Context(), "shared", metav1.GetOptions{})
		require.NoError(t, err)
		return len(bound.Items) == 3 && len(claim.Status.ReservedFor) > 0
	}, patience, poll)
	require.Len(t, claim.Status.ReservedFor, 1)
	require.Equal(t, []string{"scheduling.k8s.io", "podgroups", "workers"},
		[]string{claim.Status.ReservedFor[0].APIGroup, claim.Status.ReservedFor[0].Resource, claim.Status.ReservedFor[0].Name})

	kubelet := kubelettest.Start(t) // a kubelet does not start pods that the claim is not reserved for
	lists := func(pod string) kube.ContainerResources {
		return kube.ContainerResources{Namespace: namespace, Pod: pod, Container: "main", Claims: []kube.ClaimDevice{
			{Namespace: namespace, Claim: "shared", Driver: controlplane.NVIDIADriver, Pool: node, Device: "gpu-0"},
		}}
	}
	kubelet.Set(lists("worker-0"), lists("worker-1"))
	kubeConfig := plane.ServiceAccountKubeConfig(t, namespace, "agent")
	for name, socket := range map[string]string{"with a kubelet": kubelet.Socket(), "without a kubelet": "/nowhere/kubelet.sock"} {
		t.Run(name, func(t *testing.T) {
			sink := &consumertest.MetricsSink{}
			p := gpuK8s(t, newHost(), sink, kubeConfig, socket, true)
			held := scrape(t, p, sink)
			var holders []string
			for point := range points.All(sink.AllMetrics()[0]) {
				if uid, inPod := point.Resource.Attributes().Get(signal.K8sPodUID); inPod && point.Metric.Name() == signal.GPUDeviceHolder.Name {
					holders = append(holders, uid.Str())
				}
			}
			assert.ElementsMatch(t, workers, holders)
			subset(t, held[gpu0], map[string]any{signal.K8sWorkloadKind: "PodGroup", signal.K8sWorkloadName: "workers"})
		})
	}
	startReceiver(t, plane.KubeConfig(t), "").eventually(map[string]float64{
		"k8s.resourceclaim.count gpu.nvidia.com reserved":                  1,
		"k8s.resourceclaim.device gpu.nvidia.com " + gpu0 + " of worker-0": 1,
		"k8s.resourceclaim.device gpu.nvidia.com " + gpu0 + " of worker-1": 1,
	})
}
