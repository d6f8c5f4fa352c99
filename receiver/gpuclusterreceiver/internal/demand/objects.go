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
	// Unschedulable is true if the scheduler found no node for the pod or reported an error.
	Unschedulable bool
	// Requests are the pod's requests for extended resources, without duplicates.
	Requests []Request
	// TemplateClaims are the claims that are created from templates for this pod.
	TemplateClaims []TemplateClaim
	// Claims are the names of the pod's ResourceClaims. If a claim is reserved for a PodGroup,
	// Claims shows which pods of the group use the claim.
	Claims []string
	// Group is the name of the pod's PodGroup, or "" if there is none.
	Group string
	// Health is the health that the kubelet reports for the devices of the pod's containers.
	Health []Health
	// LeftOut is the number of devices that were omitted from Health.
	LeftOut int64
	// BrokenRules are the rules of the GPU share API that the pod violates, without duplicates.
	BrokenRules []string
}

// Ended reports whether the pod has finished and holds no resources.
func (p *Pod) Ended() bool { return p.Phase == corev1.PodSucceeded || p.Phase == corev1.PodFailed }

// Request is a pod's request for a resource, in the resource's own unit.
type Request struct {
	Resource string
	// Effective is the amount that the scheduler reserves. It includes init containers, sidecar
	// containers and the pod overhead.
	Effective int64
	// Regular is the sum over the regular containers only. OpenCost uses this amount.
	Regular float64
}

// TemplateClaim is an entry in spec.resourceClaims that references a template.
type TemplateClaim struct {
	// Name is the entry's name. Template is the name of the ResourceClaimTemplate.
	Name, Template string
	// Made is true if the pod's status contains the name of the claim or states that no claim is
	// needed.
	Made bool
}

// Health is the health of a device, as reported by the kubelet.
type Health struct {
	Container string
	// Resource is the name of the resource as reported by the kubelet. For a device of a claim, it
	// has the form claim:<name of the claim in the pod>, optionally followed by /<request>.
	Resource string
	// Claim is the name of the ResourceClaim. It is empty if the device belongs to a device plugin.
	Claim string
	// ID is the ID from the device plugin, an ID of the form <driver>/<pool>/<device>, or a CDI ID.
	ID string
	// State is healthy, unhealthy, or unknown.
	State string
	// Identity contains the attributes that are encoded in the ID from a device plugin.
	Identity []Attribute
}

// Node is a node and the conditions that are emitted for it.
type Node struct {
	*corev1.Node
	// Conditions are the conditions to emit, with at most one condition per type.
	Conditions []Condition
	// LeftOut is the number of conditions that were dropped because of a limit.
	LeftOut int64
}

// Condition is a condition of a node. Its status is true, false, or unknown.
type Condition struct{ Type, Status string }

// Slice is a ResourceSlice and the devices that are emitted for it. The slice and the objects that
// it references must not be modified after the call of SetSlice.
type Slice struct {
	*resourcev1.ResourceSlice
	Devices []Device
}

// Device is a device in a ResourceSlice.
type Device struct {
	Name string
	// Type is the device type that the driver publishes: gpu, mig or vfio. It is empty if the
	// driver does not publish a type.
	Type string
	// UUID is the device's UUID, or empty if the driver does not publish it.
	UUID string
	// ParentUUID is the UUID of the board of a MIG device. Profile is the profile of a MIG device.
	ParentUUID, Profile string
	// PCIAddress is the PCI address of the device. ParentPCIAddress is the PCI address of the
	// device's board. Both have the driver's format. Both are empty if the driver does not publish
	// them.
	PCIAddress, ParentPCIAddress string
	// Model is the product name.
	Model string
	// Node overrides the node of the slice.
	Node string
	// Taints are the taints that the driver set.
	Taints []Taint
	// Attributes are additional attributes for the device's point.
	Attributes []Attribute
	// Capacity contains the capacities that the device advertises, in the unit of each quantity.
	Capacity []Capacity
	// Shared is true if the device can be allocated more than once at the same time.
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
