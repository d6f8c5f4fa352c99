package cluster

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer/consumertest"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/controlplane"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/kubelettest"
)

// One pod is owned by the Job of a CronJob, and another pod is owned by the ReplicaSet of a
// Deployment. Both pods run on a node with an instance type. gpu_k8s never reads ReplicaSets, and
// reads Jobs only if it has permission. If an owner object cannot be read, the chain of owners ends
// at that object, but the owner in the pod's owner reference is still reported.
func TestOwnersAreReadFromPodsAndIfPermittedFromJobs(t *testing.T) {
	plane := controlplane.Start(t)
	namespace := plane.Namespace(t)
	plane.CreateNode(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, Labels: map[string]string{
		corev1.LabelInstanceTypeStable: "p5.48xlarge", "pool": "train",
	}}})
	yes := true
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "nightly-29384756", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "batch/v1", Kind: "CronJob", Name: "nightly", UID: "uid-of-cronjob", Controller: &yes},
		}},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "main", Image: "none"}},
		}}},
	}
	plane.Create(t, job)
	trainer := boundPod(namespace, "nightly-29384756-abcde", "")
	trainer.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))}
	plane.Create(t, trainer)
	web := boundPod(namespace, "web-5d4f-x7k2p", "")
	web.Labels["pod-template-hash"], web.Labels["team"] = "5d4f", "vision"
	web.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-5d4f", UID: "uid-of-set", Controller: &yes}}
	plane.Create(t, web)
	kubelet := kubelettest.Start(t)
	allocation := func(pod, id string) kube.ContainerResources {
		return kube.ContainerResources{Namespace: namespace, Pod: pod, Container: "main", Devices: []kube.DeviceRef{{Resource: "nvidia.com/gpu", ID: id}}}
	}
	kubelet.Set(allocation(trainer.Name, gpu0), allocation(web.Name, gpu1))
	plane.Apply(t, withNamespace(agent, namespace))
	sink := &consumertest.MetricsSink{}
	h := newHost()
	p := startProcessor(t, gpuk8sprocessor.NewFactory(), h, sink, map[string]any{
		"node_name":   node,
		"node_labels": []any{"pool", "rack"},
		"pod_labels":  []any{"team", "cost-center"},
		"jobs":        true,
		"sources":     map[string]any{"pod_resources": map[string]any{"socket": kubelet.Socket(), "interval": "1s"}},
		"kubernetes":  map[string]any{"auth_type": "kubeConfig", "kubeconfig": plane.ServiceAccountKubeConfig(t, namespace, "agent")},
	})
	held := scrape(t, p, sink)
	subset(t, held[gpu1], map[string]any{
		signal.K8sDeploymentName: "web", signal.K8sWorkloadKind: "Deployment", signal.K8sWorkloadName: "web",
		signal.HostType: "p5.48xlarge", signal.K8sNodeLabelPrefix + "pool": "train", signal.K8sPodLabelPrefix + "team": "vision",
	})
	subset(t, held[gpu0], map[string]any{signal.K8sJobName: job.Name})
	assert.NotContains(t, held[gpu0], signal.K8sWorkloadName)
	assert.ErrorContains(t, (<-h.events).Err(), "jobs is forbidden")
	for _, rm := range sink.AllMetrics()[0].ResourceMetrics().All() {
		if _, pod := rm.Resource().Attributes().Get(signal.K8sPodName); !pod {
			assert.Equal(t, map[string]any{
				signal.K8sNodeName: node, signal.HostType: "p5.48xlarge", signal.K8sNodeLabelPrefix + "pool": "train",
			}, rm.Resource().Attributes().AsRaw())
		}
	}

	plane.Apply(t, withNamespace(jobs, namespace))
	require.Eventually(t, func() bool { return scrape(t, p, sink)[gpu0][signal.K8sWorkloadName] == "nightly" }, patience, poll)
	subset(t, scrape(t, p, sink)[gpu0], map[string]any{
		signal.K8sJobName: job.Name, signal.K8sCronJobName: "nightly", signal.K8sWorkloadKind: "CronJob",
	})
}
