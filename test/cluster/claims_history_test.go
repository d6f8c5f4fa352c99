package cluster

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/processor"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/controlplane"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/kubelettest"
)

// claimCluster is a cluster in which pods with claims are created and deleted. The test acts as the
// kubelet and the claim controller.
type claimCluster struct {
	t         *testing.T
	plane     *controlplane.Plane
	namespace string
	random    *rand.Rand
	serial    int
}

func newClaim(namespace, name string, admin bool) *resourcev1.ResourceClaim {
	request := &resourcev1.ExactDeviceRequest{DeviceClassName: controlplane.NVIDIADriver}
	if admin {
		request.AdminAccess, request.AllocationMode = &admin, resourcev1.DeviceAllocationModeAll
	}
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{Name: "gpu", Exactly: request}}}},
	}
}

func (c *claimCluster) pods() []corev1.Pod {
	list, err := c.plane.Admin().CoreV1().Pods(c.namespace).List(c.t.Context(), metav1.ListOptions{})
	require.NoError(c.t, err)
	return list.Items
}

func (c *claimCluster) claims() []resourcev1.ResourceClaim {
	list, err := c.plane.Admin().ResourceV1().ResourceClaims(c.namespace).List(c.t.Context(), metav1.ListOptions{})
	require.NoError(c.t, err)
	return list.Items
}

// change deletes a pod, or creates one with its own claim, with another pod's claim, or with
// administrative access.
func (c *claimCluster) change() {
	pods, claims := c.pods(), c.claims()
	c.serial++
	name := fmt.Sprint("p", c.serial)
	switch action := c.random.IntN(6); {
	case len(pods) > 0 && (action == 0 || len(pods) > 4):
		c.delete(&pods[c.random.IntN(len(pods))])
	case len(claims) > 0 && action == 1:
		c.plane.Create(c.t, boundPod(c.namespace, name, claims[c.random.IntN(len(claims))].Name))
	default:
		c.plane.Create(c.t, newClaim(c.namespace, name, action == 2))
		c.plane.Create(c.t, boundPod(c.namespace, name, name))
	}
}

// delete deletes a pod and its reservations. A claim without reservations is randomly deallocated
// or stays allocated.
func (c *claimCluster) delete(pod *corev1.Pod) {
	require.NoError(c.t, c.plane.Admin().CoreV1().Pods(c.namespace).Delete(c.t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	claims := c.plane.Admin().ResourceV1().ResourceClaims(c.namespace)
	for _, listed := range c.claims() {
		deallocate := c.random.IntN(2) == 0
		require.NoError(c.t, retry.RetryOnConflict(retry.DefaultRetry, func() error { // the scheduler updates claims as well
			claim, err := claims.Get(c.t.Context(), listed.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			claim.Status.ReservedFor = slices.DeleteFunc(claim.Status.ReservedFor, func(r resourcev1.ResourceClaimConsumerReference) bool { return r.UID == pod.UID })
			if len(claim.Status.ReservedFor) == 0 && deallocate {
				claim.Status.Allocation = nil
			}
			_, err = claims.UpdateStatus(c.t.Context(), claim, metav1.UpdateOptions{})
			return err
		}))
	}
}

// settle waits until the scheduler has tried to schedule every pod.
func (c *claimCluster) settle() {
	require.Eventually(c.t, func() bool {
		return !slices.ContainsFunc(c.pods(), func(p corev1.Pod) bool {
			return p.Spec.NodeName == "" && !slices.ContainsFunc(p.Status.Conditions, func(k corev1.PodCondition) bool {
				return k.Type == corev1.PodScheduled && k.Status == corev1.ConditionFalse
			})
		})
	}, patience, poll)
}

// truth returns what the kubelet lists, including administrative access, and the pods that hold
// each device.
func (c *claimCluster) truth() (listed []kube.ContainerResources, holders map[string][]string) {
	holders = map[string][]string{gpu0: {}, gpu1: {}}
	claims := c.claims()
	for _, p := range c.pods() {
		i := slices.IndexFunc(claims, func(k resourcev1.ResourceClaim) bool { return k.Name == *p.Spec.ResourceClaims[0].ResourceClaimName })
		if p.Spec.NodeName == "" || i < 0 || claims[i].Status.Allocation == nil {
			continue
		}
		r := kube.ContainerResources{Namespace: c.namespace, Pod: p.Name, Container: "main"}
		for _, given := range claims[i].Status.Allocation.Devices.Results {
			r.Claims = append(r.Claims, kube.ClaimDevice{
				Namespace: c.namespace, Claim: claims[i].Name, Driver: given.Driver, Pool: given.Pool, Device: given.Device,
			})
			if given.AdminAccess == nil || !*given.AdminAccess {
				id := map[string]string{"gpu-0": gpu0, "gpu-1": gpu1}[given.Device]
				holders[id] = append(holders[id], string(p.UID))
			}
		}
		listed = append(listed, r)
	}
	for _, uids := range holders {
		slices.Sort(uids)
	}
	return listed, holders
}

// heldBy returns the pods that hold each device, as the processor reports them. A device with
// unknown holders is missing.
func heldBy(t *testing.T, p processor.Metrics, sink *consumertest.MetricsSink) map[string][]string {
	t.Helper()
	scrape(t, p, sink)
	held := map[string][]string{}
	for _, md := range sink.AllMetrics() {
		for point := range points.All(md) {
			id, _ := point.Attributes().Get(signal.HardwareID)
			uid, inPod := point.Resource.Attributes().Get(signal.K8sPodUID)
			switch {
			case point.Metric.Name() == signal.GPUSharingClients.Name && held[id.Str()] == nil:
				held[id.Str()] = []string{} // the holders are known
			case point.Metric.Name() == signal.GPUDeviceHolder.Name && inPod:
				held[id.Str()] = append(held[id.Str()], uid.Str())
			}
		}
	}
	for _, uids := range held {
		slices.Sort(uids)
	}
	return held
}

// Each device has exactly the holders in the scheduler's allocations, with and without a kubelet.
func TestDevicesHaveTheHoldersThatARealSchedulerAllocates(t *testing.T) {
	plane := controlplane.Start(t)
	plane.StartScheduler(t)
	namespace := plane.Namespace(t)
	labeled, err := plane.Admin().CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{})
	require.NoError(t, err)
	if labeled.Labels == nil {
		labeled.Labels = map[string]string{}
	}
	labeled.Labels["resource.kubernetes.io/admin-access"] = "true"
	_, err = plane.Admin().CoreV1().Namespaces().Update(t.Context(), labeled, metav1.UpdateOptions{})
	require.NoError(t, err)
	plane.CreateNode(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})
	plane.Create(t, controlplane.NVIDIAClass())
	plane.Create(t, controlplane.NVIDIASlice(node, gpu0, gpu1))
	plane.Apply(t, withNamespace(agent+claims, namespace))
	kubeConfig := plane.ServiceAccountKubeConfig(t, namespace, "agent")
	kubelet := kubelettest.Start(t)
	withKubelet, without := &consumertest.MetricsSink{}, &consumertest.MetricsSink{}
	processors := map[*consumertest.MetricsSink]processor.Metrics{
		withKubelet: gpuK8s(t, newHost(), withKubelet, kubeConfig, kubelet.Socket(), true),
		without:     gpuK8s(t, newHost(), without, kubeConfig, "/nowhere/kubelet.sock", true),
	}
	c := &claimCluster{t: t, plane: plane, namespace: namespace, random: rand.New(rand.NewPCG(34, 1))}

	held := 0 // the number of holders over all changes
	for range 40 {
		c.change()
		c.settle()
		for sink, p := range processors {
			var want, got map[string][]string
			if !assert.Eventually(t, func() bool {
				var listed []kube.ContainerResources
				listed, want = c.truth() // a pending pod may have been scheduled
				kubelet.Set(listed...)
				got = heldBy(t, p, sink)
				return assert.ObjectsAreEqual(want, got)
			}, patience, poll) {
				require.Equal(t, want, got, "kubelet=%t", sink == withKubelet)
			}
			for _, uids := range want {
				held += len(uids)
			}
		}
	}
	assert.Greater(t, held, 40, "the history has holders")
}
