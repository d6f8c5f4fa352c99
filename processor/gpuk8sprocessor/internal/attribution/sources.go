package attribution

import (
	"cmp"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
)

// Sources are the answers from all sources outside the telemetry at one time. The state of a source
// is Synced, Stale (it answered earlier and fails now), or Off (it does not answer). The holders
// from a stale source stay valid. If the source lists no holder for a device, the device counts as
// free only until the grace period ends, because it may have been allocated in the meantime.
type Sources struct {
	// Listing is the kubelet's answer.
	Listing Listing
	// Devices are the devices in ResourceSlices that belong to complete pools of the node.
	Devices map[DRADevice]SliceDevice
	// SlicesHidden is true if more devices may exist in incomplete pools or in slices that were not
	// read.
	SlicesHidden bool
	// ClaimsState is Off if ResourceClaims cannot be read.
	ClaimsState kube.Phase
	// Claims are the devices that are allocated to ResourceClaims.
	Claims []ClaimedDevice
	// Sharing is the gpu.sharing.strategy from the node's label: time_slicing, mps, or empty.
	Sharing string
	// HostType is the node's instance type. NodeLabels are its configured labels.
	HostType   string
	NodeLabels map[string]string
	// Instances are the GPU instances of MIG devices, from schedulers' annotations on pods.
	Instances []Instance
	// PodsState is Off if pods cannot be read.
	PodsState kube.Phase
	// Pods are the pods on the node.
	Pods []Pod
}

// Listing is one answer from the PodResources service.
type Listing struct {
	State kube.Phase
	// Time is when the answer arrived, in nanoseconds since the epoch.
	Time int64
	// Containers are the containers with devices that may be GPUs.
	Containers []ContainerResources
}

// ContainerResources are the devices that the kubelet allocated to one container.
type ContainerResources struct {
	Namespace, Pod, Container string
	// Devices are allocated by a device plugin. An ID with an unknown form can refer to any device.
	Devices []catalogue.PluginID
	// Others are allocated by other vendors' device plugins. An ID in Others matches only a device
	// that has the same hw.id in the telemetry. It never matches an NVIDIA device.
	Others []catalogue.PluginID
	// Claimed are allocated by a DRA driver.
	Claimed []ClaimedDevice
}

// DRADevice identifies a device among the devices of all DRA drivers.
type DRADevice struct {
	Driver, Pool, Device string
}

// draDevice returns the driver's name for an allocated device.
func draDevice(a *gpudata.Allocation) DRADevice { return DRADevice{a.Driver, a.Pool, a.Device} }

// ClaimedDevice is a device that is allocated to a ResourceClaim.
type ClaimedDevice struct {
	// Namespace is the claim's namespace.
	Namespace string
	// Allocation contains the known fields of the allocation. The request name of a subrequest has
	// the form "main/sub".
	gpudata.Allocation
	// Admin is true for administrative access: the claim observes the device and does not hold it.
	Admin bool
	// ReservedFor are the pods that may use the device. ForOthers is true if other, unknown pods
	// may also use the device.
	ReservedFor []gpudata.Holder
	ForOthers   bool
}

// SliceDevice is a device as its driver publishes it in a slice.
type SliceDevice struct {
	Kind, UUID, Parent, Profile string
	// Shared is true if the device can be allocated to several claims.
	Shared bool
}

// Pod is a pod on the node.
type Pod struct {
	Namespace, Name, UID string
	// Created is in nanoseconds since the epoch.
	Created int64
	// Ended is true if all containers have ended and will not restart. Such a pod holds no device.
	Ended bool
	// Claims are the ResourceClaims of the pod's containers.
	Claims []kube.ContainerClaim
	// StaticUID is the UID that the kubelet uses for a static pod. The mirror pod in the API server
	// has a different UID. StaticUID is empty for all other pods.
	StaticUID string
	// Owner describes the pod's owners, as far as they are known.
	Owner gpudata.Owner
	// Containers are the containers that have started.
	Containers []PodContainer
	// Annotated is true if a scheduler's annotation assigns devices to the pod. Assigned contains
	// these devices. They replace the devices that the kubelet lists for the pod. Unread is true if
	// the annotation also assigns devices that could not be read.
	Annotated, Unread bool
	Assigned          []Assigned
	// Groups are groups of pods. The pods of a group share the device of a reservation pod. In an
	// ordinary pod, Groups are the pod's groups, and GroupContainer is the container that has the
	// shares. In a reservation pod, Groups contains the group that the pod serves, and Reserved is
	// the device that the pod reports.
	Groups         []string
	GroupContainer string
	Reserved       catalogue.PluginID
	// Reservation is true if the pod's labels are those of a reservation pod, regardless of its
	// namespace.
	Reservation bool
}

// Assigned is a device that a scheduler's annotation assigns to a pod.
type Assigned struct {
	catalogue.PluginID
	// Container is empty if the annotation applies to the entire pod.
	Container string
}

// PodContainer is a container of a pod.
type PodContainer struct {
	Name string
	// ID is the container runtime's ID of the container, without the runtime's name.
	ID string
}

// Instance is the GPU instance of a MIG device.
type Instance struct {
	MIGUUID, UUID, GPUInstance string
}

// Holding is a container that holds a device, with the details of its allocation.
type Holding struct {
	gpudata.Holder
	// Allocation is zero for devices of device plugins.
	Allocation gpudata.Allocation
	// Replica is true if the container has one of several shares of the device.
	Replica bool
	// Replicas is the number of shares that the container has. Each share has its own ID.
	Replicas int

	// several is true if the container has several allocations of the device.
	several bool
	raw     string // the allocated id
	// The pod exists in the interval [from, until), in nanoseconds since the epoch. Both are set
	// only for holdings in a table.
	from, until int64
}

// At reports whether the holder's pod exists at time t.
func (h *Holding) At(t int64) bool { return h.from <= t && t < h.until }

// Compare orders holdings by container, then by allocation.
func (h Holding) Compare(o Holding) int {
	return cmp.Or(h.Holder.Compare(o.Holder), h.Allocation.Compare(o.Allocation), cmp.Compare(h.raw, o.raw))
}
