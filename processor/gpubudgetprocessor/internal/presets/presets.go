// Package presets knows the metrics in which other exporters say how much GPU
// memory pods and processes use, or may use: their names, units and labels, and
// what a value speaks of. It is data and pure functions.
package presets

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Scope is what one series of a metric speaks of.
type Scope uint8

// The scopes.
const (
	// Process: memory of one process; those of a container add up, and a container
	// that is not listed has none.
	Process Scope = iota
	// Pod: memory of a container or pod on a device.
	Pod
	// DeviceDuplicate: the device's memory, repeated for everyone who holds it.
	// Never a container's usage.
	DeviceDuplicate
	// Budget: memory that a container or pod may use.
	Budget
	// MIGInfo: which MIG device is which GPU instance; the value says nothing.
	MIGInfo
)

var scopeNames = [...]string{"process", "pod", "device_duplicate", "budget", "mig_info"}

// String returns the scope as the configuration spells it.
func (s Scope) String() string { return scopeNames[s] }

// ParseScope returns the scope of that name, of those that a user can configure.
func ParseScope(name string) (Scope, error) {
	if i := slices.Index(scopeNames[:MIGInfo], name); i >= 0 {
		return Scope(i), nil
	}
	return 0, fmt.Errorf("is %q: must be one of %s", name, strings.Join(scopeNames[:MIGInfo], ", "))
}

// Units are the bytes of one unit, by its name in the configuration.
var Units = map[string]float64{"bytes": 1, "MiB": 1 << 20}

// Labels are the names of labels; alternatives are separated by |, empty is
// none. Where a scrape had to rename the label of a workload, the exported_ name
// goes before.
type Labels struct {
	Namespace, Pod, Container string
	UID                       string // of the pod
	GPU                       string // GPU-<uuid>, <uuid> or MIG-<uuid>
	Index                     string // number of the board, such as gpu0
	Slot                      string // tells series of one container and device apart: a PID
	// MIGUUID and Instance are the MIG device and its GPU instance, for MIGInfo.
	MIGUUID, Instance string
}

// Series is a metric of another exporter.
type Series struct {
	// Metric is its name as exposed.
	Metric string
	// Bytes is what one unit is.
	Bytes float64
	Scope Scope
	Labels
}

// Row is what the labels of one series say. Empty is unknown.
type Row struct {
	Namespace, Pod, UID, Container string
	GPU                            string // GPU-<uuid> or MIG-<uuid>
	Index                          int    // of the board, -1 unknown
	Slot                           string
	MIGUUID, Instance              string
}

// nobody are values that exporters give the label of a pod for processes of none.
var nobody = []string{"", "unknown", "host", "none", "-"}

// Row reads the labels of a series. It reports false for a row that names
// neither a pod nor a device, and for one that sums up others.
func (s *Series) Row(label func(string) string) (Row, bool) {
	get := func(names string) string {
		for name := range strings.SplitSeq(names, "|") {
			if name == "" {
				continue
			}
			if v := label(name); v != "" {
				return v
			}
		}
		return ""
	}
	workload := func(names string) string {
		for name := range strings.SplitSeq(names, "|") {
			if v := label("exported_" + name); name != "" && v != "" {
				return v
			}
		}
		return get(names)
	}
	r := Row{
		Namespace: workload(s.Namespace), Pod: workload(s.Pod), UID: get(s.UID), Container: workload(s.Container),
		GPU: normalise(get(s.GPU)), Index: -1, Slot: get(s.Slot), MIGUUID: get(s.MIGUUID), Instance: get(s.Instance),
	}
	if slices.Contains(nobody, r.Pod) {
		r.Namespace, r.Pod, r.Container = "", "", ""
	}
	if s.Index != "" {
		if text := get(s.Index); text != "" {
			n, err := strconv.Atoi(strings.TrimLeft(text, "abcdefghijklmnopqrstuvwxyz"))
			if err != nil || n < 0 {
				return Row{}, false // such as "total"
			}
			r.Index = n
		}
	}
	if s.Scope == MIGInfo {
		return r, r.MIGUUID != "" && r.GPU != "" && r.Instance != ""
	}
	return r, r.Pod != "" || r.UID != "" || r.GPU != "" || r.Index >= 0 || s.Scope == Process
}

// normalise adds the prefix that some exporters cut off.
func normalise(gpu string) string {
	if gpu == "" || strings.HasPrefix(gpu, "GPU-") || strings.HasPrefix(gpu, "MIG-") {
		return gpu
	}
	return "GPU-" + gpu
}

// Names returns the presets in the default order of precedence.
func Names() []string {
	return []string{
		"gpu_pod_exporter", "hami", "hami_legacy", "hami_scheduler", "nvidia_gpu_exporter",
		"gpu_manager", "volcano", "in_house", "cadvisor",
	}
}

// Lookup returns the series of a preset.
func Lookup(name string) ([]Series, bool) {
	s, ok := builtin[name]
	return s, ok
}

const (
	bytes = 1
	mebi  = 1 << 20
)

var (
	plain = Labels{Namespace: "namespace", Pod: "pod", Container: "container", UID: "pod_uid"}

	hami = Labels{
		Namespace: "namespace", Pod: "pod", Container: "container", GPU: "device_uuid", Slot: "vdevice_index",
	}
	hamiLegacy = Labels{
		Namespace: "podnamespace", Pod: "podname", Container: "ctrname", GPU: "deviceuuid", Slot: "vdeviceid",
	}
	gpuManager = Labels{Namespace: "namespace", Pod: "pod_name", Container: "container_name"}
	inHouse    = Labels{
		Namespace: "namespace", Pod: "pod|pod_name", Container: "container|container_name", UID: "pod_uid",
		GPU: "gpu_uuid|uuid|UUID", Slot: "pid",
	}
)

func (l Labels) slot(name string) Labels  { l.Slot = name; return l }
func (l Labels) index(name string) Labels { l.Index = name; return l }

// builtin are the metrics that were found in the field. What an exporter says
// beside them (breakdowns, device totals, utilization) would count memory twice
// or is no memory, and is left alone.
var builtin = map[string][]Series{
	// A DaemonSet around nvidia-smi; compute processes only.
	"gpu_pod_exporter": {
		{"gpu_pod_memory_used_bytes", bytes, Process, plain.slot("pid")},
	},
	// HAMi's vGPUmonitor; CUDA contexts are not in its numbers.
	"hami": {
		{"hami_vgpu_memory_used_bytes", bytes, Pod, hami},
		{"hami_vgpu_memory_limit_bytes", bytes, Budget, hami},
		{"hami_mig_device_info", 1, MIGInfo, Labels{GPU: "device_uuid", MIGUUID: "mig_uuid", Instance: "gpu_instance_id"}},
	},
	// The same before its metrics were renamed.
	"hami_legacy": {
		{"vGPU_device_memory_usage_in_bytes", bytes, Pod, hamiLegacy},
		{"vGPU_device_memory_limit_in_bytes", bytes, Budget, hamiLegacy},
	},
	// HAMi's scheduler extender: what it reserved.
	"hami_scheduler": {
		{"hami_vgpu_memory_allocated_bytes", bytes, Budget, Labels{
			Namespace: "namespace", Pod: "pod", GPU: "device_uuid", Slot: "container_index",
		}},
	},
	// nvidia_gpu_exporter with --collect.compute-apps: no pods, so it needs the
	// nvml receiver to say whose a PID is.
	"nvidia_gpu_exporter": {
		{"nvidia_smi_compute_app_used_memory_bytes", bytes, Process, Labels{GPU: "uuid", Slot: "pid"}},
	},
	// tkestack's gpu-manager: a row for each board and one that sums them up.
	"gpu_manager": {
		{"container_gpu_memory_total", mebi, Pod, gpuManager.index("gpu_memory")},
		{"container_request_gpu_memory", mebi, Budget, gpuManager},
	},
	// Volcano's scheduler. It says MB and counts in 2^20 bytes (general knowledge).
	"volcano": {
		{"volcano_vgpu_device_memory_allocation_for_a_certain_pod", mebi, Budget, Labels{Pod: "podName", GPU: "devID"}},
	},
	// Exporters that were written for one place. Where the name has no unit it is
	// taken for bytes; a wrong guess shows as partial, never as a valid number.
	"in_house": {
		{"nvidia_gpu_process_memory_used_bytes", bytes, Process, inHouse},
		{"gpu_process_memory_used_bytes", bytes, Process, inHouse},
		{"my_gpu_process_memory_used_bytes", bytes, Process, inHouse},
		{"pod_gpu_memory_usage", bytes, Process, inHouse},
		{"container_gpu_memory_bytes", bytes, Pod, inHouse},
		{"CM_PURPLEPILL_GPU_MEMORY_USED_POD_MIB", mebi, Pod, inHouse},
	},
	// cAdvisor up to Kubernetes 1.26: the whole device's memory for each container.
	"cadvisor": {
		{"container_accelerator_memory_used_bytes", bytes, DeviceDuplicate, plain},
	},
}
