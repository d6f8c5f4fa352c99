package attribution

import (
	"cmp"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
)

// Sources are the answers of all sources outside the telemetry at one time. The state of a source
// is Synced, Stale if it answered before and fails now, or Off if it gives no answer. A stale
// source keeps its holders. Its "no holder" expires after the grace period, because the device may
// have been allocated since.
type Sources struct {
	// Listing is the kubelet's answer.
	Listing Listing
	// Devices are the devices in ResourceSlices whose pool on the node is complete.
	Devices map[DRADevice]SliceDevice
	// SlicesHidden is true if there may be more devices, in incomplete pools or in slices that
	// cannot be read, or not yet.
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
	// Instances are the GPU instances of MIG devices that schedulers record on pods.
	Instances []Instance
	// PodsState is Off if pods cannot be read.
	PodsState kube.Phase
	// Pods are the pods of the node.
	Pods []Pod
}

// Listing is one answer of the PodResources service.
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
	// Devices are allocated by a device plugin. An id whose form is unknown can mean any device.
	Devices []catalogue.PluginID
	// Others are allocated by another vendor's device plugin. Each of them is the device with this
	// hw.id if telemetry shows one, and is never one of NVIDIA's.
	Others []catalogue.PluginID
	// Claimed are allocated by a DRA driver.
	Claimed []ClaimedDevice
}

// DRADevice identifies a device among the devices of all DRA drivers.
type DRADevice struct {
	Driver, Pool, Device string
}

// draDevice returns the driver's name of an allocated device.
func draDevice(a *gpudata.Allocation) DRADevice { return DRADevice{a.Driver, a.Pool, a.Device} }

// ClaimedDevice is a device that is allocated to a ResourceClaim.
type ClaimedDevice struct {
	// Namespace is the claim's.
	Namespace string
	// Allocation has the known facts about the allocation. The name of a subrequest is "main/sub".
	gpudata.Allocation
	// Admin is true for administrative access: the claim observes the device and does not hold it.
	Admin bool
	// ReservedFor are the pods that may use the device. ForOthers is true if other, unknown pods
	// may use it too.
	ReservedFor []gpudata.Holder
	ForOthers   bool
}

// SliceDevice is a device as its driver publishes it in a slice.
type SliceDevice struct {
	Kind, UUID, Parent, Profile string
	// Shared is true if the device can be allocated to several claims.
	Shared bool
}

// Pod is a pod of the node.
type Pod struct {
	Namespace, Name, UID string
	// Created is in nanoseconds since the epoch.
	Created int64
	// Ended is true if all containers have ended and will not restart; such a pod holds nothing.
	Ended bool
	// Claims are the ResourceClaims of the pod's containers.
	Claims []kube.ContainerClaim
	// StaticUID is the UID that the kubelet uses for a static pod, whose mirror pod in the API
	// server has another UID. It is empty for all other pods.
	StaticUID string
	// Owner is what is known about the pod's owner.
	Owner gpudata.Owner
	// Containers are the containers that have started.
	Containers []PodContainer
	// Annotated is true if a scheduler's annotation assigns devices to the pod. Assigned has these
	// devices, which replace those that the kubelet lists for the pod. Unread is true if the
	// annotation also assigns devices that could not be read.
	Annotated, Unread bool
	Assigned          []Assigned
	// Groups are the groups through which a scheduler shares a device that a reservation pod
	// allocates. An ordinary pod has its own groups, and GroupContainer is the container that has
	// the shares. A reservation pod has the group that it serves, and Reserved is the device that
	// it reports.
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
	// Container is empty if the annotation applies to the pod.
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
	// Replicas is the number of shares that the container has, each with its own id.
	Replicas int

	// several is true if the container has several allocations of the device.
	several bool
	raw     string // the allocated id
	// from and until bound the pod's existence, in nanoseconds. They are set only for holdings in a
	// table.
	from, until int64
}

// At reports whether the holder's pod exists at time t, as far as is known.
func (h *Holding) At(t int64) bool { return h.from <= t && t < h.until }

// Compare orders holdings by container, then by allocation.
func (h Holding) Compare(o Holding) int {
	return cmp.Or(h.Holder.Compare(o.Holder), h.Allocation.Compare(o.Allocation), cmp.Compare(h.raw, o.raw))
}
