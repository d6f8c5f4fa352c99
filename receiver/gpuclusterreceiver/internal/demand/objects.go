package demand

import (
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
)

// Pod contains the fields of a pod that affect its demand.
type Pod struct {
	Namespace, Name, UID string
	// Node is spec.nodeName. It is empty until the pod is bound.
	Node string
	// Phase is status.phase. A pod whose phase is unknown may still hold its devices.
	Phase corev1.PodPhase
	// Created is metadata.creationTimestamp in seconds since the epoch.
	Created int64
	// Terminating is true if the pod has a deletionTimestamp.
	Terminating bool
	// Gated is true if scheduling gates prevent the scheduler from processing the pod.
	Gated bool
	// Unschedulable is true if the scheduler found no node for the pod or failed.
	Unschedulable bool
	// Requests are the pod's extended resources, without duplicates.
	Requests []Request
	// TemplateClaims are the claims that are created from templates for this pod.
	TemplateClaims []TemplateClaim
	// Claims are the names of the pod's ResourceClaims. If a claim is reserved for a PodGroup, they
	// identify the pods that use it.
	Claims []string
	// Group is the name of the pod's PodGroup, or "" if there is none.
	Group string
	// Health is the health that the kubelet reports for devices of the pod's containers.
	Health []Health
	// LeftOut is the number of devices that Health does not contain.
	LeftOut int64
	// BrokenRules are the rules of the GPU share API that the pod violates, without duplicates.
	BrokenRules []string
}

// Ended reports whether the pod has finished and holds no resources.
func (p *Pod) Ended() bool { return p.Phase == corev1.PodSucceeded || p.Phase == corev1.PodFailed }

// Request is a pod's request for a resource, in the resource's own unit.
type Request struct {
	Resource string
	// Effective is the amount that the scheduler reserves, including init containers, sidecars, and
	// overhead.
	Effective int64
	// Regular is the sum over regular containers only, which OpenCost uses.
	Regular float64
}

// TemplateClaim is an entry in spec.resourceClaims that references a template.
type TemplateClaim struct {
	// Name is the entry's name. Template is the name of the ResourceClaimTemplate.
	Name, Template string
	// Made is true if the pod's status names the claim or states that no claim is needed.
	Made bool
}

// Health is the health of a device.
type Health struct {
	Container string
	// Resource is the resource's name as reported by the kubelet. For a device of a claim, it is
	// claim:<name of the claim in the pod>, optionally followed by /<request>.
	Resource string
	// Claim is the ResourceClaim's name, or empty for a device of a device plugin.
	Claim string
	// ID is the device plugin's id, <driver>/<pool>/<device>, or a CDI id.
	ID string
	// State is healthy, unhealthy, or unknown.
	State string
	// Identity contains the attributes that a device plugin's id contains.
	Identity []Attribute
}

// Node is a node with its emitted conditions.
type Node struct {
	*corev1.Node
	// Conditions are the emitted conditions, at most one of each type.
	Conditions []Condition
	// LeftOut is the number of conditions that were dropped because of a limit.
	LeftOut int64
}

// Condition is a condition of a node. Its status is true, false, or unknown.
type Condition struct{ Type, Status string }

// Slice is a ResourceSlice with its emitted devices. The slice and the objects that it references
// must not be modified after SetSlice.
type Slice struct {
	*resourcev1.ResourceSlice
	Devices []Device
}

// Device is a device of a slice.
type Device struct {
	Name string
	// Type is the driver's type: gpu, mig, or vfio. It is empty if the driver does not publish it.
	Type string
	// UUID is the device's UUID, or empty if the driver does not publish it.
	UUID string
	// ParentUUID and Profile are the board's UUID and the profile of a MIG device.
	ParentUUID, Profile string
	// PCIAddress is the device's PCI address, and ParentPCIAddress is its board's. They have the
	// driver's format, and are empty if the driver does not publish them.
	PCIAddress, ParentPCIAddress string
	// Model is the product name.
	Model string
	// Node overrides the slice's node.
	Node string
	// Taints are the taints that the driver set.
	Taints []Taint
	// Attributes are additional attributes of the device's point, as emitted.
	Attributes []Attribute
	// Capacity is the capacity that the device advertises, in the unit of the quantity.
	Capacity []Capacity
	// Shared is true if the device can be allocated several times.
	Shared bool
	// CounterSets are the names of the counter sets from which the device consumes.
	CounterSets []string
}

// Taint is a taint of a device. Its value may be empty.
type Taint struct {
	Key, Value, Effect string
}

// Capacity is an advertised amount of a resource.
type Capacity struct {
	Name  string
	Value float64
}
