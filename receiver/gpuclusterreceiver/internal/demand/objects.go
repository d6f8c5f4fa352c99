package demand

import (
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
)

// Pod contains the fields of a pod that affect the demand for GPUs.
type Pod struct {
	Namespace, Name, UID string
	// Node is spec.nodeName. Node is empty until the pod is bound to a node.
	Node string
	// Phase is status.phase. A pod in the Unknown phase may still hold its devices.
	Phase corev1.PodPhase
	// Created is metadata.creationTimestamp in seconds since the epoch.
	Created int64
	// Terminating is true if the pod has a deletionTimestamp.
	Terminating bool
	// Gated is true if scheduling gates prevent the scheduler from processing the pod.
	Gated bool
	// Unschedulable is true if the scheduler could not find a node for the pod, or reported an
	// error.
	Unschedulable bool
	// Requests are the pod's requests for extended resources, with one element per resource.
	Requests []Request
	// TemplateClaims are the entries in spec.resourceClaims whose claims are created from
	// templates.
	TemplateClaims []TemplateClaim
	// Claims are the names of the pod's ResourceClaims. Claims is needed to determine which pods of
	// a PodGroup use a claim that is reserved for the group.
	Claims []string
	// Group is the name of the pod's PodGroup. Group is "" if the pod has no ResourceClaims or does
	// not belong to a group.
	Group string
	// Health contains the health of the devices that the pod's containers use, as reported by the
	// kubelet.
	Health []Health
	// HealthDropped is the number of devices that were omitted from Health.
	HealthDropped int64
	// BrokenRules are the rules of the GPU share API that the pod violates, without duplicates.
	BrokenRules []string
}

// Ended reports whether the pod has finished and holds no resources.
func (p *Pod) Ended() bool { return p.Phase == corev1.PodSucceeded || p.Phase == corev1.PodFailed }

// Request is a pod's request for an extended resource, in the unit of the resource.
type Request struct {
	Resource string
	// Effective is the amount that the scheduler reserves. Effective takes init containers, sidecar
	// containers, and the pod overhead into account.
	Effective int64
	// Regular is the sum of the requests of regular containers only. OpenCost uses this amount.
	Regular float64
}

// TemplateClaim is an entry in spec.resourceClaims that references a ResourceClaimTemplate.
type TemplateClaim struct {
	// Name is the name of the entry. Template is the name of the ResourceClaimTemplate.
	Name, Template string
	// Made is true if the pod's status contains the name of the created claim, or states that no
	// claim is needed.
	Made bool
}

// Health is the health of a device, as reported by the kubelet.
type Health struct {
	Container string
	// Resource is the name of the resource, as reported by the kubelet. For a device of a claim,
	// Resource has the form claim:<name of the claim in the pod>, optionally followed by
	// /<request>.
	Resource string
	// Claim is the name of the ResourceClaim. If the device was allocated by a device plugin, Claim
	// is empty.
	Claim string
	// ID is the device ID from a device plugin, an ID of the form <driver>/<pool>/<device>, or a
	// CDI ID.
	ID string
	// State is healthy, unhealthy, or unknown.
	State string
	// Identity contains the attributes that are encoded in the device ID from a device plugin.
	Identity []Attribute
}

// Node is a node and the conditions that are emitted for it.
type Node struct {
	*corev1.Node
	// Conditions are the conditions to emit, with at most one condition per type.
	Conditions []Condition
	// ConditionsDropped is the number of conditions that were dropped because a node has too many
	// conditions, or because a condition type is too long.
	ConditionsDropped int64
}

// Condition is a condition of a node. Status is true, false, or unknown.
type Condition struct{ Type, Status string }

// Slice is a ResourceSlice and the devices that are emitted for it. After SetSlice has been called,
// the Slice and the objects that it references must not be modified.
type Slice struct {
	*resourcev1.ResourceSlice
	Devices []Device
}

// Device is a device in a ResourceSlice.
type Device struct {
	Name string
	// Type is the device type that the driver publishes, such as gpu, mig, vfio, or amdgpu. If the
	// driver does not publish a type, Type is empty.
	Type string
	// UUID is the UUID of the device. If the driver does not publish a UUID, UUID is empty.
	UUID string
	// ParentUUID is the UUID of the board to which a MIG device belongs. Profile is the profile of
	// a MIG device.
	ParentUUID, Profile string
	// PCIAddress is the PCI address of the device. ParentPCIAddress is the PCI address of the board
	// to which the device belongs. Both addresses have the format that the driver uses. An address
	// that the driver does not publish is empty.
	PCIAddress, ParentPCIAddress string
	// Model is the product name of the device.
	Model string
	// Node is the node of the device. If Node is set, it overrides the node of the slice.
	Node string
	// Taints are the taints that the driver has set.
	Taints []Taint
	// Attributes are additional attributes for the device's point.
	Attributes []Attribute
	// Capacity contains the capacities that the driver advertises for the device. Each value has
	// the unit of the advertised quantity.
	Capacity []Capacity
	// Shared is true if the device can be allocated more than once at the same time.
	Shared bool
	// CounterSets are the names of the shared counter sets from which the device consumes counters.
	CounterSets []string
}

// Taint is a taint of a device. The Value of a taint may be empty.
type Taint struct {
	Key, Value, Effect string
}

// Capacity is an amount that a device advertises, such as its memory size.
type Capacity struct {
	Name  string
	Value float64
}
