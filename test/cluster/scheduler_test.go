package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/gpuclusterreceiver"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/controlplane"
)

const leaseTTL = 6 * time.Second

// replica is a running gpu_cluster receiver.
type replica struct {
	t    *testing.T
	r    receiver.Metrics
	sink *consumertest.MetricsSink
}

// startReceiver starts a gpu_cluster receiver. The lease parameter is the namespace of the
// receiver's lease, or "" to run without a lease.
func startReceiver(t *testing.T, kubeconfig, lease string) *replica {
	t.Helper()
	factory := gpuclusterreceiver.NewFactory()
	cfg := factory.CreateDefaultConfig().(*gpuclusterreceiver.Config)
	cfg.CollectionInterval = time.Second
	cfg.Kubernetes = kube.Config{AuthType: kube.AuthKubeConfig, KubeConfig: kubeconfig}
	cfg.LeaderElection.Enabled = lease != ""
	cfg.LeaderElection.Namespace = lease
	cfg.LeaderElection.LeaseDuration = leaseTTL
	cfg.LeaderElection.RenewDeadline = 2 * time.Second
	cfg.LeaderElection.RetryPeriod = 500 * time.Millisecond
	cfg.Metrics = componenthelper.Metrics{"k8s.resourceslice.pool.devices": {Enabled: new(true)}}
	require.NoError(t, confmap.Validate(cfg))
	p := &replica{t: t, sink: &consumertest.MetricsSink{}}
	var err error
	p.r, err = factory.CreateMetrics(t.Context(), receivertest.NewNopSettings(factory.Type()), cfg, p.sink)
	require.NoError(t, err)
	require.NoError(t, p.r.Start(t.Context(), componenttest.NewNopHost()))
	t.Cleanup(p.stop)
	return p
}

func (p *replica) stop() { require.NoError(p.t, p.r.Shutdown(context.WithoutCancel(p.t.Context()))) }

// last returns the values in the most recent batch, keyed by the metric, the attributes, and the
// pod in the Resource.
func (p *replica) last() map[string]float64 {
	out := map[string]float64{}
	batches := p.sink.AllMetrics()
	if len(batches) == 0 {
		return out
	}
	for _, rm := range batches[len(batches)-1].ResourceMetrics().All() {
		place, _ := rm.Resource().Attributes().Get("k8s.pod.name")
		for _, m := range rm.ScopeMetrics().At(0).Metrics().All() {
			for _, dp := range m.Gauge().DataPoints().All() {
				key := m.Name()
				for _, attribute := range []string{
					"resource", "k8s.deviceclass.name", "state", "hw.id",
					"k8s.node.condition.type", "k8s.node.condition.status", "dra.taint.key", "k8s.resource.id",
				} {
					if v, ok := dp.Attributes().Get(attribute); ok {
						key += " " + v.Str()
					}
				}
				if place.Str() != "" {
					key += " of " + place.Str()
				}
				out[key] += dp.DoubleValue() + float64(dp.IntValue())
			}
		}
	}
	return out
}

// eventually waits until the most recent batch contains all wanted values.
func (p *replica) eventually(want map[string]float64) {
	p.t.Helper()
	require.EventuallyWithT(p.t, func(c *assert.CollectT) {
		got := p.last()
		for key, value := range want {
			v, ok := got[key]
			assert.True(c, ok, key)
			assert.InDelta(c, value, v, 1e-9, key)
		}
	}, patience, poll)
}

func waitingPod(namespace, name string, change func(*corev1.PodSpec)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/trainer:1"}}},
	}
	change(&p.Spec)
	return p
}

func gpus(n int) func(*corev1.PodSpec) {
	return func(spec *corev1.PodSpec) {
		spec.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse(fmt.Sprint(n))}
	}
}

func TestTheDecisionsOfTheSchedulerAreReported(t *testing.T) {
	plane := controlplane.Start(t)
	plane.StartScheduler(t)
	namespace := plane.Namespace(t)
	plane.CreateNode(t, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu-node"},
		Status:     corev1.NodeStatus{Capacity: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("2")}},
	})
	r := startReceiver(t, plane.KubeConfig(t), "")
	r.eventually(map[string]float64{
		"k8s.gpu.allocatable nvidia.com/gpu schedulable":         2,
		"k8s.gpu.pods nvidia.com/gpu queued":                     0,
		"cluster.gpu.pending_pod_count nvidia.com/gpu":           0,
		"cluster.gpu.requested_allocatable_ratio nvidia.com/gpu": 0,
	})

	plane.Create(t, waitingPod(namespace, "fits", gpus(2)))
	r.eventually(map[string]float64{"k8s.gpu.requested nvidia.com/gpu binding": 2})
	plane.Create(t, waitingPod(namespace, "does-not-fit", gpus(1)))
	plane.Create(t, waitingPod(namespace, "gated", func(spec *corev1.PodSpec) {
		gpus(4)(spec)
		spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/quota"}}
	}))
	r.eventually(map[string]float64{
		"k8s.gpu.requested nvidia.com/gpu binding":               2,
		"k8s.gpu.requested nvidia.com/gpu unschedulable":         1,
		"k8s.gpu.requested nvidia.com/gpu gated":                 4,
		"cluster.gpu.pending_pod_count nvidia.com/gpu":           3,
		"cluster.gpu.pending_request_total nvidia.com/gpu":       7,
		"cluster.gpu.requested_allocatable_ratio nvidia.com/gpu": 3.5,
	})

	pods := plane.Admin().CoreV1().Pods(namespace)
	fits, err := pods.Get(t.Context(), "fits", metav1.GetOptions{})
	require.NoError(t, err)
	fits.Status.Phase = corev1.PodRunning // as the kubelet does
	_, err = pods.UpdateStatus(t.Context(), fits, metav1.UpdateOptions{})
	require.NoError(t, err)
	node, err := plane.Admin().CoreV1().Nodes().Get(t.Context(), "gpu-node", metav1.GetOptions{})
	require.NoError(t, err)
	node.Spec.Unschedulable = true
	_, err = plane.Admin().CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{})
	require.NoError(t, err)
	r.eventually(map[string]float64{
		"k8s.gpu.requested nvidia.com/gpu running":       2,
		"k8s.gpu.requested nvidia.com/gpu binding":       0,
		"k8s.gpu.allocatable nvidia.com/gpu cordoned":    2,
		"k8s.gpu.allocatable nvidia.com/gpu schedulable": 0,
	})
}

func TestTheStatesOfAClaimAreReported(t *testing.T) {
	plane := controlplane.Start(t)
	plane.StartScheduler(t)
	namespace := plane.Namespace(t)
	plane.CreateNode(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "dra-node"}})
	plane.Create(t, controlplane.NVIDIAClass())
	r := startReceiver(t, plane.KubeConfig(t), "")
	r.eventually(map[string]float64{"k8s.resourceclaim.count gpu.nvidia.com pending": 0})

	plane.Create(t, &resourcev1.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "two-gpus"},
		Spec:       resourcev1.ResourceClaimTemplateSpec{Spec: claimSpec(2)},
	})
	plane.Create(t, &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "one-gpu"}, Spec: claimSpec(1)})
	template, claim := "two-gpus", "one-gpu"
	uses := func(entry corev1.PodResourceClaim) func(*corev1.PodSpec) {
		return func(spec *corev1.PodSpec) {
			spec.ResourceClaims = []corev1.PodResourceClaim{entry}
			spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: entry.Name}}
		}
	}
	plane.Create(t, waitingPod(namespace, "by-template", uses(corev1.PodResourceClaim{Name: "gpus", ResourceClaimTemplateName: &template})))
	plane.Create(t, waitingPod(namespace, "holder", uses(corev1.PodResourceClaim{Name: "gpu", ResourceClaimName: &claim})))
	// In this test, no controller creates claims from templates, so the claim of this pod stays
	// pending.
	r.eventually(map[string]float64{
		"k8s.resourceclaim.count gpu.nvidia.com pending":     2,
		"k8s.resourceclaim.requested gpu.nvidia.com pending": 3,
	})

	plane.Create(t, controlplane.NVIDIASlice("dra-node", "GPU-1"))
	r.eventually(map[string]float64{
		"k8s.resourceslice.device GPU-1":                          1,
		"k8s.resourceclaim.count gpu.nvidia.com pending":          1,
		"k8s.resourceclaim.count gpu.nvidia.com reserved":         1,
		"k8s.resourceclaim.requested gpu.nvidia.com reserved":     1,
		"k8s.resourceclaim.device gpu.nvidia.com GPU-1 of holder": 1,
	})
}

func TestConditionsAndHealthFromOtherComponentsAreReported(t *testing.T) {
	plane := controlplane.Start(t)
	plane.CreateNode(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})
	slice := controlplane.NVIDIASlice(node, "GPU-1")
	slice.Spec.Devices[0].Taints = []resourcev1.DeviceTaint{{Key: "gpu.nvidia.com/xid", Value: "79", Effect: resourcev1.DeviceTaintEffectNoSchedule}}
	plane.Create(t, slice)
	judge := func(status string) { // sets a node condition, as node-problem-detector would
		_, err := plane.Admin().CoreV1().Nodes().PatchStatus(t.Context(), node,
			[]byte(`{"status": {"conditions": [{"type": "XidCriticalError", "status": "`+status+`", "reason": "Xid79"}]}}`))
		require.NoError(t, err)
	}
	judge("False")
	r := startReceiver(t, plane.KubeConfig(t), "")
	r.eventually(map[string]float64{
		"k8s.node.gpu.condition XidCriticalError false":           1,
		"k8s.resourceslice.device.taint GPU-1 gpu.nvidia.com/xid": 1,
	})

	judge("True")
	r.eventually(map[string]float64{"k8s.node.gpu.condition XidCriticalError true": 1})
	assert.NotContains(t, r.last(), "k8s.node.gpu.condition XidCriticalError false")
	assert.NotContains(t, r.last(), "k8s.node.gpu.condition Ready true")

	namespace := plane.Namespace(t)
	plane.Create(t, waitingPod(namespace, "holder", func(spec *corev1.PodSpec) {
		gpus(1)(spec)
		spec.NodeName = node
	}))
	for _, health := range []string{"Healthy", "Unhealthy"} { // as the kubelet does
		_, err := plane.Admin().CoreV1().Pods(namespace).Patch(t.Context(), "holder", types.StrategicMergePatchType,
			[]byte(`{"status": {"phase": "Running", "containerStatuses": [{"name": "main", "allocatedResourcesStatus":
				[{"name": "nvidia.com/gpu", "resources": [{"resourceID": "GPU-1", "health": "`+health+`"}]}]}]}}`), metav1.PatchOptions{}, "status")
		require.NoError(t, err)
		r.eventually(map[string]float64{"k8s.pod.gpu.health nvidia.com/gpu " + strings.ToLower(health) + " GPU-1 of holder": 1})
	}
}

func TestATaintRuleMakesADeviceUnavailable(t *testing.T) {
	plane := controlplane.Start(t)
	plane.CreateNode(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})
	plane.Create(t, controlplane.NVIDIASlice(node, "GPU-1", "GPU-2"))
	r := startReceiver(t, plane.KubeConfig(t), "")
	r.eventually(map[string]float64{"k8s.resourceslice.pool.devices available": 2, "k8s.resourceslice.pool.devices unavailable": 0})

	plane.Create(t, &resourcev1beta2.DeviceTaintRule{
		ObjectMeta: metav1.ObjectMeta{Name: "broken"},
		Spec: resourcev1beta2.DeviceTaintRuleSpec{
			DeviceSelector: &resourcev1beta2.DeviceTaintSelector{Pool: new(node), Device: new("gpu-1")},
			Taint:          resourcev1beta2.DeviceTaint{Key: "example.com/broken", Effect: resourcev1beta2.DeviceTaintEffectNoSchedule},
		},
	})
	r.eventually(map[string]float64{
		"k8s.resourceslice.pool.devices available":                1,
		"k8s.resourceslice.pool.devices unavailable":              1,
		"k8s.resourceslice.device.taint GPU-2 example.com/broken": 1,
	})

	require.NoError(t, plane.Admin().ResourceV1beta2().DeviceTaintRules().Delete(t.Context(), "broken", metav1.DeleteOptions{}))
	r.eventually(map[string]float64{"k8s.resourceslice.pool.devices available": 2, "k8s.resourceslice.pool.devices unavailable": 0})
}

func claimSpec(n int64) resourcev1.ResourceClaimSpec {
	return resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
		Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: controlplane.NVIDIADriver, Count: n},
	}}}}
}

func TestTwoReplicasNeverEmitAtTheSameTimeAndOneTakesOver(t *testing.T) {
	plane := controlplane.Start(t)
	namespace := plane.Namespace(t)
	plane.CreateNode(t, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu-node"},
		Status:     corev1.NodeStatus{Capacity: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("2")}},
	})
	emits := func(r *replica) bool { return len(r.sink.AllMetrics()) > 0 }
	first := startReceiver(t, plane.KubeConfig(t), namespace)
	require.Eventually(t, func() bool { return emits(first) }, patience, poll)
	second := startReceiver(t, plane.KubeConfig(t), namespace)
	require.Eventually(t, func() bool { return len(first.sink.AllMetrics()) >= 5 }, patience, poll)
	assert.False(t, emits(second))

	first.stop()
	emitted := len(first.sink.AllMetrics())
	require.Eventually(t, func() bool { return emits(second) }, patience, poll)
	assert.Len(t, first.sink.AllMetrics(), emitted)
	second.eventually(map[string]float64{"k8s.gpu.allocatable nvidia.com/gpu schedulable": 2})
}

// Another process takes over the lease. Two replicas must never send data at the same time.
func TestAReplicaThatLosesItsLeaseStopsAndLeadsAgainLater(t *testing.T) {
	plane := controlplane.Start(t)
	namespace := plane.Namespace(t)
	plane.CreateNode(t, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu-node"},
		Status:     corev1.NodeStatus{Capacity: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("2")}},
	})
	r := startReceiver(t, plane.KubeConfig(t), namespace)
	require.Eventually(t, func() bool { return len(r.sink.AllMetrics()) > 0 }, patience, poll)

	leases := plane.Admin().CoordinationV1().Leases(namespace)
	other := "another"
	var taken time.Time
	require.EventuallyWithT(t, func(c *assert.CollectT) { // retry, because the replica may renew the lease at the same time
		lease, err := leases.Get(t.Context(), "otelcol-gpu-cluster", metav1.GetOptions{})
		require.NoError(c, err)
		lease.Spec.HolderIdentity = &other
		lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
		_, err = leases.Update(t.Context(), lease, metav1.UpdateOptions{})
		if !apierrors.IsConflict(err) {
			assert.NoError(c, err)
			taken = time.Now()
		}
		assert.False(c, taken.IsZero())
	}, patience, poll)

	// The replica stops sending at its next attempt to renew the lease, and resumes sending after
	// the other holder's lease has expired.
	require.Eventually(t, func() bool {
		batches := r.sink.AllMetrics()
		return stamp(batches[len(batches)-1]).Sub(taken) > leaseTTL
	}, patience, poll)
	for _, md := range r.sink.AllMetrics() {
		since := stamp(md).Sub(taken)
		assert.False(t, since > 3*time.Second && since < leaseTTL-500*time.Millisecond, "emitted %s after the lease was taken", since)
	}
}

func TestAReplicaReportsWhatItMayReadAndKeepsItWhenTheServerIsUnavailable(t *testing.T) {
	plane := controlplane.Start(t)
	namespace := plane.Namespace(t)
	plane.CreateNode(t, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu-node"},
		Status:     corev1.NodeStatus{Capacity: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("2")}},
	})
	plane.Create(t, waitingPod(namespace, "waiting", gpus(1)))
	plane.Apply(t, `
apiVersion: v1
kind: ServiceAccount
metadata: {namespace: `+namespace+`, name: pods-alone}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: pods-alone}
rules:
  - {apiGroups: [""], resources: [pods], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: pods-alone}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: pods-alone}
subjects:
  - {kind: ServiceAccount, namespace: `+namespace+`, name: pods-alone}
`)
	way := wayTo(t, plane.ServiceAccountKubeConfig(t, namespace, "pods-alone"))
	r := startReceiver(t, way.kubeconfig, "")
	want := map[string]float64{
		"cluster.gpu.pending_pod_count nvidia.com/gpu": 1,
		"k8s.gpu.pods nvidia.com/gpu queued":           1,
	}
	r.eventually(want)
	for key := range r.last() {
		assert.NotContains(t, key, "allocatable")
		assert.NotContains(t, key, "resourceclaim")
	}

	way.block()
	r.sink.Reset()
	r.eventually(want)
	way.open(t)
	require.NoError(t, plane.Admin().CoreV1().Pods(namespace).Delete(t.Context(), "waiting", *metav1.NewDeleteOptions(0)))
	require.Eventually(t, func() bool { // wait until the replica is up to date and no pod requests the resource
		return !slices.Contains(keys(r.last()), "k8s.gpu.pods nvidia.com/gpu queued")
	}, 2*patience, poll)
}

func keys(m map[string]float64) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	return out
}

// stamp returns the timestamp of the first point in a batch.
func stamp(md pmetric.Metrics) time.Time {
	return md.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().At(0).Gauge().DataPoints().At(0).Timestamp().AsTime()
}
