// Package test runs the watchdog against a real API server.
package test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuwatchdogexporter/internal/cluster"
	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuwatchdogexporter/internal/decide"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/controlplane"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(controlplane.Main(m)) }

const account = "otelcol-gpu-watchdog"

// The grant function applies the manifests in rbac.yaml, which grant the documented permissions in
// two namespaces. Lines that contain any of the strings in the without parameter are omitted.
func grant(t *testing.T, plane *controlplane.Plane, ai, monitoring string, without ...string) (kubeconfig string) {
	t.Helper()
	plane.Create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: monitoring, Name: account}})
	text, err := os.ReadFile("testdata/rbac.yaml")
	require.NoError(t, err)
	manifests := strings.NewReplacer("namespace: ai", "namespace: "+ai, "namespace: monitoring", "namespace: "+monitoring).Replace(string(text))
	var lines []string
	for line := range strings.Lines(manifests) {
		kept := true
		for _, w := range without {
			kept = kept && !strings.Contains(line, w)
		}
		if kept {
			lines = append(lines, line)
		}
	}
	plane.Apply(t, strings.Join(lines, ""))
	return plane.ServiceAccountKubeConfig(t, monitoring, account)
}

func connect(t *testing.T, kubeconfig string) kubernetes.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return client
}

// The tenant function creates a pod on the node and sets the pod's phase to Running.
func tenant(t *testing.T, plane *controlplane.Plane, namespace, name string) *corev1.Pod {
	t.Helper()
	yes, since := true, metav1.NewTime(time.Now().Add(-time.Hour))
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name,
			Labels:          map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: "5d4f", "app": name},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: name + "-5d4f", UID: "uid-rs", Controller: &yes}},
		},
		Spec: corev1.PodSpec{NodeName: "gpu-1", Containers: []corev1.Container{{Name: "main", Image: "none"}}},
	}
	plane.Create(t, pod)
	pod.Status.Phase, pod.Status.StartTime = corev1.PodRunning, &since
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	pod, err := plane.Admin().CoreV1().Pods(namespace).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
	require.NoError(t, err)
	return pod
}

func action(pod *corev1.Pod) *decide.Action {
	return &decide.Action{Namespace: pod.Namespace, Pod: pod.Name, UID: string(pod.UID)}
}

// The terminating function reports whether a pod is terminating or no longer exists.
func terminating(t *testing.T, plane *controlplane.Plane, pod *corev1.Pod) bool {
	t.Helper()
	all, err := plane.Admin().CoreV1().Pods(pod.Namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for i := range all.Items {
		if all.Items[i].Name == pod.Name {
			return all.Items[i].DeletionTimestamp != nil
		}
	}
	return true
}

func TestAPIServerEvictsTheChosenPod(t *testing.T) {
	plane := controlplane.Start(t)
	ai, monitoring := plane.Namespace(t), plane.Namespace(t)
	client := connect(t, grant(t, plane, ai, monitoring))
	c := cluster.New(client, cluster.Options{})

	missing, err := c.Missing(t.Context(), []string{ai})
	require.NoError(t, err)
	assert.Empty(t, missing)

	a := tenant(t, plane, ai, "a")
	facts, err := c.Pod(t.Context(), ai, "a")
	require.NoError(t, err)
	assert.Equal(t, string(a.UID), facts.UID)
	assert.Equal(t, ai+"/Deployment/a", facts.Owner)
	facts, err = c.Pod(t.Context(), ai, "nobody")
	require.NoError(t, err)
	assert.False(t, facts.Found)

	before := action(a)
	before.UID = "of-the-pod-before"
	reason, done, err := c.Act(t.Context(), before)
	require.Error(t, err)
	assert.Equal(t, decide.PodGone, reason)
	assert.False(t, done)
	assert.False(t, terminating(t, plane, a))

	reason, done, err = c.Act(t.Context(), action(a))
	require.NoError(t, err)
	assert.Equal(t, decide.Evicted, reason)
	assert.True(t, done)
	assert.True(t, terminating(t, plane, a))

	victim := &decide.Victim{Namespace: ai, Pod: "a", UID: string(a.UID)}
	require.NoError(t, c.Event(t.Context(), victim, "gpu-1", "GPUMemoryEviction", "It is evicted.", time.Now()))
	events, err := plane.Admin().CoreV1().Events(ai).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=a"})
	require.NoError(t, err)
	require.Len(t, events.Items, 1)
	assert.Equal(t, a.UID, events.Items[0].InvolvedObject.UID)
}

func TestAPIServerEnforcesADisruptionBudget(t *testing.T) {
	plane := controlplane.Start(t)
	ai, monitoring := plane.Namespace(t), plane.Namespace(t)
	c := cluster.New(connect(t, grant(t, plane, ai, monitoring)), cluster.Options{})
	a := tenant(t, plane, ai, "a")
	one := intstr.FromInt32(1)
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: ai, Name: "a"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}},
		},
	}
	plane.Create(t, budget)
	allow := func(disruptions int32) {
		budget.Status = policyv1.PodDisruptionBudgetStatus{
			ObservedGeneration: budget.Generation, DisruptionsAllowed: disruptions, CurrentHealthy: 1 + disruptions, DesiredHealthy: 1, ExpectedPods: 1,
		}
		var err error
		budget, err = plane.Admin().PolicyV1().PodDisruptionBudgets(ai).UpdateStatus(t.Context(), budget, metav1.UpdateOptions{})
		require.NoError(t, err)
	}
	refused := func() {
		begin := time.Now()
		reason, done, err := c.Act(t.Context(), action(a))
		require.ErrorContains(t, err, "disruption budget")
		assert.Equal(t, decide.Refused, reason)
		assert.False(t, done)
		assert.Less(t, time.Since(begin), cluster.CallTimeout, "the watchdog does not wait for Retry-After")
		assert.False(t, terminating(t, plane, a))
	}
	refused() // Until the disruption controller has processed the PodDisruptionBudget, the API server asks clients to retry after ten seconds.
	allow(0)
	refused()
	allow(1)
	reason, _, err := c.Act(t.Context(), action(a))
	require.NoError(t, err)
	assert.Equal(t, decide.Evicted, reason)
}

func TestTheAPIServerRejectsRequestsWithoutPermission(t *testing.T) {
	plane := controlplane.Start(t)
	ai, monitoring := plane.Namespace(t), plane.Namespace(t)
	client := connect(t, grant(t, plane, ai, monitoring, "pods/eviction"))
	a := tenant(t, plane, ai, "a")

	c := cluster.New(client, cluster.Options{})
	missing, err := c.Missing(t.Context(), []string{ai})
	require.NoError(t, err)
	assert.Equal(t, map[string]string{ai: "create pods/eviction"}, missing)
	reason, done, err := c.Act(t.Context(), action(a))
	require.Error(t, err)
	assert.Equal(t, decide.Forbidden, reason)
	assert.False(t, done)
	assert.False(t, terminating(t, plane, a))

	missing, err = cluster.New(client, cluster.Options{Delete: true}).Missing(t.Context(), []string{ai})
	require.NoError(t, err)
	assert.Equal(t, map[string]string{ai: "delete pods"}, missing)
	missing, err = cluster.New(client, cluster.Options{DryRun: true}).Missing(t.Context(), []string{ai})
	require.NoError(t, err)
	assert.Empty(t, missing)
	missing, err = cluster.New(client, cluster.Options{DryRun: true}).Missing(t.Context(), []string{ai, monitoring})
	require.NoError(t, err)
	assert.Equal(t, map[string]string{monitoring: "get pods"}, missing)
}
