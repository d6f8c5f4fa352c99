package attribution

import (
	"cmp"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
)

// Sources are the answers of all sources outside the telemetry at one time. The state of a source is
// Off where it gives no answer, Stale where it answered before and fails now, or Synced. The holders
// that a stale one named stay, but a device without a holder may have one by now: the kubelet's "no
// holder" is believed for the grace.
type Sources struct {
	// Listing is the kubelet's answer.
	Listing Listing
	// Devices are those that the ResourceSlices of the node's whole pools list.
	Devices map[DRADevice]SliceDevice
	// SlicesHidden says that there may be more, in half a pool or in slices that cannot be read, or
	// not yet.
	SlicesHidden bool
	// ClaimsState is Off when ResourceClaims may not be read.
	ClaimsState kube.Phase
	// Claims are the devices that ResourceClaims were given.
	Claims []ClaimedDevice
	// Sharing is gpu.sharing.strategy as the node's label tells it: time_slicing,
	// mps or empty.
	Sharing string
	// HostType is the node's instance type, and NodeLabels are those of its labels that are
	// wanted.
	HostType   string
	NodeLabels map[string]string
	// Instances tells which MIG devices are which GPU instances, where
	// somebody wrote it down.
	Instances []Instance
	// PodsState is Off when pods may not be read.
	PodsState kube.Phase
	// Pods are the pods of the node.
	Pods []Pod
}

// Listing is one answer of the PodResources service.
type Listing struct {
	State kube.Phase
	// Time is when the answer came, in nanoseconds since the epoch.
	Time int64
	// Containers are those that hold a device of interest.
	Containers []ContainerResources
}

// ContainerResources are the devices that the kubelet gave to one container.
type ContainerResources struct {
	Namespace, Pod, Container string
	// Devices are allocated by a device plugin. An id in an unknown form may mean any device.
	Devices []catalogue.PluginID
	// Others are allocated by another vendor's device plugin. Each is the device whose hw.id it is,
	// if telemetry shows one, else none of NVIDIA's.
	Others []catalogue.PluginID
	// Claimed came from a DRA driver.
	Claimed []ClaimedDevice
}

// DRADevice names a device among all DRA drivers'.
type DRADevice struct {
	Driver, Pool, Device string
}

// draDevice returns how the driver of an allocated device calls it.
func draDevice(a *gpudata.Allocation) DRADevice { return DRADevice{a.Driver, a.Pool, a.Device} }

// ClaimedDevice is a device that a ResourceClaim was given.
type ClaimedDevice struct {
	// Namespace is the claim's.
	Namespace string
	// Allocation is as far as it is known. Its request has a subrequest as "main/sub".
	gpudata.Allocation
	// Admin allocations look at a device and do not hold it.
	Admin bool
	// ReservedFor are the pods that may use the device. ForOthers is true if there are further
	// pods, which are unknown.
	ReservedFor []gpudata.Holder
	ForOthers   bool
}

// SliceDevice is a device as its driver describes it in a slice.
type SliceDevice struct {
	Kind, UUID, Parent, Profile string
	// Shared says that several claims can be given the device.
	Shared bool
}

// Pod is a pod of the node.
type Pod struct {
	Namespace, Name, UID string
	// Created is in nanoseconds since the epoch.
	Created int64
	// Ended says that all containers ended and will not restart; such a pod holds nothing.
	Ended bool
	// Claims says which containers use which ResourceClaim.
	Claims []kube.ContainerClaim
	// StaticUID is the UID by which the kubelet calls a static pod, whose mirror at
	// the API server has another; empty for all other pods.
	StaticUID string
	// Owner is what is known of who made the pod.
	Owner gpudata.Owner
	// Containers are those that were started.
	Containers []PodContainer
	// Annotated is true if a scheduler's annotation assigns devices to the pod; they are in
	// Assigned. They replace what the kubelet lists for the pod. Unread is true if the annotation
	// assigns further devices that could not be read.
	Annotated, Unread bool
	Assigned          []Assigned
	// Groups are the groups through which a scheduler shares a device that a reservation pod
	// allocates. For a pod, they are its own groups, and GroupContainer has the shares. For a
	// reservation pod, it is the group that it serves, and Reserved is the device that it reports.
	Groups         []string
	GroupContainer string
	Reserved       catalogue.PluginID
	// Reservation is true if the pod's labels are those of a reservation pod, whatever its namespace.
	Reservation bool
}

// Assigned is a device that a scheduler's annotation gives to a pod.
type Assigned struct {
	catalogue.PluginID
	// Container is empty if the annotation applies to the pod.
	Container string
}

// PodContainer is a container of a pod.
type PodContainer struct {
	Name string
	// ID is the container runtime's, without the runtime's name.
	ID string
}

// Instance says which GPU instance a MIG device is.
type Instance struct {
	MIGUUID, UUID, GPUInstance string
}

// Holding is a container that holds a device, and how.
type Holding struct {
	gpudata.Holder
	// Allocation is zero for devices of device plugins.
	Allocation gpudata.Allocation
	// Replica says that the container has one of several shares of the device.
	Replica bool
	// Replicas is how many of these, each with another id.
	Replicas int

	// several says that the container has the device by more than one allocation.
	several bool
	raw     string // the id that it was given
	// from and until bound the pod's existence, both in nanoseconds. They count for
	// holdings in a table only.
	from, until int64
}

// At reports whether the holder's pod exists at a time, as far as that is known.
func (h *Holding) At(t int64) bool { return h.from <= t && t < h.until }

// Compare orders holdings by container, then by allocation.
func (h Holding) Compare(o Holding) int {
	return cmp.Or(h.Holder.Compare(o.Holder), h.Allocation.Compare(o.Allocation), cmp.Compare(h.raw, o.raw))
}
