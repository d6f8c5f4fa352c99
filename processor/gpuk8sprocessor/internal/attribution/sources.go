package attribution

import (
	"cmp"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// State is how far a source can be trusted.
type State uint8

const (
	// Off sources give no answer: they are switched off, absent, or may not be read.
	Off State = iota
	// Old sources answered before and fail now. The holders that they named stay, but a device
	// without a holder may have one by now. The kubelet's "no holder" is believed for the grace.
	Old
	// Current sources answered the last request.
	Current
)

// Source is who named the holders of a device, as gpu.holder.source has it.
type Source string

const (
	// None means that no source knows the device.
	None Source = ""
	// PodResources is the kubelet's PodResources service.
	PodResources Source = signal.HolderSourcePodResources
	// DRA is the API server's ResourceClaims.
	DRA Source = signal.HolderSourceDRA
	// Labels are pod labels on the exporter's rows.
	Labels Source = signal.HolderSourceLabels
	// Processes are containers that were seen to use the device.
	Processes Source = signal.HolderSourceProcesses
)

// Sources are the answers of all sources outside the telemetry at one time.
type Sources struct {
	// Listing is the kubelet's answer.
	Listing Listing
	// Slices are the ResourceSlices of the node, of every pool and generation.
	Slices []Slice
	// SlicesHidden says that there may be more that cannot be read, or not yet.
	SlicesHidden bool
	// ClaimsState is Off when ResourceClaims may not be read.
	ClaimsState State
	// Claims are the allocated ResourceClaims.
	Claims []Claim
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
	PodsState State
	// Pods are the pods of the node.
	Pods []Pod
}

// Listing is one answer of the PodResources service.
type Listing struct {
	State State
	// Time is when the answer came, in nanoseconds since the epoch.
	Time int64
	// Containers are those that hold a device of interest.
	Containers []ContainerResources
}

// ContainerResources are the devices that the kubelet gave to one container.
type ContainerResources struct {
	Namespace, Pod, Container string
	// Devices came from a device plugin.
	Devices []catalogue.PluginID
	// Claimed came from a DRA driver.
	Claimed []ClaimedDevice
}

// DRADevice names a device among all DRA drivers'.
type DRADevice struct {
	Driver, Pool, Device string
}

// allocation returns the attributes of an allocation that follow from the device's name.
func (d DRADevice) allocation() gpudata.Allocation {
	return gpudata.Allocation{Driver: d.Driver, Pool: d.Pool, Device: d.Device}
}

// draDevice returns how the driver of an allocated device calls it.
func draDevice(a *gpudata.Allocation) DRADevice { return DRADevice{a.Driver, a.Pool, a.Device} }

// ClaimedDevice is a device that a ResourceClaim gave to a container.
type ClaimedDevice struct {
	Namespace, Claim string
	DRADevice
	ShareID string
}

// Slice is one ResourceSlice.
type Slice struct {
	Driver, Pool string
	// Generation is the pool's, Count the number of slices that make it complete.
	Generation, Count int64
	Devices           []SliceDevice
}

// SliceDevice is one device of a slice.
type SliceDevice struct {
	Name string
	// Attributes holds those of type string, by the name that the driver gave.
	Attributes map[string]string
}

// Claim is an allocated ResourceClaim.
type Claim struct {
	Namespace, Name, UID string
	// Results are the allocated devices.
	Results []ClaimResult
	// ReservedFor holds the UIDs of the pods that may use them.
	ReservedFor []PodRef
}

// ClaimResult is one allocated device of a claim.
type ClaimResult struct {
	DRADevice
	// Request is the request's name, with a subrequest "main/sub".
	Request, ShareID string
	// Class is the DeviceClass of the request; empty when not known.
	Class string
	// Admin allocations look at a device and do not hold it.
	Admin bool
}

// PodRef names a pod.
type PodRef struct {
	Name, UID string
}

// Pod is a pod of the node.
type Pod struct {
	Namespace, Name, UID string
	// Created is in nanoseconds since the epoch.
	Created int64
	// Ended says that all containers ended and will not restart; such a pod holds nothing.
	Ended bool
	// Claims says which containers use which ResourceClaim.
	Claims []PodClaim
	// StaticUID is the UID by which the kubelet calls a static pod, whose mirror at
	// the API server has another; empty for all other pods.
	StaticUID string
	// Owner is what is known of who made the pod.
	Owner gpudata.Owner
	// Containers are those that were started.
	Containers []PodContainer
}

// PodContainer is a container of a pod.
type PodContainer struct {
	Name string
	// ID is the container runtime's, without the runtime's name.
	ID string
}

// PodClaim is a container's use of a ResourceClaim.
type PodClaim struct {
	Container, Claim string
	// Request is the one request that the container uses; empty is all.
	Request string
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
