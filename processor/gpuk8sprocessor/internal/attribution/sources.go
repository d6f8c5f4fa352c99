package attribution

import (
	"cmp"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
)

// Sources contains the data that all sources except the telemetry provide at one time. The state of
// a source is Synced, Stale, or Off. A source is Stale if the source responded earlier but
// currently fails, and Off if the source does not respond. If a source is Stale, the holders in the
// source's last response stay valid. If the kubelet is Stale and the kubelet's last response
// contains no holder for a device, the device counts as free only until the grace period ends,
// because the device may have been allocated since that response. Stale claims never show that a
// device is free.
type Sources struct {
	// Listing is the kubelet's response.
	Listing Listing
	// Devices are the devices in the node's ResourceSlices. Devices in incomplete pools are
	// excluded.
	Devices map[DRADevice]SliceDevice
	// SlicesHidden is true if there could be more devices in incomplete pools or in slices that
	// were not read.
	SlicesHidden bool
	// ClaimsState is Off if ResourceClaims cannot be read.
	ClaimsState kube.Phase
	// Claims are the devices that are allocated to ResourceClaims.
	Claims []ClaimedDevice
	// Sharing is the gpu.sharing.strategy that the node's label specifies: time_slicing, mps, or
	// empty.
	Sharing string
	// HostType is the node's instance type. NodeLabels are the node's labels whose keys are
	// configured.
	HostType   string
	NodeLabels map[string]string
	// Instances are the GPU instances of MIG devices, as recorded in schedulers' annotations on
	// pods.
	Instances []Instance
	// PodsState is Off if pods cannot be read.
	PodsState kube.Phase
	// Pods are the pods on the node.
	Pods []Pod
}

// Listing is one response from the PodResources service.
type Listing struct {
	State kube.Phase
	// Time is the time at which the response arrived, in nanoseconds since the epoch.
	Time int64
	// Containers are the containers whose devices might be GPUs.
	Containers []ContainerResources
}

// ContainerResources contains the devices that the kubelet allocated to one container.
type ContainerResources struct {
	Namespace, Pod, Container string
	// Devices are the devices that a device plugin allocated. An ID with an unknown format can
	// refer to any device.
	Devices []catalogue.PluginID
	// Others are the devices that other vendors' device plugins allocated. An ID in Others matches
	// a device only if that device's hw.id in the telemetry is equal to the ID. IDs in Others never
	// match NVIDIA devices.
	Others []catalogue.PluginID
	// Claimed are the DRA devices that are allocated to the container.
	Claimed []ClaimedDevice
}

// DRADevice uniquely identifies a device of any DRA driver.
type DRADevice struct {
	Driver, Pool, Device string
}

// draDevice returns the driver, the pool, and the name of an allocated device.
func draDevice(a *gpudata.Allocation) DRADevice { return DRADevice{a.Driver, a.Pool, a.Device} }

// ClaimedDevice is a device that is allocated to a ResourceClaim.
type ClaimedDevice struct {
	// Namespace is the claim's namespace.
	Namespace string
	// Allocation contains the known fields of the allocation. For a subrequest, the request name
	// has the format "main/sub".
	gpudata.Allocation
	// Admin is true if the claim has administrative access, which means that the claim only
	// observes the device and does not hold it.
	Admin bool
	// ReservedFor are the pods that may use the device. ForOthers is true if unknown pods may also
	// use the device.
	ReservedFor []gpudata.Holder
	ForOthers   bool
}

// SliceDevice is a device that a DRA driver publishes in a ResourceSlice.
type SliceDevice struct {
	Kind, UUID, Parent, Profile string
	// Shared is true if the device can be allocated to several claims.
	Shared bool
}

// Pod is a pod on the node.
type Pod struct {
	Namespace, Name, UID string
	// Created is the creation time, in nanoseconds since the epoch.
	Created int64
	// Ended is true if all containers have ended and will not restart. After a pod has ended, the
	// pod holds no devices.
	Ended bool
	// Claims are the ResourceClaims of the pod's containers.
	Claims []kube.ContainerClaim
	// StaticUID is the UID that the kubelet uses for a static pod. The mirror pod in the API server
	// has a different UID. For all other pods, StaticUID is empty.
	StaticUID string
	// Owner contains what is known about the pod's owners.
	Owner gpudata.Owner
	// Containers are the containers that have started.
	Containers []PodContainer
	// Annotated is true if a scheduler's annotation assigns devices to the pod. Assigned contains
	// the devices in the annotation. The devices in the annotation replace the device plugin
	// devices that the kubelet lists for the pod. Unread is true if the annotation also contains
	// devices that could not be read.
	Annotated, Unread bool
	Assigned          []Assigned
	// Groups contains the names of pod groups. The pods in a group share the device of a
	// reservation pod. For an ordinary pod, Groups contains the groups that the pod belongs to, and
	// GroupContainer is the container that has the pod's shares. For a reservation pod, Groups
	// contains the group that shares the pod's device, and Reserved is the device that the pod
	// reports.
	Groups         []string
	GroupContainer string
	Reserved       catalogue.PluginID
	// Reservation is true if the pod has the labels of a reservation pod, regardless of the pod's
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
	// ID is the container ID from the container runtime, without the prefix that identifies the
	// runtime.
	ID string
}

// Instance is the GPU instance of a MIG device.
type Instance struct {
	MIGUUID, UUID, GPUInstance string
}

// Holding is a container that holds a device, with the details of the allocation.
type Holding struct {
	gpudata.Holder
	// Allocation is the zero value if a device plugin allocated the device.
	Allocation gpudata.Allocation
	// Replica is true if the container has one of several shares of the device.
	Replica bool
	// Replicas is the number of shares that the container has. Each share has a different ID.
	Replicas int

	// The several field is true if the container has several allocations of the device.
	several bool
	raw     string // raw is the device ID that was allocated.
	// The pod exists and has not ended in the interval [from, until), in nanoseconds since the
	// epoch. The from and until fields are set only for holdings in a Table.
	from, until int64
}

// At reports whether the holder's pod exists and has not ended at time t.
func (h *Holding) At(t int64) bool { return h.from <= t && t < h.until }

// Compare orders holdings by container, then by allocation.
func (h Holding) Compare(o Holding) int {
	return cmp.Or(h.Holder.Compare(o.Holder), h.Allocation.Compare(o.Allocation), cmp.Compare(h.raw, o.raw))
}
