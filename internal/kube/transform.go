package kube

import (
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// transform returns a function that removes from an object all fields that components do not read.
// The function modifies the object, which is not shared yet.
//
// For all kinds of objects, the function keeps the name, namespace, UID, resource version, creation
// time, and deletion time. In addition, the function keeps:
//   - Pods: annotations of GPU sharing systems; node name; overhead, scheduling gates, and claims;
//     the scheduling group of a pod with claims; phase, start time, the PodScheduled condition, and
//     claim statuses. For each container and init container, the function keeps the name, restart
//     policy, [MPSPercentage], claims, and requests for extended resources, or their limits if
//     there is no request.
//   - Pods, with a node filter: also names and IDs in container statuses, owners, the scheduling
//     group, labels, annotations that match [OwnerKey], and the kubelet's UID for a static pod.
//   - Pods, with a node filter or a label selector: also the IP, ports, and hostNetwork.
//   - Pods, in a cache of the entire cluster: also names and the health of allocated resources in
//     container statuses. If a pod has no annotations of GPU sharing systems and requests neither
//     extended resources nor claims, the function drops all of the pod's containers. If a pod
//     without these annotations requests extended resources but no claims, the function drops the
//     app containers after the last app container that requests an extended resource.
//   - Nodes: labels and annotations of GPU vendors and sharing systems, the label for the host
//     name, and, with a node filter, all labels; the unschedulable field; the capacity and the
//     allocatable quantities of extended resources; types and statuses of conditions.
//   - ResourceSlices: the entire spec.
//   - ResourceClaims and ResourceClaimTemplates: requests without selectors. For ResourceClaims,
//     the function also keeps annotations under resource.kubernetes.io, owners, allocation results,
//     and reservations.
//   - ResourceClaims, in a cache of the entire cluster: also types and statuses of the devices'
//     conditions.
//   - Jobs: owners.
//   - DeviceClasses: selectors and the extended resource name.
//   - DeviceTaintRules: the entire spec.
func transform(o Options) cache.TransformFunc {
	isClusterWide := o.NodeName == "" && o.LabelSelector == ""
	return func(object any) (any, error) {
		switch object := object.(type) {
		case *corev1.Pod:
			cutPod(object, o.NodeName != "", isClusterWide)
		case *corev1.Node:
			cutNode(object, o.NodeName != "")
		case *resourcev1.ResourceSlice:
			cutMeta(&object.ObjectMeta)
		case *resourcev1.ResourceClaim:
			cutClaim(object, isClusterWide)
		case *batchv1.Job:
			owners := object.OwnerReferences
			cutMeta(&object.ObjectMeta)
			object.OwnerReferences = owners
			object.Spec, object.Status = batchv1.JobSpec{}, batchv1.JobStatus{}
		case *resourcev1.DeviceClass:
			cutMeta(&object.ObjectMeta)
			object.Spec = resourcev1.DeviceClassSpec{
				Selectors:            object.Spec.Selectors,
				ExtendedResourceName: object.Spec.ExtendedResourceName,
			}
		case *resourcev1.DeviceTaintRule:
			cutMeta(&object.ObjectMeta)
			object.Status = resourcev1.DeviceTaintRuleStatus{}
		case *resourcev1.ResourceClaimTemplate:
			cutMeta(&object.ObjectMeta)
			object.Spec = resourcev1.ResourceClaimTemplateSpec{Spec: cutClaimSpec(object.Spec.Spec)}
		}
		return object, nil
	}
}

// cutMeta removes all metadata except the name, namespace, UID, resource version, creation time,
// and deletion time.
func cutMeta(m *metav1.ObjectMeta) {
	*m = metav1.ObjectMeta{
		Name:              m.Name,
		Namespace:         m.Namespace,
		UID:               m.UID,
		ResourceVersion:   m.ResourceVersion,
		CreationTimestamp: m.CreationTimestamp,
		DeletionTimestamp: m.DeletionTimestamp,
	}
}

// PodAnnotation reports whether the cache keeps the pod annotation with the given key. The cache
// keeps the annotations of Koordinator and HAMi, and all annotations whose key contains "gpu",
// including KAI's annotations.
func PodAnnotation(key string) bool {
	return strings.HasPrefix(key, "scheduling.koordinator.sh/") || strings.HasPrefix(key, "hami.io/") || strings.Contains(key, "gpu")
}

// Labels and annotations of a pod that help to identify the pod's creator, in addition to owner
// references.
const (
	DeploymentHash    = "pod-template-hash"          // Label of the pods of a Deployment's ReplicaSets.
	RolloutHash       = "rollouts-pod-template-hash" // Label of the pods of an Argo Rollout's ReplicaSets.
	JobSetName        = "jobset.sigs.k8s.io/jobset-name"
	LeaderWorkerSet   = "leaderworkerset.sigs.k8s.io/name"
	RayOriginKind     = "ray.io/originated-from-crd"
	RayOriginName     = "ray.io/originated-from-cr-name"
	KueueWorkload     = "kueue.x-k8s.io/workload"
	KueuePodGroupName = "kueue.x-k8s.io/pod-group-name"
)

// OwnerKey reports whether a label or an annotation with the given key helps to identify the pod's
// creator.
func OwnerKey(key string) bool {
	switch key {
	case DeploymentHash, RolloutHash, JobSetName, LeaderWorkerSet, RayOriginKind, RayOriginName, KueueWorkload, KueuePodGroupName:
		return true
	}
	return false
}

// MPSPercentage is the name of the environment variable that limits an MPS client to a percentage
// of a device's threads.
const MPSPercentage = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"

// nodeKeys uses the prefix of a key to determine whether the label or annotation describes a node's
// GPUs or how the GPUs are shared.
var nodeKeys = beginsWith(
	"nvidia.com/", "amd.com/", "gpu.intel.com/", "hami.io/", "node.koordinator.sh/", "kai.scheduler/",
	corev1.LabelHostname,
)

// claimAnnotations uses the prefix of a key to determine whether the annotation describes the
// origin of a claim.
var claimAnnotations = beginsWith("resource.kubernetes.io/")

// The function named only returns the map entries whose keys the keep function accepts, or nil if
// there are no such entries.
func only[M ~map[K]V, K ~string, V any](m M, keep func(key string) bool) M {
	var kept M
	for key, value := range m {
		if keep(string(key)) {
			if kept == nil {
				kept = M{}
			}
			kept[key] = value
		}
	}
	return kept
}

func beginsWith(prefixes ...string) func(key string) bool {
	return func(key string) bool {
		return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
	}
}

// The extended function returns the extended resources in a list, or nil if there are none. The
// names of extended resources contain a domain, unlike the names cpu and memory.
func extended(resources corev1.ResourceList) corev1.ResourceList {
	return only(resources, func(name string) bool { return strings.Contains(name, "/") })
}

func cutPod(p *corev1.Pod, hasNodeFilter, isClusterWide bool) {
	annotations := only(p.Annotations, func(key string) bool {
		return PodAnnotation(key) || hasNodeFilter && (key == corev1.MirrorPodAnnotationKey || OwnerKey(key))
	})
	labels, owners := p.Labels, p.OwnerReferences
	cutMeta(&p.ObjectMeta)
	p.Annotations = annotations
	if hasNodeFilter {
		p.Labels, p.OwnerReferences = labels, owners
	}
	spec, status := p.Spec, p.Status

	initContainers, uses := cutContainers(spec.InitContainers, !isClusterWide)
	containers, used := cutContainers(spec.Containers, !isClusterWide)
	if isClusterWide && annotations == nil && len(spec.ResourceClaims) == 0 {
		switch {
		case !uses && !used:
			initContainers, containers = nil, nil
		case used:
			containers = withoutTail(containers)
		}
	}
	p.Spec = corev1.PodSpec{
		NodeName:        spec.NodeName,
		InitContainers:  initContainers,
		Containers:      containers,
		Overhead:        extended(spec.Overhead),
		SchedulingGates: spec.SchedulingGates,
		ResourceClaims:  spec.ResourceClaims,
	}
	if hasNodeFilter || len(spec.ResourceClaims) > 0 { // a claim can be reserved for a scheduling group
		p.Spec.SchedulingGroup = spec.SchedulingGroup
	}
	p.Status = corev1.PodStatus{
		Phase:                       status.Phase,
		StartTime:                   status.StartTime,
		ResourceClaimStatuses:       status.ResourceClaimStatuses,
		ExtendedResourceClaimStatus: status.ExtendedResourceClaimStatus,
	}
	for _, condition := range status.Conditions {
		if condition.Type == corev1.PodScheduled {
			condition.Message = ""
			p.Status.Conditions = []corev1.PodCondition{condition}
		}
	}
	if !isClusterWide { // components use these fields to find exporters
		p.Spec.HostNetwork, p.Status.PodIP = spec.HostNetwork, status.PodIP
	}
	if isClusterWide {
		p.Status.ContainerStatuses = cutHealth(status.ContainerStatuses)
	}
	if hasNodeFilter {
		p.Status.InitContainerStatuses = cutContainerStatuses(status.InitContainerStatuses)
		p.Status.ContainerStatuses = cutContainerStatuses(status.ContainerStatuses)
	}
}

// withoutTail returns a copy of a list of containers without the containers after the last
// container that requests a device. Each omitted container saves about 700 bytes. The positions of
// the remaining containers do not change.
func withoutTail(containers []corev1.Container) []corev1.Container {
	n := len(containers)
	for n > 0 && containers[n-1].Resources.Requests == nil && containers[n-1].Resources.Limits == nil {
		n--
	}
	return append(make([]corev1.Container, 0, n), containers[:n]...)
}

// cutContainers removes unneeded fields from the containers, and reports whether any container
// requests an extended resource or a claim.
func cutContainers(containers []corev1.Container, ports bool) (kept []corev1.Container, uses bool) {
	if len(containers) > 0 {
		kept = make([]corev1.Container, 0, len(containers))
	}
	for i := range containers {
		c := &containers[i]
		requests, limits := extended(c.Resources.Requests), extended(c.Resources.Limits)
		for name := range requests {
			delete(limits, name)
		}
		if len(limits) == 0 {
			limits = nil
		}
		uses = uses || requests != nil || limits != nil || len(c.Resources.Claims) > 0
		cut := corev1.Container{
			Name:          c.Name,
			RestartPolicy: c.RestartPolicy,
			Resources:     corev1.ResourceRequirements{Requests: requests, Limits: limits, Claims: c.Resources.Claims},
		}
		if i := slices.IndexFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == MPSPercentage && e.Value != "" }); i >= 0 {
			cut.Env = []corev1.EnvVar{{Name: MPSPercentage, Value: c.Env[i].Value}}
		}
		if ports {
			cut.Ports = c.Ports
		}
		kept = append(kept, cut)
	}
	return kept, uses
}

func cutContainerStatuses(statuses []corev1.ContainerStatus) []corev1.ContainerStatus {
	var kept []corev1.ContainerStatus
	for i := range statuses {
		kept = append(kept, corev1.ContainerStatus{Name: statuses[i].Name, ContainerID: statuses[i].ContainerID})
	}
	return kept
}

// cutHealth keeps only the container names and the health of the resources that are allocated to
// containers.
func cutHealth(statuses []corev1.ContainerStatus) []corev1.ContainerStatus {
	var kept []corev1.ContainerStatus
	for i := range statuses {
		given := statuses[i].AllocatedResourcesStatus
		if len(given) == 0 {
			continue
		}
		for _, g := range given {
			for j := range g.Resources {
				g.Resources[j].Message = nil
			}
		}
		kept = append(kept, corev1.ContainerStatus{Name: statuses[i].Name, AllocatedResourcesStatus: given})
	}
	return kept
}

func cutNode(n *corev1.Node, hasNodeFilter bool) {
	labels, annotations := n.Labels, only(n.Annotations, nodeKeys)
	if !hasNodeFilter {
		labels = only(labels, nodeKeys)
	}
	cutMeta(&n.ObjectMeta)
	n.Labels, n.Annotations = labels, annotations
	status := n.Status
	n.Spec = corev1.NodeSpec{Unschedulable: n.Spec.Unschedulable}
	n.Status = corev1.NodeStatus{Capacity: extended(status.Capacity), Allocatable: extended(status.Allocatable)}
	for _, c := range status.Conditions {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: c.Type, Status: c.Status})
	}
}

func cutClaim(c *resourcev1.ResourceClaim, isClusterWide bool) {
	annotations, owners := only(c.Annotations, claimAnnotations), c.OwnerReferences
	cutMeta(&c.ObjectMeta)
	c.Annotations, c.OwnerReferences = annotations, owners
	c.Spec = cutClaimSpec(c.Spec)
	status := c.Status
	c.Status = resourcev1.ResourceClaimStatus{ReservedFor: status.ReservedFor}
	if isClusterWide {
		c.Status.Devices = cutDeviceStatuses(status.Devices)
	}
	if status.Allocation != nil {
		c.Status.Allocation = &resourcev1.AllocationResult{
			Devices:             resourcev1.DeviceAllocationResult{Results: status.Allocation.Devices.Results},
			AllocationTimestamp: status.Allocation.AllocationTimestamp,
		}
	}
}

// cutDeviceStatuses keeps only the devices that have conditions.
func cutDeviceStatuses(statuses []resourcev1.AllocatedDeviceStatus) []resourcev1.AllocatedDeviceStatus {
	var kept []resourcev1.AllocatedDeviceStatus
	for i := range statuses {
		s := &statuses[i]
		var conditions []metav1.Condition
		for _, c := range s.Conditions {
			conditions = append(conditions, metav1.Condition{Type: c.Type, Status: c.Status})
		}
		if conditions != nil {
			kept = append(kept, resourcev1.AllocatedDeviceStatus{
				Driver: s.Driver, Pool: s.Pool, Device: s.Device, ShareID: s.ShareID, Conditions: conditions,
			})
		}
	}
	return kept
}

func cutClaimSpec(spec resourcev1.ResourceClaimSpec) resourcev1.ResourceClaimSpec {
	requests := spec.Devices.Requests
	for i := range requests {
		if requests[i].Exactly != nil {
			requests[i].Exactly.Selectors = nil
		}
		for j := range requests[i].FirstAvailable {
			requests[i].FirstAvailable[j].Selectors = nil
		}
	}
	return resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: requests}}
}
