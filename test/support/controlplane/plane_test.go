package controlplane

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(Main(m)) }

const (
	gpu  = "nvidia.com/gpu"
	poll = 20 * time.Millisecond
)

func TestTheSchedulerBindsAPodThatFitsAndNoOther(t *testing.T) {
	plane := Start(t)
	plane.StartScheduler(t)
	namespace := plane.Namespace(t)
	plane.CreateNode(t, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu-node"},
		Status:     corev1.NodeStatus{Capacity: corev1.ResourceList{gpu: resource.MustParse("1")}},
	})

	limits := corev1.ResourceList{gpu: resource.MustParse("1")}
	plane.Create(t, pod(namespace, "first", func(spec *corev1.PodSpec) { spec.Containers[0].Resources.Limits = limits }))
	waitForPod(t, plane, namespace, "first", func(pod *corev1.Pod) bool { return pod.Spec.NodeName == "gpu-node" })

	plane.Create(t, pod(namespace, "second", func(spec *corev1.PodSpec) { spec.Containers[0].Resources.Limits = limits }))
	second := waitForPod(t, plane, namespace, "second", func(pod *corev1.Pod) bool { return scheduled(pod).Reason == corev1.PodReasonUnschedulable })
	assert.Contains(t, scheduled(second).Message, "Insufficient nvidia.com/gpu")
}

func TestAClaimIsAllocatedFromASliceAndReservedForItsPod(t *testing.T) {
	plane := Start(t)
	plane.StartScheduler(t)
	namespace := plane.Namespace(t)
	plane.CreateNode(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "dra-node"}})
	plane.Create(t, NVIDIAClass())
	plane.Create(t, NVIDIASlice("dra-node", "GPU-00000000-0000-0000-0000-000000000000"))

	plane.Create(t, &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "one-gpu"},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
			Name:    "main",
			Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: NVIDIADriver},
		}}}},
	})
	claim := "one-gpu"
	plane.Create(t, pod(namespace, "holder", func(spec *corev1.PodSpec) {
		spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &claim}}
		spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
	}))

	holder := waitForPod(t, plane, namespace, "holder", func(pod *corev1.Pod) bool { return pod.Spec.NodeName == "dra-node" })
	allocated, err := plane.Admin().ResourceV1().ResourceClaims(namespace).Get(t.Context(), claim, metav1.GetOptions{})
	require.NoError(t, err)
	require.NotNil(t, allocated.Status.Allocation)
	assert.Equal(t, []resourcev1.DeviceRequestAllocationResult{
		{Request: "main", Driver: NVIDIADriver, Pool: "dra-node", Device: "gpu-0"},
	}, allocated.Status.Allocation.Devices.Results)
	assert.Equal(t, []resourcev1.ResourceClaimConsumerReference{
		{Resource: "pods", Name: "holder", UID: holder.UID},
	}, allocated.Status.ReservedFor)
}

func TestAServiceAccountMayDoWhatItIsGrantedAndNothingElse(t *testing.T) {
	plane := Start(t)
	namespace := plane.Namespace(t)
	plane.Create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "reader"}})
	plane.Apply(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {namespace: `+namespace+`, name: read-pods}
rules:
  - {apiGroups: [""], resources: [pods], verbs: [list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {namespace: `+namespace+`, name: read-pods}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: read-pods}
subjects:
  - {kind: ServiceAccount, namespace: `+namespace+`, name: reader}
`)
	reader := clientFor(t, plane.ServiceAccountKubeConfig(t, namespace, "reader"))

	// The binding takes effect after a short delay, because the API server's authorizer receives
	// bindings through a watch.
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		_, err := reader.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
		assert.NoError(c, err)
	}, patience, poll)
	_, err := reader.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
	assert.True(t, apierrors.IsForbidden(err), "%v", err)
	_, err = reader.CoreV1().Secrets(namespace).List(t.Context(), metav1.ListOptions{})
	assert.True(t, apierrors.IsForbidden(err), "%v", err)
}

func TestTheAPIServerRestartsWithItsObjectsAndTokens(t *testing.T) {
	plane := Start(t)
	namespace := plane.Namespace(t)
	plane.Create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "lasting"}})
	account := clientFor(t, plane.ServiceAccountKubeConfig(t, namespace, "lasting"))
	pods := func() error {
		_, err := account.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
		return err
	}
	require.True(t, apierrors.IsForbidden(pods()), "the account is authenticated but has no permission")

	// An open watch must not prevent the API server from stopping.
	watch, err := plane.Admin().CoreV1().Namespaces().Watch(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	defer watch.Stop()

	plane.StopAPIServer(t)
	err = pods()
	require.Error(t, err)
	require.Empty(t, apierrors.ReasonForError(err), "the server does not respond")

	plane.StartAPIServer(t)
	_, err = plane.Admin().CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{})
	require.NoError(t, err)
	require.True(t, apierrors.IsForbidden(pods()), "still known")
}

func TestObjectsOfATestAreRemovedAtItsEnd(t *testing.T) {
	plane := Start(t)
	var namespace string
	t.Run("a test", func(t *testing.T) {
		namespace = plane.Namespace(t)
		plane.CreateNode(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "short-lived"}})
		bound := pod(namespace, "bound", func(spec *corev1.PodSpec) { spec.NodeName = "short-lived" })
		bound.Finalizers = []string{"example.com/held"}
		_, err := plane.Admin().CoreV1().Pods(namespace).Create(t.Context(), bound, metav1.CreateOptions{})
		require.NoError(t, err)
	})

	pods, err := plane.Admin().CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	assert.Empty(t, pods.Items)
	_, err = plane.Admin().CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{})
	assert.True(t, apierrors.IsNotFound(err), "%v", err)
	_, err = plane.Admin().CoreV1().Nodes().Get(t.Context(), "short-lived", metav1.GetOptions{})
	assert.True(t, apierrors.IsNotFound(err), "%v", err)
}

func TestApplyRejectsUnknownFields(t *testing.T) {
	plane := Start(t)
	objects, err := Decode(`
apiVersion: v1
kind: ConfigMap
metadata: {namespace: default, name: misspelled}
binarydata: {}
`)
	require.NoError(t, err)
	require.Len(t, objects, 1)
	assert.ErrorContains(t, plane.apply(t.Context(), objects[0]), "binarydata")
}

func TestDecode(t *testing.T) {
	objects, err := Decode("# nothing yet\n---\nkind: A\n---\n\n---\nkind: B\n")
	require.NoError(t, err)
	require.Len(t, objects, 2)
	assert.Equal(t, "A", objects[0].GetKind())
	assert.Equal(t, "B", objects[1].GetKind())

	_, err = Decode("kind: A\nkind: B\n")
	assert.ErrorContains(t, err, `"kind" already set`)
}

func pod(namespace, name string, change func(*corev1.PodSpec)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/workload"}}},
	}
	change(&p.Spec)
	return p
}

func waitForPod(t *testing.T, plane *Plane, namespace, name string, done func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	var last *corev1.Pod
	require.Eventually(t, func() bool {
		var err error
		last, err = plane.Admin().CoreV1().Pods(namespace).Get(context.WithoutCancel(t.Context()), name, metav1.GetOptions{})
		return err == nil && done(last)
	}, patience, poll)
	return last
}

// scheduled returns a pod's PodScheduled condition, or an empty condition if the pod does not have
// one.
func scheduled(pod *corev1.Pod) corev1.PodCondition {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled {
			return condition
		}
	}
	return corev1.PodCondition{}
}

func clientFor(t *testing.T, kubeconfig string) kubernetes.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return client
}
