package gpushare

import (
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"
)

// PodGroup returns the name of the PodGroup to which a pod belongs, or "" if there is none.
func PodGroup(p *corev1.Pod) string {
	if p.Spec.SchedulingGroup == nil {
		return ""
	}
	return ptr.Deref(p.Spec.SchedulingGroup.PodGroupName, "")
}

// Consumer is a kind of object that can reserve a ResourceClaim.
type Consumer uint8

// Kinds of objects that can reserve a ResourceClaim.
const (
	OtherConsumer Consumer = iota
	PodConsumer
	PodGroupConsumer
)

// ConsumerOf returns the kind of the object that has reserved a ResourceClaim.
func ConsumerOf(r *resourcev1.ResourceClaimConsumerReference) Consumer {
	switch r.APIGroup + "/" + r.Resource {
	case "/pods":
		return PodConsumer
	case "scheduling.k8s.io/podgroups":
		return PodGroupConsumer
	}
	return OtherConsumer
}
