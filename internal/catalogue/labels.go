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
	// NoRole labels have no known role. Examples are pod labels and labels that are listed as
	// fields in the counters CSV file.
	NoRole Role = iota
	// RoleUUID is the GPU's UUID. In the row of a MIG instance, RoleUUID is the board's UUID.
	RoleUUID
	// RoleDevice is the device's name in the operating system.
	RoleDevice
	// RoleModel is the model name.
	RoleModel
	// RoleInstanceID is the NVML GPU instance ID of a MIG instance.
	RoleInstanceID
	// RoleInstanceProfile is the MIG profile of a MIG instance.
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
	// RoleRelayedPod is the holding pod's name after a Prometheus server without honor_labels
	// renamed the label to exported_pod.
	RoleRelayedPod
	// RoleRelayedNamespace is the holding pod's namespace in the renamed label exported_namespace.
	RoleRelayedNamespace
	// RoleRelayedContainer is the holding container's name in the renamed label exported_container.
	RoleRelayedContainer
	// RoleRelayedPodUID is the holding pod's UID in the renamed label exported_pod_uid.
	RoleRelayedPodUID
	// RoleVGPU is the replica number of a time-sliced GPU.
	RoleVGPU
	// RoleXID is the XID code that a DCGM_EXP_XID_ERRORS field counts.
	RoleXID
	// RoleClaim is the DRA ResourceClaim through which the row's device was allocated.
	RoleClaim
	// RoleDRADriver is the DRA driver of the row's device.
	RoleDRADriver
	// RoleDRAPool is the DRA driver's pool that contains the device.
	RoleDRAPool
	// RoleDRADevice is the device's name in the pool.
	RoleDRADevice
	// RoleJob is the ID of the batch job that holds the device.
	RoleJob
	// RoleJobUser is the user who started the batch job.
	RoleJobUser
	// RoleJobPartition is the scheduler queue that contains the batch job.
	RoleJobPartition
	// RoleDriverVersion is the version of the device's driver.
	RoleDriverVersion
	// RoleSerial is the board's serial number.
	RoleSerial
	// RolePartition is the index of a partition of a board.
	RolePartition
	// RoleIndex is the index of the device among the exporter's devices on its host.
	RoleIndex
	// RoleVendor is the manufacturer's name.
	RoleVendor
	// RoleSeries is the name of the model series. RoleSeries is used if there is no model name.
	RoleSeries
	// RoleCut distinguishes the fields that share a metric name.
	RoleCut
	// RolePart identifies the part of the device that the row measures.
	RolePart
	// RoleMIGUUID is the MIG-<uuid> of the row's MIG device.
	RoleMIGUUID
	// RoleOldPod is the holding pod's name in a label with an alternative name.
	RoleOldPod
	// RoleOldNamespace is the holding pod's namespace in a label with an alternative name.
	RoleOldNamespace
	// RoleOldContainer is the holding container's name in a label with an alternative name.
	RoleOldContainer
	// RolePID is the PID of a process on the host.
	RolePID
	// RoleOwn is the first role that an exporter's package may define for its own use.
	RoleOwn
)

// maxOwnRoles is the maximum number of roles that an exporter's package may define.
const maxOwnRoles = 4

// NumRoles is one more than the highest role.
const NumRoles = RoleOwn + maxOwnRoles

// labelName is one spelling of a label.
type labelName struct {
	role Role
	// order is the spelling's position among all spellings of the role. The exporter's own spelling
	// comes first.
	order uint8
	// mixed is true if the spelling has uppercase letters.
	mixed bool
}

// labelNames contains the labels of a table, indexed by exact spelling and by lowercase spelling.
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

// Row contains the labels of a row, indexed by role. Labels whose value means "no value" are
// omitted.
type Row struct {
	of *Exporter
	// The labels field contains the labels that have the exporter's capitalization. The lowered
	// field contains the labels that have a different capitalization.
	labels, lowered [NumRoles]rowLabel
	// mixed is true if the row has a label that contains uppercase letters and has the exporter's
	// capitalization. If mixed is true, no backend converted the labels to lowercase, and a label
	// with a different capitalization is not from the exporter.
	mixed bool
	// blank contains the roles whose label has a value that means "no value" and that a pod label
	// cannot have, such as <<<NULL>>>. These labels come from the exporter.
	blank [NumRoles]bool
	// The following fields contain the labels that Prometheus adds to the rows of a scrape target.
	// The Prometheus receiver stores the job and instance labels as service.* attributes of the
	// Resource.
	job, instance, service, receiverJob, receiverInstance string
}

// rowLabel is a row's label for a specific role.
type rowLabel struct {
	name, text string
	order      uint8
}

// The before method reports whether a label has precedence over another label with the same role.
// If both labels have the same name, the label that comes first in the row has precedence.
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

// Set adds one label. If a role has a value in several spellings, the exporter's own spelling is
// used, because labels with other spellings may be pod labels that a user set.
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
		r.blank[spelled.role] = r.blank[spelled.role] || value != "" && !podLabelValue.MatchString(value)
		return
	case spelled.role == RoleVGPU && !IsUnsignedInteger(value):
		return // a pod label
	}
	l, have := rowLabel{name, value, spelled.order}, &r.labels[spelled.role]
	if !exact {
		have = &r.lowered[spelled.role]
	}
	if have.text == "" || l.before(have) {
		*have = l
	}
}

// podLabelValue matches the nonempty values that a label of a pod can have.
var podLabelValue = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)

// Blank reports whether the exporter exposed the label with the given role without a value. For
// values that may come from a pod label, Blank returns false.
func (r *Row) Blank(role Role) bool { return r.blank[role] && r.Get(role) == "" }

// IsUnsignedInteger reports whether text consists only of decimal digits.
func IsUnsignedInteger(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool { return r < '0' || r > '9' })
}

// NoText reports whether a label value means "no value", regardless of the label's role.
func NoText(text string) bool {
	text = strings.TrimSpace(text)
	return text == "" || strings.EqualFold(text, "N/A")
}

// Get returns the value of the label with the given role, or "" if the row has no such label.
func (r *Row) Get(role Role) string {
	exact, lowered := &r.labels[role], &r.lowered[role]
	if lowered.text != "" && !r.mixed && (exact.text == "" || lowered.order < exact.order) {
		return lowered.text
	}
	return exact.text
}

// Claimed reports whether the row names a DRA claim and the device that was allocated to it.
// Exporters always expose all four DRA labels together. If a row has only some of the DRA labels,
// they come from pod labels.
func (r *Row) Claimed() bool {
	for _, role := range [...]Role{RoleClaim, RoleDRADriver, RoleDRAPool, RoleDRADevice} {
		if r.Get(role) == "" {
			return false
		}
	}
	return true
}

// Holder is the holder that a row names. If the row names a pod, the holder is a container of the
// pod. If the row names no pod, the holder is a container with a name or an ID. If the row names no
// container, the holder is a batch job.
type Holder = gpudata.Holder

var containerID = regexp.MustCompile(`^[0-9a-f]{64}$`)

// container returns the container that the labels describe. If no label describes a pod, the
// container label contains the container's ID or name.
func container(namespace, pod, uid, name string) Holder {
	switch {
	case namespace != "" || pod != "" || uid != "":
		return Holder{Namespace: namespace, Pod: pod, UID: uid, Container: name}
	case containerID.MatchString(name):
		return Holder{ID: name}
	}
	return Holder{Name: name}
}

// Relayed reports whether the row comes from a Prometheus server and has the scrape target's labels
// in addition to the holder's labels.
func (r *Row) Relayed() bool {
	_, relayed := r.named()
	return relayed
}

// Target returns the container that the labels without the prefix exported_ describe. In a relayed
// row, the result is the scrape target.
func (r *Row) Target() Holder {
	return container(r.Get(RoleNamespace), r.Get(RolePod), r.Get(RolePodUID), r.Get(RoleContainer))
}

// named returns the container that holds the device according to the row, and whether the labels
// without the prefix exported_ describe the scrape target.
func (r *Row) named() (h Holder, relayed bool) {
	plain := r.Target()
	if r.maybeRelayed() && r.Get(RoleRelayedPod) != "" {
		return Holder{}, false // either pod could be the holder
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

// oldNames reports whether the exporter uses its old label names for holders. The exporter uses the
// old label names for holders if it also uses the old name for the device label. If the old and new
// names of the device label differ only in case, oldNames returns false for a row whose labels were
// converted to lowercase.
func (r *Row) oldNames() bool {
	l := &r.labels[RoleUUID]
	return l.order > 0 && (r.mixed || !strings.EqualFold(l.name, r.of.Labels[RoleUUID][0]))
}

func names(h Holder) bool { return h.Pod != "" || h.Name != "" || h.ID != "" }

// Named returns the holder that the row names. Named does not check whether the holder is an
// exporter. Named returns a pod only if the pod's namespace is known, and a job only if the row
// names no container.
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

// podName matches Kubernetes names. If several pods hold a device, exporters expose a value that
// podName does not match.
var podName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)

// MaxJobID is the maximum length of a batch job's ID, in bytes. Common schedulers use IDs of about
// ten bytes.
const MaxJobID = 128

// IsJobID reports whether text may be the ID of a batch job, such as 4711, 4711_3, 4711+0, or
// 123[4].server.
func IsJobID(text string) bool {
	odd := func(r rune) bool { return r == utf8.RuneError || unicode.IsSpace(r) || !unicode.IsPrint(r) }
	return len(text) <= MaxJobID && !strings.ContainsFunc(text, odd)
}
