package gpuk8sprocessor

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

func TestOwnersOfPodsAreRead(t *testing.T) {
	of := func(apiVersion, kind, name string) *metav1.OwnerReference {
		yes := true
		return &metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, Controller: &yes}
	}
	jobs := map[string]*metav1.OwnerReference{
		"alone":           nil,
		"nightly-2938475": of("batch/v1", "CronJob", "nightly"),
		"launcher":        of("kubeflow.org/v2beta1", "MPIJob", "mpi"),
	}
	for name, test := range map[string]struct {
		controller          *metav1.OwnerReference
		labels, annotations map[string]string
		podGroup            string
		want                gpudata.Ownership
	}{
		"nobody": {},
		"a ReplicaSet of a Deployment": {
			controller: of("apps/v1", "ReplicaSet", "web-5d4f"), labels: map[string]string{"pod-template-hash": "5d4f"},
			want: gpudata.Ownership{Deployment: "web", WorkloadKind: "Deployment", Workload: "web"},
		},
		"a ReplicaSet of an Argo Rollout": {
			controller: of("apps/v1", "ReplicaSet", "web-5d4f"), labels: map[string]string{"rollouts-pod-template-hash": "5d4f"},
			want: gpudata.Ownership{WorkloadKind: "Rollout", Workload: "web"},
		},
		"a ReplicaSet with an unknown owner":                  {controller: of("apps/v1", "ReplicaSet", "web-5d4f")},
		"a ReplicaSet whose name lacks the pod template hash": {controller: of("apps/v1", "ReplicaSet", "web"), labels: map[string]string{"pod-template-hash": "5d4f"}},
		"a StatefulSet": {
			controller: of("apps/v1", "StatefulSet", "db"),
			want:       gpudata.Ownership{StatefulSet: "db", WorkloadKind: "StatefulSet", Workload: "db"},
		},
		"a StatefulSet of a LeaderWorkerSet": {
			controller: of("apps/v1", "StatefulSet", "vllm-0"), labels: map[string]string{"leaderworkerset.sigs.k8s.io/name": "vllm"},
			want: gpudata.Ownership{StatefulSet: "vllm-0", WorkloadKind: "LeaderWorkerSet", Workload: "vllm"},
		},
		"a DaemonSet": {
			controller: of("apps/v1", "DaemonSet", "agent"),
			want:       gpudata.Ownership{DaemonSet: "agent", WorkloadKind: "DaemonSet", Workload: "agent"},
		},
		"a Job without an owner": {
			controller: of("batch/v1", "Job", "alone"),
			want:       gpudata.Ownership{Job: "alone", WorkloadKind: "Job", Workload: "alone"},
		},
		"an unknown Job, whose owner is unknown": {
			controller: of("batch/v1", "Job", "unread"),
			want:       gpudata.Ownership{Job: "unread"},
		},
		"a Job of a CronJob": {
			controller: of("batch/v1", "Job", "nightly-2938475"),
			want:       gpudata.Ownership{Job: "nightly-2938475", CronJob: "nightly", WorkloadKind: "CronJob", Workload: "nightly"},
		},
		"a Job of a JobSet, which is a pod label": {
			controller: of("batch/v1", "Job", "train-workers-0"), labels: map[string]string{"jobset.sigs.k8s.io/jobset-name": "train"},
			want: gpudata.Ownership{Job: "train-workers-0", WorkloadKind: "JobSet", Workload: "train"},
		},
		"a Job of an MPIJob": {
			controller: of("batch/v1", "Job", "launcher"),
			want:       gpudata.Ownership{Job: "launcher", WorkloadKind: "MPIJob", Workload: "mpi"},
		},
		"a PyTorchJob": {
			controller: of("kubeflow.org/v1", "PyTorchJob", "bert"),
			want:       gpudata.Ownership{WorkloadKind: "PyTorchJob", Workload: "bert"},
		},
		"a RayCluster": {
			controller: of("ray.io/v1", "RayCluster", "ray"),
			want:       gpudata.Ownership{WorkloadKind: "RayCluster", Workload: "ray"},
		},
		"a RayCluster of a RayJob, which is a pod label": {
			controller: of("ray.io/v1", "RayCluster", "tune-raycluster-x7k2p"),
			labels:     map[string]string{"ray.io/originated-from-crd": "RayJob", "ray.io/originated-from-cr-name": "tune"},
			want:       gpudata.Ownership{WorkloadKind: "RayJob", Workload: "tune"},
		},
		"a kind with the same name in another group": {
			controller: of("example.com/v1", "Job", "alone"),
			want:       gpudata.Ownership{WorkloadKind: "Job", Workload: "alone"},
		},
		"the node of a static pod": {controller: of("v1", "Node", "n1")},
		"a Workload of Kueue": {
			controller: of("batch/v1", "Job", "alone"), annotations: map[string]string{"kueue.x-k8s.io/workload": "job-alone-3f2a"},
			want: gpudata.Ownership{Job: "alone", WorkloadKind: "Job", Workload: "alone", KueueWorkload: "job-alone-3f2a"},
		},
		"a group of plain pods in Kueue": {
			labels: map[string]string{"kueue.x-k8s.io/pod-group-name": "group"},
			want:   gpudata.Ownership{KueueWorkload: "group"},
		},
		"a PodGroup of pods without a controller": {
			podGroup: "train",
			want:     gpudata.Ownership{WorkloadKind: "PodGroup", Workload: "train"},
		},
		"a PodGroup that controls its pods": {
			controller: of("scheduling.k8s.io/v1beta1", "PodGroup", "train"), podGroup: "train",
			want: gpudata.Ownership{WorkloadKind: "PodGroup", Workload: "train"},
		},
		"a Job whose pods are in a PodGroup": {
			controller: of("batch/v1", "Job", "alone"), podGroup: "alone-workers",
			want: gpudata.Ownership{Job: "alone", WorkloadKind: "Job", Workload: "alone"},
		},
		"an unknown Job whose pods are in a PodGroup": {
			controller: of("batch/v1", "Job", "unread"), podGroup: "unread-workers",
			want: gpudata.Ownership{Job: "unread"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Labels: test.labels, Annotations: test.annotations}}
			if test.controller != nil {
				p.OwnerReferences = []metav1.OwnerReference{{Kind: "Widget", Name: "no controller"}, *test.controller}
			}
			if test.podGroup != "" {
				p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &test.podGroup}
			}
			job := func(namespace, name string) (*metav1.OwnerReference, bool) {
				owner, known := jobs[name]
				return owner, known && namespace == "ns"
			}
			assert.Equal(t, test.want, readOwner(p, nil, job).Ownership())
		})
	}
}

func TestOnlyConfiguredPodLabelsAreRead(t *testing.T) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"team": "vision", "app.kubernetes.io/part-of": "search", "cost": "", "other": "x"}}}
	assert.Empty(t, readOwner(p, nil, nil).Ownership().Labels)
	assert.Equal(t, gpudata.NewLabels(map[string]string{"team": "vision", "app.kubernetes.io/part-of": "search"}),
		readOwner(p, []string{"team", "cost", "app.kubernetes.io/part-of", "none"}, nil).Ownership().Labels)
}
