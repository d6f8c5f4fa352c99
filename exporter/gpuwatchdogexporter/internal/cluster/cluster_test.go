package cluster

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuwatchdogexporter/internal/decide"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// runningPod returns a pod that belongs to a Deployment.
func runningPod(name string, started time.Time) *corev1.Pod {
	yes, since := true, metav1.NewTime(started)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ai", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{kube.DeploymentHash: "5d4f"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: name + "-5d4f", UID: "uid-rs", Controller: &yes}},
		},
		Spec:   corev1.PodSpec{NodeName: "gpu-1"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &since},
	}
}

// The name of an Event is derived from the name of the pod, which may already have the maximum
// length of object names. The Event's name must not exceed the maximum length.
func TestEventNameIsValid(t *testing.T) {
	client := fake.NewClientset()
	c := New(client, Options{})
	for _, pod := range []string{"a", strings.Repeat("a", 253)} {
		require.NoError(t, c.Event(t.Context(), &decide.Victim{Namespace: "ai", Pod: pod}, "gpu-1", "reason", "message", time.Now()))
	}
	events, err := client.CoreV1().Events("ai").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, events.Items, 2)
	for _, e := range events.Items {
		assert.Empty(t, validation.NameIsDNSSubdomain(e.Name, false))
	}
}

func TestPodProperties(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	base := decide.Pod{Found: true, UID: "uid-a", Node: "gpu-1", Running: true, Started: now, Owner: "ai/Deployment/a", OwnerKind: "Deployment"}
	for name, tc := range map[string]struct {
		change func(*corev1.Pod)
		want   func(*decide.Pod)
	}{
		"of a Deployment": {func(*corev1.Pod) {}, func(*decide.Pod) {}},
		"of a ReplicaSet": {
			func(p *corev1.Pod) { p.Labels = nil }, func(d *decide.Pod) { d.Owner, d.OwnerKind = "ai/ReplicaSet/a-5d4f", "ReplicaSet" },
		},
		"of a StatefulSet": {
			func(p *corev1.Pod) { p.OwnerReferences[0].Kind, p.OwnerReferences[0].Name = "StatefulSet", "db" },
			func(d *decide.Pod) { d.Owner, d.OwnerKind = "ai/StatefulSet/db", "StatefulSet" },
		},
		"of an owner that is not the controller": {
			func(p *corev1.Pod) { p.OwnerReferences[0].Controller = nil }, func(d *decide.Pod) { d.Owner, d.OwnerKind = "", "" },
		},
		"of a Job": {
			func(p *corev1.Pod) { p.OwnerReferences[0].Kind, p.OwnerReferences[0].Name = "Job", "train" },
			func(d *decide.Pod) { d.Owner, d.OwnerKind = "ai/Job/train", "Job" },
		},
		"with a budget in an annotation": {
			func(p *corev1.Pod) { p.Annotations = map[string]string{"example.com/gpu-memory": "5Gi"} },
			func(d *decide.Pod) {
				d.Budgets = []gpushare.Budget{{Source: gpushare.BudgetAnnotation, Minor: -1, MemoryBytes: 5 << 30}}
			},
		},
		"protected": {
			func(p *corev1.Pod) { p.Labels[ProtectedLabel] = "" }, func(d *decide.Pod) { d.Protected = true },
		},
		"a mirror pod": {
			func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }, func(d *decide.Pod) { d.Mirror = true },
		},
		"with a priority": {
			func(p *corev1.Pod) { p.Spec.Priority = new(int32(7)) }, func(d *decide.Pod) { d.Priority = 7 },
		},
		"terminating": {
			func(p *corev1.Pod) { p.DeletionTimestamp = p.Status.StartTime }, func(d *decide.Pod) { d.Terminating = true },
		},
		"not started": {
			func(p *corev1.Pod) { p.Status = corev1.PodStatus{Phase: corev1.PodPending} },
			func(d *decide.Pod) { d.Running, d.Started = false, time.Time{} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod, want := runningPod("a", now), base
			tc.change(pod)
			tc.want(&want)
			c := New(nil, Options{Budgets: gpushare.BudgetOptions{Annotation: "example.com/gpu-memory"}})
			assert.Equal(t, want, c.facts(pod))
		})
	}
}
