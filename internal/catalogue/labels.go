package catalogue

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// Role is the meaning of a label.
type Role uint8

const (
	// NoRole labels have no known meaning: csv label fields, pod labels, values.
	NoRole Role = iota
	// RoleUUID is the GPU's UUID. Under MIG it is the parent's UUID.
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
	// RoleRelayedPod is the holding pod's name after a Prometheus without honor_labels renamed it
	// to exported_pod.
	RoleRelayedPod
	// RoleRelayedNamespace is the holding pod's namespace, renamed to exported_namespace.
	RoleRelayedNamespace
	// RoleRelayedContainer is the holding container's name, renamed to exported_container.
	RoleRelayedContainer
	// RoleRelayedPodUID is the holding pod's UID, renamed to exported_pod_uid.
	RoleRelayedPodUID
	// RoleVGPU numbers the replica of a time-sliced GPU.
	RoleVGPU
	// RoleXID is the code counted by the DCGM_EXP_XID_ERRORS fields.
	RoleXID
	// RoleClaim is the DRA ResourceClaim through which the row's device was allocated.
	RoleClaim
	// RoleDRADriver is the DRA driver of the row's device.
	RoleDRADriver
	// RoleDRAPool is the driver's pool that contains the device.
	RoleDRAPool
	// RoleDRADevice is the device's name in the pool.
	RoleDRADevice
	// RoleJob is the number of the batch job that holds the device.
	RoleJob
	// RoleJobUser is the user who started the batch job.
	RoleJobUser
	// RoleJobPartition is the scheduler's queue of the batch job.
	RoleJobPartition
	// RoleDriverVersion is the version of the NVIDIA driver.
	RoleDriverVersion
	// RoleSerial is the board's serial number.
	RoleSerial
	// RolePartition numbers a partition of a board.
	RolePartition
	// RoleIndex numbers the exporter's devices on its host.
	RoleIndex
	// RoleVendor is the manufacturer's name.
	RoleVendor
	// RoleSeries is the name of a model series, if there is no model name.
	RoleSeries
	// RoleCut distinguishes the fields that share a name.
	RoleCut
	// RolePart numbers a part of the device that the row measures.
	RolePart
	// RoleMIGUUID is the MIG-<uuid> of the row's MIG device.
	RoleMIGUUID
	// RoleOldPod is the holder's pod name under the exporter's alternative label names.
	RoleOldPod
	// RoleOldNamespace is the holder's namespace under the alternative label names.
	RoleOldNamespace
	// RoleOldContainer is the holder's container name under the alternative label names.
	RoleOldContainer
	// RolePID is the PID of a process on the host.
	RolePID
	// RoleOwn is the first of the roles that an exporter's package defines. Only that package reads
	// them.
	RoleOwn
)

// maxOwnRoles is the maximum number of roles that an exporter's package defines.
const maxOwnRoles = 4

// NumRoles is one more than the highest role.
const NumRoles = RoleOwn + maxOwnRoles

// labelName is one spelling of a label.
type labelName struct {
	role Role
	// order is the position among the spellings of the role; the exporter's own spelling is first.
	order uint8
	// mixed is true if the spelling has upper-case letters.
	mixed bool
}

// labelNames contains the labels of a table, as spelled and in lower case.
type labelNames struct{ exact, lower map[string]labelName }

func newLabelNames(labels map[Role][]string) labelNames {
	out := labelNames{map[string]labelName{}, map[string]labelName{}}
	for role, names := range labels {
		if role >= NumRoles {
			panic("catalogue: more roles than maxOwnRoles")
		}
		for i, name := range names {
			lower := strings.ToLower(name)
			l := labelName{role, uint8(i), lower != name}
			if _, twice := out.exact[name]; twice {
				panic("catalogue: two labels are named " + name)
			}
			out.exact[name] = l
			if before, twice := out.lower[lower]; !twice || l.order < before.order {
				out.lower[lower] = l
			}
		}
	}
	return out
}

// Row contains the labels of a row by role, in every spelling. Texts that mean "no value" are left
// empty.
type Row struct {
	of *Exporter
	// labels contains the labels in the exporter's own case. lowered contains labels in a different
	// case.
	labels, lowered [NumRoles]rowLabel
	// mixed is true if the row has a label with upper-case letters in the exporter's own case. Then
	// the labels were not converted to lower case, and a label in another case is not the
	// exporter's.
	mixed bool
	// job and instance are the labels that Prometheus adds to the rows of a target. The prometheus
	// receiver puts them on the Resource, as service.*.
	job, instance, service, receiverJob, receiverInstance string
}

// rowLabel is the label from which a row's text of a role was read.
type rowLabel struct {
	name, text string
	order      uint8
}

// before reports whether a label has precedence over another one of the same role. The order in the
// row only matters for labels with the same name.
func (l *rowLabel) before(other *rowLabel) bool {
	if l.order != other.order {
		return l.order < other.order
	}
	return l.name < other.name
}

// NewRow returns an empty row of an exporter.
func NewRow(of *Exporter) *Row { return &Row{of: of} }

// Of returns the exporter of the row.
func (r *Row) Of() *Exporter { return r.of }

// Set adds one label. If several spellings of a role have a value, the exporter's own is used,
// because the others may be labels that a user set on a pod.
func (r *Row) Set(name, value string) {
	switch name {
	case "job":
		r.job = value
	case "instance":
		r.instance = value
	case "service":
		r.service = value
	case "service.name":
		r.receiverJob = value
	case "service.instance.id":
		r.receiverInstance = value
	}
	spelled, exact := r.of.labels.exact[name]
	if !exact {
		var known bool
		if spelled, known = r.of.labels.lower[strings.ToLower(name)]; !known {
			return
		}
	}
	r.mixed = r.mixed || exact && spelled.mixed
	switch {
	case NoText(value), r.of.BlankText != nil && r.of.BlankText(spelled.role, value):
		return
	case spelled.role == RoleVGPU && !IsWhole(value):
		return // a pod's label
	}
	l, have := rowLabel{name, value, spelled.order}, &r.labels[spelled.role]
	if !exact {
		have = &r.lowered[spelled.role]
	}
	if have.text == "" || l.before(have) {
		*have = l
	}
}

// IsWhole reports whether a text is an integer without a sign.
func IsWhole(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool { return r < '0' || r > '9' })
}

// NoText reports whether the text of any label means "no value".
func NoText(text string) bool {
	text = strings.TrimSpace(text)
	return text == "" || strings.EqualFold(text, "N/A")
}

// Get returns the text of a role, or "" if the row does not have it.
func (r *Row) Get(role Role) string {
	exact, lowered := &r.labels[role], &r.lowered[role]
	if lowered.text != "" && !r.mixed && (exact.text == "" || lowered.order < exact.order) {
		return lowered.text
	}
	return exact.text
}

// Claimed reports whether the row names a DRA claim and the device that was allocated to it.
// Exporters print them together, so if only one of the labels exists, it belongs to a pod.
func (r *Row) Claimed() bool {
	for _, role := range [...]Role{RoleClaim, RoleDRADriver, RoleDRAPool, RoleDRADevice} {
		if r.Get(role) == "" {
			return false
		}
	}
	return true
}

// Holder is the holder in a row. It is a container of a pod. If the row has no pod, it is a container
// with a name or an ID. If the row has no container, it is a batch job.
type Holder = gpudata.Holder

var containerID = regexp.MustCompile(`^[0-9a-f]{64}$`)

// container returns the container in the labels. Without any label of a pod, the container label
// contains the container's id or its name.
func container(namespace, pod, uid, name string) Holder {
	switch {
	case namespace != "" || pod != "" || uid != "":
		return Holder{Namespace: namespace, Pod: pod, UID: uid, Container: name}
	case containerID.MatchString(name):
		return Holder{ID: name}
	}
	return Holder{Name: name}
}

// Relayed reports whether a Prometheus relayed the row and added the labels of the scrape target to
// those of the holder.
func (r *Row) Relayed() bool {
	_, relayed := r.named()
	return relayed
}

// Target returns the container in the row's plain labels. On a relayed row this is the scrape
// target. A relayed row has the target's plain labels even if the device has no holder.
func (r *Row) Target() Holder {
	return container(r.Get(RoleNamespace), r.Get(RolePod), r.Get(RolePodUID), r.Get(RoleContainer))
}

// named returns the container in the labels, and whether the plain labels belong to the scrape
// target.
func (r *Row) named() (h Holder, relayed bool) {
	plain := r.Target()
	if r.maybeRelayed() && r.Get(RoleRelayedPod) != "" {
		return Holder{}, false // each of the two pods could be the holder
	}
	if r.fromPrometheus() && (r.Get(RoleRelayedPod) != "" || r.Get(RoleRelayedContainer) != "") {
		return container(r.Get(RoleRelayedNamespace), r.Get(RoleRelayedPod), r.Get(RoleRelayedPodUID), r.Get(RoleRelayedContainer)), true
	}
	old := container(r.Get(RoleOldNamespace), r.Get(RoleOldPod), r.Get(RolePodUID), r.Get(RoleOldContainer))
	switch {
	case !names(old):
	case !names(plain):
		return old, false
	case r.oldNames() && old.Pod != "" && old.Namespace != "":
		return old, r.fromPrometheus()
	}
	return plain, false
}

// oldNames reports whether the exporter uses its old label names for holders, which is the case if
// it uses them for the device. If the two spellings of the device's label differ only in case, this
// cannot be determined for a row whose labels were converted to lower case.
func (r *Row) oldNames() bool {
	l := &r.labels[RoleUUID]
	return l.order > 0 && (r.mixed || !strings.EqualFold(l.name, r.of.Labels[RoleUUID][0]))
}

func names(h Holder) bool { return h.Pod != "" || h.Name != "" || h.ID != "" }

// Named returns the holder in the row. It does not check whether the holder is an exporter. A pod
// needs a namespace, and a job counts only if the row has no container.
func (r *Row) Named() (Holder, bool) {
	h, _ := r.named()
	if h.Pod != "" && h.Namespace != "" {
		return h, podName.MatchString(h.Pod) && podName.MatchString(h.Namespace)
	}
	if h.Name != "" || h.ID != "" {
		return h, true
	}
	job := r.Get(RoleJob)
	return Holder{Job: job}, job != "" && IsJobID(job)
}

// podName matches Kubernetes names. Exporters write other texts if several pods hold a device.
var podName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)

// MaxJobID is the maximum length of a batch job's id, in bytes. Schedulers' ids have about ten
// bytes.
const MaxJobID = 128

// IsJobID reports whether a text may be the id of a batch job, such as 4711, 4711_3, 4711+0 or
// 123[4].server.
func IsJobID(text string) bool {
	odd := func(r rune) bool { return r == utf8.RuneError || unicode.IsSpace(r) || !unicode.IsPrint(r) }
	return len(text) <= MaxJobID && !strings.ContainsFunc(text, odd)
}
