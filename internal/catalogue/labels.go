package catalogue

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// Role is what a label of a row tells.
type Role uint8

const (
	// NoRole labels are none of ours: csv label fields, pod labels, values.
	NoRole Role = iota
	// RoleUUID is the GPU's UUID; under MIG the parent's.
	RoleUUID
	// RoleDevice is the operating system's device name.
	RoleDevice
	// RoleModel is the model name.
	RoleModel
	// RoleInstanceID is the NVML GPU instance id of a MIG row.
	RoleInstanceID
	// RoleInstanceProfile is the MIG profile of a MIG row.
	RoleInstanceProfile
	// RoleHost is the node's name.
	RoleHost
	// RolePod is the holding pod's name.
	RolePod
	// RoleNamespace is the holding pod's namespace.
	RoleNamespace
	// RoleContainer is the holding container's name.
	RoleContainer
	// RolePodUID is the holding pod's UID.
	RolePodUID
	// RoleRelayedPod is the holding pod's name after a Prometheus without
	// honor_labels moved it out of the way of its own labels.
	RoleRelayedPod
	// RoleRelayedNamespace is the holding pod's namespace, moved likewise.
	RoleRelayedNamespace
	// RoleRelayedContainer is the holding container's name, moved likewise.
	RoleRelayedContainer
	// RoleRelayedPodUID is the holding pod's UID, moved likewise.
	RoleRelayedPodUID
	// RoleVGPU numbers the replica of a time-sliced GPU.
	RoleVGPU
	// RoleXID is the code counted by the DCGM_EXP_XID_ERRORS fields.
	RoleXID
	// RoleLink numbers an NVLink: the row is not about a GPU as a whole.
	RoleLink
	// RoleSwitch numbers an NVSwitch.
	RoleSwitch
	// RoleCPU numbers a CPU or a core of one.
	RoleCPU
	// RoleClaim is the DRA ResourceClaim that the row's device was allocated by.
	RoleClaim
	// RoleDRADriver is the DRA driver of that device.
	RoleDRADriver
	// RoleDRAPool is the driver's pool of that device.
	RoleDRAPool
	// RoleDRADevice is that device's name in the pool.
	RoleDRADevice
	// RoleJob is the number of the batch job that holds the device.
	RoleJob
	// RoleJobUser is who started that job.
	RoleJobUser
	// RoleJobPartition is the scheduler's queue of that job.
	RoleJobPartition
	// RoleDriverVersion is the version of the NVIDIA driver.
	RoleDriverVersion
	// RoleSerial is the board's serial number.
	RoleSerial
	// RolePartition numbers a partition of a board.
	RolePartition
	// RolePartitioning is the way in which the board is partitioned.
	RolePartitioning
	// RoleIndex numbers the exporter's devices on its host.
	RoleIndex
	// RoleVendor is the manufacturer's name.
	RoleVendor
	// RoleSeries is the name of a series of models, where the model has none.
	RoleSeries
	// RoleCut tells apart the fields that share a name.
	RoleCut
	// RolePart numbers a part of the device that the row measures.
	RolePart
	// RoleDomain is what a clock drives.
	RoleDomain
	// RoleAggregation is how the values of an interval became one.
	RoleAggregation
	// RoleMachine is the type of the machine that the device is in.
	RoleMachine
	// RoleMIGUUID is the MIG-<uuid> of that device.
	RoleMIGUUID
	// NumRoles is one more than the highest role.
	NumRoles
)

// Row is what a row's labels say, in every spelling, with "no value" texts
// left empty.
type Row struct {
	of   *Exporter
	text [NumRoles]string
}

// NewRow returns an empty row of an exporter.
func NewRow(of *Exporter) *Row { return &Row{of: of} }

// Of returns the exporter whose row it is.
func (r *Row) Of() *Exporter { return r.of }

// Set takes one label. The first of several spellings of one role that has a
// value wins; exporters never use two.
func (r *Row) Set(name, value string) {
	role := r.of.Labels[name]
	if role == NoRole || r.text[role] != "" || NoText(value) || r.of.BlankText != nil && r.of.BlankText(role, value) {
		return
	}
	r.text[role] = value
}

// NoText reports whether a label's text stands for "no value", whatever it is a label of.
func NoText(text string) bool {
	text = strings.TrimSpace(text)
	return text == "" || strings.EqualFold(text, "N/A")
}

// Get returns the text of a role; empty when the row does not say.
func (r *Row) Get(role Role) string { return r.text[role] }

// Holder is who a row names: a container of a pod, or without a pod a container by
// its name or id, or a batch job where the row names no container.
type Holder = gpudata.Holder

var containerID = regexp.MustCompile(`^[0-9a-f]{64}$`)

// container returns the container that labels name. Without anything of a pod the label of the
// container has its id or its name.
func container(namespace, pod, uid, name string) Holder {
	switch {
	case namespace != "" || pod != "" || uid != "":
		return Holder{Namespace: namespace, Pod: pod, UID: uid, Container: name}
	case containerID.MatchString(name):
		return Holder{ID: name}
	}
	return Holder{Name: name}
}

// Relayed reports whether a Prometheus stands between the exporter and us and
// moved the holder's labels away, so that the plain ones are the scrape
// target's.
func (r *Row) Relayed() bool {
	return r.text[RoleRelayedPod] != "" || r.text[RoleRelayedContainer] != ""
}

// Plain returns the container that the row's plain labels name: the holder, or the scrape target
// when the row is relayed. A relayed scrape has the target's plain labels even on a GPU that
// nobody holds: compare with the Plain of relayed rows. It reports false when the plain labels
// name no container.
func (r *Row) Plain() (Holder, bool) {
	h := container(r.text[RoleNamespace], r.text[RolePod], r.text[RolePodUID], r.text[RoleContainer])
	return h, h.Pod != "" || h.Name != "" || h.ID != ""
}

// Named returns who the row names, whatever it is called. A pod is one only with its
// namespace, and a job holds what no container does.
func (r *Row) Named() (Holder, bool) {
	h, _ := r.Plain()
	if r.Relayed() {
		h = container(r.text[RoleRelayedNamespace], r.text[RoleRelayedPod], r.text[RoleRelayedPodUID], r.text[RoleRelayedContainer])
	}
	if h.Pod != "" && h.Namespace != "" {
		return h, podName.MatchString(h.Pod) && podName.MatchString(h.Namespace)
	}
	if h.Name != "" || h.ID != "" {
		return h, true
	}
	job := r.text[RoleJob]
	return Holder{Job: job}, job != "" && IsJobID(job)
}

// podName matches what Kubernetes takes for a name. Exporters write other texts where several
// pods hold a device.
var podName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)

// MaxJobID is the length of the longest id of a batch job in bytes. Those of schedulers have
// some ten.
const MaxJobID = 128

// IsJobID reports whether a text may be the id of a batch job: 4711, 4711_3, 4711+0,
// 123[4].server.
func IsJobID(text string) bool {
	odd := func(r rune) bool { return r == utf8.RuneError || unicode.IsSpace(r) || !unicode.IsPrint(r) }
	return len(text) <= MaxJobID && !strings.ContainsFunc(text, odd)
}
