// Package presets knows other exporters' metrics of GPU memory that pods and processes use, or
// may use: their names, units, labels and scopes. It is data and pure functions.
package presets

import (
	"cmp"
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/exporters"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// Scope is what one series of a metric is about.
type Scope string

// The scopes.
const (
	// Process: memory of one process; those of a container add up, and a container
	// that is not listed has none.
	Process Scope = "process"
	// Pod: memory of a container or pod on a device.
	Pod Scope = "pod"
	// DeviceDuplicate: the device's memory, repeated for everyone who holds it.
	// Never a container's usage.
	DeviceDuplicate Scope = "device_duplicate"
	// Budget: memory that a container or pod may use.
	Budget Scope = "budget"
	// Utilization: percent of the time in which a container kept the device busy.
	Utilization Scope = "utilization"
	// MIGInfo: which MIG device is which GPU instance; the value says nothing.
	MIGInfo Scope = "mig_info"
)

// Scopes are those that a user can configure.
var Scopes = []Scope{Process, Pod, DeviceDuplicate, Budget}

// Units are the bytes of one unit, by its name in the configuration.
var Units = map[string]float64{"bytes": 1, "MiB": 1 << 20}

// Labels are the names of labels; empty is none. Where a scrape had to rename the
// label of a workload, the exported_ name goes before.
type Labels struct {
	Namespace string `mapstructure:"namespace"`
	Pod       string `mapstructure:"pod"`
	Container string `mapstructure:"container"`
	UID       string `mapstructure:"pod_uid"`  // of the pod
	GPU       string `mapstructure:"gpu_uuid"` // GPU-<uuid>, <uuid> or MIG-<uuid>
	Slot      string `mapstructure:"pid"`      // tells series of one container and device apart: a PID
	// MIGUUID and Instance are the MIG device and its GPU instance, for MIGInfo.
	MIGUUID  string `mapstructure:"-"`
	Instance string `mapstructure:"-"`
}

// Series is a metric of another exporter.
type Series struct {
	// Metric is its name as exposed.
	Metric string
	// Bytes is what one unit is, for Utilization in millionths.
	Bytes float64
	Scope Scope
	Labels
}

// Row is what the labels of one series say. Empty is unknown.
type Row struct {
	gpudata.Holder
	GPU               string // GPU-<uuid> or MIG-<uuid>
	Slot              string
	MIGUUID, Instance string
}

// nobody are values that exporters give the label of a pod for processes of none.
var nobody = []string{"", "unknown", "host", "none", "-"}

// Row reads the labels of a series. It reports false for a row that names
// neither a pod nor a device.
func (s *Series) Row(label func(string) string) (Row, bool) {
	get := func(name string) string {
		if name == "" {
			return ""
		}
		return label(name)
	}
	workload := func(name string) string {
		if name == "" {
			return ""
		}
		return cmp.Or(label("exported_"+name), label(name))
	}
	r := Row{
		Holder: gpudata.Holder{Namespace: workload(s.Namespace), Pod: workload(s.Pod), UID: get(s.UID), Container: workload(s.Container)},
		GPU:    normalise(get(s.GPU)), Slot: get(s.Slot), MIGUUID: get(s.MIGUUID), Instance: get(s.Instance),
	}
	if slices.Contains(nobody, r.Pod) {
		r.Namespace, r.Pod, r.Container = "", "", ""
	}
	if s.Scope == MIGInfo {
		return r, r.MIGUUID != "" && r.GPU != "" && r.Instance != ""
	}
	return r, r.InPod() || r.GPU != "" || s.Scope == Process
}

// normalise adds the prefix that some exporters cut off.
func normalise(gpu string) string {
	if catalogue.NoText(gpu) {
		return ""
	}
	return exporters.BoardID(gpu)
}

var (
	plain = Labels{Namespace: "namespace", Pod: "pod", Container: "container", UID: "pod_uid"}
	pid   = Labels{Namespace: "namespace", Pod: "pod", Container: "container", UID: "pod_uid", Slot: "pid"}
	hami  = Labels{
		Namespace: "namespace", Pod: "pod", Container: "container", GPU: "device_uuid", Slot: "vdevice_index",
	}
	hamiLegacy = Labels{
		Namespace: "podnamespace", Pod: "podname", Container: "ctrname", GPU: "deviceuuid", Slot: "vdeviceid",
	}
)

// Builtin returns the metrics that are read without being configured, those first
// whose numbers go before. What an exporter says beside them (breakdowns, device
// totals) would count memory twice or is no memory, and is left alone.
func Builtin() []Series {
	return []Series{
		// A DaemonSet around nvidia-smi; compute processes only.
		{"gpu_pod_memory_used_bytes", 1, Process, pid},
		// HAMi's vGPUmonitor; CUDA contexts are not in its numbers.
		{"hami_vgpu_memory_used_bytes", 1, Pod, hami},
		{"hami_vgpu_memory_limit_bytes", 1, Budget, hami},
		{"hami_mig_device_info", 1, MIGInfo, Labels{GPU: "device_uuid", MIGUUID: "mig_uuid", Instance: "gpu_instance_id"}},
		// The same before its metrics were renamed.
		{"vGPU_device_memory_usage_in_bytes", 1, Pod, hamiLegacy},
		{"vGPU_device_memory_limit_in_bytes", 1, Budget, hamiLegacy},
		// The sum of its breakdowns, in old versions with labels that change with the value.
		{"hami_container_device_memory_bytes", 1, Pod, hami},
		{"Device_memory_desc_of_container", 1, Pod, hamiLegacy},
		// Percent; samples of processes, and of ones that ended too.
		{"hami_container_device_utilization_ratio", 1e4, Utilization, hami},
		{"Device_utilization_desc_of_container", 1e4, Utilization, hamiLegacy},
		// HAMi's scheduler extender: what it reserved.
		{"hami_vgpu_memory_allocated_bytes", 1, Budget, Labels{
			Namespace: "namespace", Pod: "pod", GPU: "device_uuid", Slot: "container_index",
		}},
		// nvidia_gpu_exporter with --collect.compute-apps: no pods, so it needs the
		// nvml receiver to say whose a PID is.
		{"nvidia_smi_compute_app_used_memory_bytes", 1, Process, Labels{GPU: "uuid", Slot: "pid"}},
		// cAdvisor up to Kubernetes 1.26: the whole device's memory for each container.
		{"container_accelerator_memory_used_bytes", 1, DeviceDuplicate, plain},
	}
}
