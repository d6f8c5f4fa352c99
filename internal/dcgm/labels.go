package dcgm

import (
	"regexp"
	"slices"
	"strings"
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
	// RoleDriverVersion is the version of the NVIDIA driver.
	RoleDriverVersion
	// RoleSerial is the board's serial number.
	RoleSerial
	// RoleMIGUUID is the MIG-<uuid> of that device.
	RoleMIGUUID
	// NumRoles is one more than the highest role.
	NumRoles
)

// roles holds every spelling: the current one, --use-old-namespace
// (uuid, pod_name, …), LINK rows (gpu_uuid, model_name, hostname) and 4.8.3
// (hostname).
var roles = map[string]Role{
	"UUID": RoleUUID, "uuid": RoleUUID, "gpu_uuid": RoleUUID,
	"device":    RoleDevice,
	"modelName": RoleModel, "model_name": RoleModel,
	"GPU_I_ID": RoleInstanceID, "GPU_I_PROFILE": RoleInstanceProfile,
	"Hostname": RoleHost, "hostname": RoleHost,
	"pod": RolePod, "pod_name": RolePod,
	"namespace": RoleNamespace, "pod_namespace": RoleNamespace,
	"container": RoleContainer, "container_name": RoleContainer,
	"pod_uid": RolePodUID, "uid": RolePodUID,
	"exported_pod": RoleRelayedPod, "exported_pod_name": RoleRelayedPod,
	"exported_namespace": RoleRelayedNamespace, "exported_pod_namespace": RoleRelayedNamespace,
	"exported_container": RoleRelayedContainer, "exported_container_name": RoleRelayedContainer,
	"exported_pod_uid": RoleRelayedPodUID, "exported_uid": RoleRelayedPodUID,
	"hpc_job":                       RoleJob,
	"DCGM_FI_DRIVER_VERSION":        RoleDriverVersion,
	"DCGM_FI_SYSTEM_DRIVER_VERSION": RoleDriverVersion,
	"DCGM_FI_DEV_SERIAL":            RoleSerial,
	"DCGM_FI_DEV_BOARD_SERIAL":      RoleSerial,

	"vgpu":   RoleVGPU,
	"xid":    RoleXID,
	"nvlink": RoleLink, "nvswitch": RoleSwitch,
	"cpu": RoleCPU, "cpucore": RoleCPU,
	"dra_claim_name": RoleClaim, "dra_driver_name": RoleDRADriver, "dra_pool_name": RoleDRAPool,
	"dra_device_name": RoleDRADevice, "dra_mig_device_uuid": RoleMIGUUID,
}

// LabelRole returns what a label tells.
func LabelRole(name string) Role { return roles[name] }

// Row is what a row's labels say, in every spelling, with "no value" texts
// left empty.
type Row struct {
	text [NumRoles]string
}

// Set takes one label. The first of several spellings of one role that has a
// value wins; exporters never use two.
func (r *Row) Set(name, value string) {
	role := roles[name]
	if role == NoRole || BlankText(value) || r.text[role] != "" {
		return
	}
	r.text[role] = value
}

// Get returns the text of a role; empty when the row does not say.
func (r *Row) Get(role Role) string { return r.text[role] }

// IsGPU reports whether the row is about one GPU or MIG instance as a whole.
func (r *Row) IsGPU() bool {
	return r.text[RoleUUID] != "" && r.text[RoleLink] == "" && r.text[RoleSwitch] == "" && r.text[RoleCPU] == ""
}

// IsNVIDIA reports whether the row's labels look like NVIDIA's: other vendors'
// exporters use DCGM's metric names too. A UUID begins with GPU- or MIG-; where it
// does not, the model has to be one of NVIDIA's.
func (r *Row) IsNVIDIA() bool {
	model := FoldModel(r.text[RoleModel])
	uuid := r.text[RoleUUID]
	switch {
	case hasWord(model, otherVendors):
		return false
	case strings.HasPrefix(uuid, "GPU-"), strings.HasPrefix(uuid, "MIG-"):
		return true
	}
	_, migs := ModelSlices(model)
	return migs || LookupModel(model) != (Model{}) || hasWord(model, brands)
}

// otherVendors are words of the names of boards that are not NVIDIA's, brands of
// those that are.
var (
	otherVendors = []string{"mtt", "moore", "amd", "instinct", "radeon", "intel", "ascend", "metax", "hygon", "iluvatar"}
	brands       = []string{"nvidia", "tesla", "quadro", "geforce", "rtx", "gtx", "titan", "grid"}
)

func hasWord(text string, words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return containsWords(text, w) })
}

// Holder is who a row names: a container of a pod, or without a pod a container by
// its name or id, or a batch job.
type Holder struct {
	Namespace, Pod, UID, Container string
	// Job is the number of a batch job, where the row names no container.
	Job string
}

// ContainerID returns the id of a container without a pod. It reports false where
// the row names the container otherwise.
func (h *Holder) ContainerID() (string, bool) {
	return h.Container, h.Pod == "" && containerID.MatchString(h.Container)
}

var containerID = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Relayed reports whether a Prometheus stands between the exporter and us and
// moved the holder's labels away, so that the plain ones are the scrape
// target's.
func (r *Row) Relayed() bool {
	return r.text[RoleRelayedPod] != "" || r.text[RoleRelayedContainer] != ""
}

// Plain returns the container that the row's plain labels name: the holder, or
// the scrape target when the row is relayed. Of a GPU that nobody holds, a
// relayed scrape carries the target's plain labels too: compare with the Plain
// of relayed rows. It reports false when the plain labels name no container.
func (r *Row) Plain() (Holder, bool) {
	h := Holder{
		Namespace: r.text[RoleNamespace], Pod: r.text[RolePod],
		UID: r.text[RolePodUID], Container: r.text[RoleContainer],
	}
	return h, h.Pod != "" || h.isPlain()
}

// isPlain reports whether a container is named, and nothing of a pod.
func (h *Holder) isPlain() bool {
	return h.Container != "" && h.Pod == "" && h.Namespace == "" && h.UID == ""
}

// Named returns who the row names, whatever it is called. A pod is one only with its
// namespace, and a job holds what no container does.
func (r *Row) Named() (Holder, bool) {
	h, _ := r.Plain()
	if r.Relayed() {
		h = Holder{
			Namespace: r.text[RoleRelayedNamespace], Pod: r.text[RoleRelayedPod],
			UID: r.text[RoleRelayedPodUID], Container: r.text[RoleRelayedContainer],
		}
	}
	if h.Pod != "" && h.Namespace != "" || h.isPlain() {
		return h, true
	}
	return r.batchJob()
}

func (r *Row) batchJob() (Holder, bool) {
	job := r.text[RoleJob]
	return Holder{Job: job}, job != ""
}

// CalledExporter reports whether a container is called as exporters are. Scrape
// configurations attach the exporter's own pod to rows of GPUs that nobody holds, and
// where nothing says which pod was scraped its name has to tell. Container names are
// those of the static manifests and of the operator; the Helm chart's, exporter, says
// too little alone.
func (h Holder) CalledExporter() bool {
	switch h.Container {
	case "dcgm-exporter", "nvidia-dcgm-exporter":
		return true
	}
	return strings.Contains(h.Pod, "dcgm-exporter") || h.Pod == "" && strings.Contains(h.Container, "dcgm-exporter")
}
