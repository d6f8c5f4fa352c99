package demand

import (
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
)

// Pod has the parts of a pod that its demand depends on.
type Pod struct {
	Namespace, Name, UID string
	// Node is spec.nodeName: empty until the pod is bound.
	Node string
	// Phase is status.phase. A pod whose phase is unknown may still hold what it was given.
	Phase corev1.PodPhase
	// Created is metadata.creationTimestamp in seconds since the epoch.
	Created int64
	// Terminating says that the pod has a deletionTimestamp.
	Terminating bool
	// Gated says that scheduling gates keep the scheduler from looking at it.
	Gated bool
	// Unschedulable says that the scheduler looked and found no place, or failed.
	Unschedulable bool
	// Requests are the pod's extended resources, each once.
	Requests []Request
	// TemplateClaims are the claims that are made for this pod out of templates.
	TemplateClaims []TemplateClaim
	// Claims are the names of the pod's ResourceClaims, to find the pods of a claim that is reserved
	// for a PodGroup.
	Claims []string
	// Health is what the kubelet says of devices that the pod's containers were given.
	Health []Health
	// LeftOut is how many of these devices are not in Health.
	LeftOut int64
	// BrokenRules are the rules of the GPU share API that the pod breaks, each once.
	BrokenRules []string
}

// Ended reports whether the pod is over, and holds nothing any more.
func (p *Pod) Ended() bool { return p.Phase == corev1.PodSucceeded || p.Phase == corev1.PodFailed }

// Request is a pod's request of one resource, in the resource's own unit.
type Request struct {
	Resource string
	// Effective is what the scheduler reserves: init containers, sidecars and
	// overhead included.
	Effective int64
	// Regular is the sum over regular containers alone, as OpenCost counts.
	Regular float64
}

// TemplateClaim is an entry of spec.resourceClaims that names a template.
type TemplateClaim struct {
	// Name is the entry's name, Template the ResourceClaimTemplate's.
	Name, Template string
	// Made says that the pod's status names the claim, or that none is needed.
	Made bool
}

// Health is what is known of the health of a device.
type Health struct {
	Container string
	// Resource is the resource's name as the kubelet writes it; of a device of a claim
	// claim:<what the pod calls it>, perhaps with /<request>.
	Resource string
	// Claim is the ResourceClaim's name, empty for a device of a device plugin.
	Claim string
	// ID is the device plugin's id, <driver>/<pool>/<device>, or an id of CDI.
	ID string
	// State is healthy, unhealthy or unknown.
	State string
	// Identity is what the id of a device plugin tells of the device.
	Identity []Attribute
}

// Node is a node, with its conditions as they are emitted.
type Node struct {
	*corev1.Node
	// Conditions are those that are emitted, each type once.
	Conditions []Condition
	// LeftOut is how many further conditions should be emitted and are not.
	LeftOut int64
}

// Condition is a condition of a node, with the status true, false or unknown.
type Condition struct{ Type, Status string }

// Slice is a ResourceSlice, with its devices as they are emitted. It and what it points to must not
// be changed once it was handed over.
type Slice struct {
	*resourcev1.ResourceSlice
	Devices []Device
}

// Device is one device of a slice.
type Device struct {
	Name string
	// Type is the driver's type: gpu, mig, vfio; empty where it has none.
	Type string
	// UUID is the vendor's identity of the device, empty where it is not told.
	UUID string
	// ParentUUID and Profile are a MIG device's board and profile.
	ParentUUID, Profile string
	// PCIAddress is the device's address, ParentPCIAddress that of the board that it is a part of.
	// Both are as the driver writes them, and empty if it does not.
	PCIAddress, ParentPCIAddress string
	// Model is the product's name.
	Model string
	// Node overrides the slice's node.
	Node string
	// Taint is the strongest effect of the device's taints: NoExecute,
	// NoSchedule or empty.
	Taint string
	// Taints are all taints of the device, sorted, none twice.
	Taints []Taint
	// Attributes are further attributes of the device's point, ready to be emitted.
	Attributes []Attribute
	// Capacity is what the device advertises, in the unit of the quantity.
	Capacity []Capacity
	// CounterSets name the counter sets that the device draws from when it is used.
	CounterSets []string
}

// Taint says why claims should keep away from a device; the value may be empty.
type Taint struct {
	Key, Value, Effect string
}

// Capacity is an advertised amount.
type Capacity struct {
	Name  string
	Value float64
}
