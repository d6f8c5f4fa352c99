package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/connector/connectortest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/otelcol-gpu/otelcol-gpu/connector/gpueventsconnector"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/controlplane"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/goldentest"
)

// Kubernetes Events about a GPU are created for the GPU's pod and node as soon as the service
// account is permitted to write Events.
func TestKubernetesEventsAreAttachedToThePodAndTheNode(t *testing.T) {
	plane := controlplane.Start(t)
	namespace := plane.Namespace(t)
	plane.Create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "agent"}})
	plane.Create(t, placedPod(namespace, "train-0", "node-events"))

	f := gpueventsconnector.NewFactory()
	cfg := configure(t, f.CreateDefaultConfig(), map[string]any{
		"interval":          "1s",
		"kubernetes_events": map[string]any{"auth_type": "kubeConfig", "kubeconfig": plane.ServiceAccountKubeConfig(t, namespace, "agent")},
	})
	set := connectortest.NewNopSettings(f.Type())
	core, logs := observer.New(zap.WarnLevel)
	set.Logger = zap.New(core)
	c, err := f.CreateMetricsToLogs(t.Context(), set, cfg, new(consumertest.LogsSink))
	require.NoError(t, err)
	all := &chain{}
	t.Cleanup(func() { all.stop(t) })
	all.start(t, c)

	pod, err := plane.Admin().CoreV1().Pods(namespace).Get(t.Context(), "train-0", metav1.GetOptions{})
	require.NoError(t, err)
	uid := string(pod.UID)
	xids := func(seconds, count int) {
		t.Helper()
		text := fmt.Sprintf("%[1]ds {k8s.node.name=node-events} hw.errors {hw.id=GPU-1, error.type=xid_31} = %[2]d\n"+
			"%[1]ds {k8s.node.name=node-events, k8s.namespace.name=%[3]s, k8s.pod.name=train-0, k8s.pod.uid=%[4]s, k8s.container.name=main} gpu.device.holder {hw.id=GPU-1, gpu.holder.source=labels, gpu.sharing.strategy=none} = 1\n",
			seconds, count, namespace, uid)
		require.NoError(t, c.ConsumeMetrics(t.Context(), goldentest.Points(t, text, false)))
	}
	xids(10, 0)
	xids(20, 1)
	require.Eventually(t, func() bool {
		return logs.FilterMessage("The API server does not accept Events. They are dropped.").Len() == 1
	}, patience, poll)

	plane.Create(t, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu-events-test"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}}},
	})
	plane.Create(t, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu-events-test"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "gpu-events-test"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "agent"}},
	})
	told := func() (out []string) {
		events, err := plane.Admin().CoreV1().Events("").List(t.Context(), metav1.ListOptions{FieldSelector: "reason=GPUXidError"})
		require.NoError(t, err)
		slices.SortFunc(events.Items, func(a, b corev1.Event) int { return cmp.Compare(a.InvolvedObject.Kind, b.InvolvedObject.Kind) })
		for _, e := range events.Items {
			if e.InvolvedObject.Name == "node-events" || e.InvolvedObject.Namespace == namespace {
				assert.Contains(t, e.Message, "GPU-1")
				assert.Equal(t, "otelcol-gpu", e.Source.Component)
				out = append(out, fmt.Sprintf("%s %s %s at %s in %s", e.Type, e.InvolvedObject.Kind, e.InvolvedObject.UID, e.Source.Host, e.Namespace))
			}
		}
		return out
	}
	at := 30
	require.Eventually(t, func() bool {
		xids(at, at)
		at += 10
		return len(told()) >= 2
	}, patience, poll)
	got := told()
	assert.Contains(t, got, "Warning Node node-events at node-events in default")
	assert.Contains(t, got, "Warning Pod "+uid+" at node-events in "+namespace)
}
