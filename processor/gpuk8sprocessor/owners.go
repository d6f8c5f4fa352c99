package gpuk8sprocessor

import (
	"cmp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
)

// findJob returns the controller of a Job, or nil if the Job has no controller. The second result
// is false if the Job is unknown.
type findJob func(namespace, name string) (*metav1.OwnerReference, bool)

// readOwner returns what is known about the pod's owner, and the pod's labels that have the given
// keys. To find the owner, readOwner uses the pod's controller, the labels that controllers set on
// pods, and the controller of the pod's Job, if any. If the pod has no controller, the owner is the
// pod's PodGroup.
func readOwner(p *corev1.Pod, labels []string, job findJob) gpudata.Owner {
	o := gpudata.Ownership{
		KueueWorkload: cmp.Or(p.Annotations[kube.KueueWorkload], p.Labels[kube.KueuePodGroupName]), // For a pod group, Kueue gives the Workload the name of the pod group.
		Labels:        gpudata.NewLabels(choose(p.Labels, labels)),
	}
	controller := metav1.GetControllerOfNoCopy(p)
	if controller == nil {
		if group := gpushare.PodGroup(p); group != "" {
			o.WorkloadKind, o.Workload = "PodGroup", group
		}
		return gpudata.NewOwner(o)
	}
	name := controller.Name
	switch group, _, _ := strings.Cut(controller.APIVersion, "/"); group + "/" + controller.Kind {
	case "apps/ReplicaSet":
		if deployment, ok := kube.CutHash(name, p.Labels[kube.DeploymentHash]); ok {
			o.Deployment = deployment
			o.WorkloadKind, o.Workload = "Deployment", deployment
		} else if rollout, ok := kube.CutHash(name, p.Labels[kube.RolloutHash]); ok {
			o.WorkloadKind, o.Workload = "Rollout", rollout
		}
	case "apps/StatefulSet":
		o.StatefulSet = name
		o.WorkloadKind, o.Workload = "StatefulSet", name
		if set := p.Labels[kube.LeaderWorkerSet]; set != "" {
			o.WorkloadKind, o.Workload = "LeaderWorkerSet", set
		}
	case "apps/DaemonSet":
		o.DaemonSet = name
		o.WorkloadKind, o.Workload = "DaemonSet", name
	case "batch/Job":
		o.Job = name
		readJob(&o, p, job)
	case "v1/Node": // of a static pod
	default:
		o.WorkloadKind, o.Workload = controller.Kind, name
		if kind, origin := p.Labels[kube.RayOriginKind], p.Labels[kube.RayOriginName]; group == "ray.io" && kind != "" && origin != "" {
			o.WorkloadKind, o.Workload = kind, origin
		}
	}
	return gpudata.NewOwner(o)
}

// readJob follows the chain of owners that starts at the pod's Job. The pod's labels take
// precedence over the Job.
func readJob(o *gpudata.Ownership, p *corev1.Pod, job findJob) {
	if set := p.Labels[kube.JobSetName]; set != "" {
		o.WorkloadKind, o.Workload = "JobSet", set
		return
	}
	switch controller, found := job(p.Namespace, o.Job); {
	case !found:
	case controller == nil:
		o.WorkloadKind, o.Workload = "Job", o.Job
	default:
		o.WorkloadKind, o.Workload = controller.Kind, controller.Name
		if controller.Kind == "CronJob" && strings.HasPrefix(controller.APIVersion, "batch/") {
			o.CronJob = controller.Name
		}
	}
}
