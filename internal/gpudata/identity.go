package gpudata

import (
	"cmp"
	"strings"
	"unique"
)

// Place is a node. The same device ID can identify different devices in different places.
type Place struct {
	// Cluster is k8s.cluster.name, or "" if it is not configured.
	Cluster string
	// Node is k8s.node.name, or host.name if there is no node name.
	Node string
}

// Clone returns a copy of the place that does not reference a batch's memory.
func (p Place) Clone() Place { return Place{strings.Clone(p.Cluster), strings.Clone(p.Node)} }

// Compare orders places.
func (p Place) Compare(o Place) int {
	return cmp.Or(strings.Compare(p.Cluster, o.Cluster), strings.Compare(p.Node, o.Node))
}

// Device identifies a board or an instance. A Device is comparable and one machine word long. Equal
// devices have equal handles throughout the process.
type Device struct{ handle unique.Handle[deviceIdentity] }

type deviceIdentity struct {
	place Place
	id    string
}

// NewDevice returns the device with the given place and hw.id.
func NewDevice(p Place, id string) Device {
	return Device{unique.Make(deviceIdentity{p, id})}
}

// ID returns the hw.id.
func (d Device) ID() string { return d.handle.Value().id }

// Place returns the device's place.
func (d Device) Place() Place { return d.handle.Value().place }

// Description contains the attributes of a device that are not part of its identity. If a value is
// unknown, its field is empty. A Description is never used as a key, because it may change from
// frame to frame.
type Description struct {
	// Parent is the hw.id of an instance's board. Parent is "" for a board.
	Parent string
	// Name is the device's name in the operating system, such as nvidia0. Model is the exposed
	// model name.
	Name, Model, Vendor string
	// Serial is the board's serial number. Driver is the driver version.
	Serial, Driver string
	// For a MIG instance, Profile, Instance, and MIGUUID are gpu.mig.profile,
	// gpu.mig.gpu_instance.id, and gpu.mig.uuid. For other devices, Profile, Instance, and MIGUUID
	// are empty.
	Profile, Instance, MIGUUID string
	// Partitions is gpu.partition.count, the number of partitions of the board. Partitions is set
	// only for partitions.
	Partitions string
	// Allocation is the allocation in the attributes of the device's own series.
	Allocation Allocation
}

// Allocation describes the ResourceClaim through which a device is held.
type Allocation struct {
	Claim, ClaimUID, Class        string
	Driver, Pool, Device, Request string
	ShareID                       string
}

// Complete copies values from o to the empty fields of d. From the allocation, Complete copies only
// the DRA driver, pool, and device. Complete does not copy the claim, because each holder may have
// a different claim.
func (d *Description) Complete(o *Description) {
	d.Parent = cmp.Or(d.Parent, o.Parent)
	d.Name = cmp.Or(d.Name, o.Name)
	d.Model = cmp.Or(d.Model, o.Model)
	d.Vendor = cmp.Or(d.Vendor, o.Vendor)
	d.Serial = cmp.Or(d.Serial, o.Serial)
	d.Driver = cmp.Or(d.Driver, o.Driver)
	d.Profile = cmp.Or(d.Profile, o.Profile)
	d.Instance = cmp.Or(d.Instance, o.Instance)
	d.MIGUUID = cmp.Or(d.MIGUUID, o.MIGUUID)
	d.Partitions = cmp.Or(d.Partitions, o.Partitions)
	d.Allocation.complete(&o.Allocation)
}

// complete copies the DRA driver, pool, and device from another allocation if the device is
// unknown.
func (a *Allocation) complete(o *Allocation) {
	if a.Device == "" {
		a.Driver, a.Pool, a.Device = o.Driver, o.Pool, o.Device
	}
}

// Compare orders allocations by claim, request, and share.
func (a Allocation) Compare(o Allocation) int {
	return cmp.Or(strings.Compare(a.Claim, o.Claim), strings.Compare(a.Request, o.Request), strings.Compare(a.ShareID, o.ShareID))
}

// Holder is the holder of a device: a container in a pod, a pod with an unknown container, a
// container outside Kubernetes, or a batch job.
type Holder struct {
	// Namespace, Pod, and Container identify a container in a pod. UID is the pod's UID, or "" if
	// the UID is unknown.
	Namespace string `json:"namespace,omitempty"`
	Pod       string `json:"pod,omitempty"`
	UID       string `json:"uid,omitempty"`
	Container string `json:"container,omitempty"`
	// Name and ID identify a container outside Kubernetes: container.name and container.id.
	Name string `json:"name,omitempty"`
	ID   string `json:"id,omitempty"`
	// Job is hpc.job.id.
	Job string `json:"job,omitempty"`
}

// IsZero reports whether h is the zero Holder, which means that there is no holder.
func (h Holder) IsZero() bool { return h == Holder{} }

// Clone returns a copy of the holder that does not reference a batch's memory.
func (h Holder) Clone() Holder {
	return Holder{
		Namespace: strings.Clone(h.Namespace), Pod: strings.Clone(h.Pod), UID: strings.Clone(h.UID), Container: strings.Clone(h.Container),
		Name: strings.Clone(h.Name), ID: strings.Clone(h.ID), Job: strings.Clone(h.Job),
	}
}

// InPod reports whether the holder is in a pod.
func (h Holder) InPod() bool { return h.Pod != "" || h.UID != "" }

func (h Holder) is(o Holder) bool { return h == o }

// Same reports whether h and o are the same holder. An unknown UID matches any UID of a pod with
// the same name. Batch jobs are compared only by job ID. Other containers outside Kubernetes are
// compared by ID, or by name if either ID is unknown.
func (h Holder) Same(o Holder) bool {
	alike := func(a, b string) bool { return a == b || a == "" || b == "" }
	switch {
	case h.InPod() != o.InPod():
		return false
	case h.InPod():
		return h.Namespace == o.Namespace && h.Pod == o.Pod && h.Container == o.Container && alike(h.UID, o.UID)
	case h.Job != "" || o.Job != "":
		return h.Job == o.Job
	case h.ID != "" && o.ID != "":
		return h.ID == o.ID
	default:
		return h.Name == o.Name && alike(h.ID, o.ID)
	}
}

// MayBeSame reports whether h and o may be the same holder, given that either might be incomplete.
// For a process, often only the pod's UID is known, or the pod is known but the container is not.
// Some exporters omit the namespace.
func (h Holder) MayBeSame(o Holder) bool {
	if !h.InPod() || !o.InPod() {
		return !h.IsZero() && h.Same(o)
	}
	switch {
	case h.UID != "" && o.UID != "":
		if h.UID != o.UID {
			return false
		}
	case h.Pod == "" || h.Pod != o.Pod || h.Namespace != o.Namespace && h.Namespace != "" && o.Namespace != "":
		return false
	}
	return h.Container == "" || o.Container == "" || h.Container == o.Container
}

// PartOf reports whether o has all attributes of h, with the same values. If h is the zero Holder,
// the result is false.
func (h Holder) PartOf(o Holder) bool {
	part := func(a, b string) bool { return a == "" || a == b }
	return !h.IsZero() &&
		part(h.Namespace, o.Namespace) && part(h.Pod, o.Pod) && part(h.UID, o.UID) && part(h.Container, o.Container) &&
		part(h.Name, o.Name) && part(h.ID, o.ID) && part(h.Job, o.Job)
}

// Compare orders holders in pods by pod, container, and UID, and other holders by job, name, and
// ID.
func (h Holder) Compare(o Holder) int {
	return cmp.Or(
		strings.Compare(h.Namespace, o.Namespace), strings.Compare(h.Pod, o.Pod), strings.Compare(h.Container, o.Container),
		strings.Compare(h.UID, o.UID), strings.Compare(h.Job, o.Job), strings.Compare(h.Name, o.Name), strings.Compare(h.ID, o.ID),
	)
}
