// Package tpu contains the catalogue table for the TPU device plugin of Google Kubernetes Engine.
package tpu

import (
	"cmp"
	"strconv"
	"strings"

	cat "github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Exporter is the table for the TPU device plugin.
var Exporter = cat.New(cat.Exporter{
	Name:    "tpu-device-plugin",
	Vendor:  signal.VendorGoogle,
	Groups:  groups,
	Signals: []cat.Signal{{Metric: signal.GPUDeviceHolder, By: cat.ByHolders}},
	Gaps:    gaps,
	TurnOn:  "duty_cycle and the memory come from the workload: a chip without one has no rows of them.",

	Claims:       func(r *cat.Row) bool { return r.Get(cat.RoleVendor) == "cloud-tpu" }, // the metric names are not specific to the exporter
	Labels:       labels,
	PublicLabels: []string{"make", "model"},
	Identify:     identify,
	IsExporter: func(h cat.Holder) bool {
		return strings.Contains(cmp.Or(h.Pod, h.Container, h.Name), "tpu-device-plugin")
	},
	Hooks: cat.Hooks{Resolve: resolve},
})

// groups contains the exporter's fields, grouped by topic. The plugin exposes each value twice:
// with pod labels for the pod, and without pod labels for the device. The metric names for the
// device end with _node. The workload reports utilization and memory, so an idle chip has no rows
// for utilization and memory. Values other than utilization and memory are measured on the host. A
// chip's number in rows from the workload can differ from its number in rows from the host; see
// resolve.
var groups = []cat.Group{
	{Title: "Utilization", Fields: []cat.Field{
		{Name: duty, Unit: cat.Percent, Aliases: []string{"duty_cycle"}, Provides: cat.Provides(signal.HwGPUUtilization, signal.TaskGeneral)},
	}},
	{Title: "Memory occupancy and pressure", Fields: []cat.Field{
		{Name: used, Unit: cat.Byte, Aliases: []string{"memory_used"}, Provides: []cat.Signal{
			{Metric: signal.HwGPUMemoryUtilization, From: [][]string{{used, total}}, Make: cat.Share},
			{Metric: signal.HwGPUMemoryUsage, From: [][]string{{used}}},
		}},
		{Name: total, Unit: cat.Byte, Aliases: []string{"memory_total"}, ZeroIsNone: true, Provides: cat.Provides(signal.HwGPUMemoryLimit, "")},
	}},
	{Title: "Activity, read on the host", Fields: []cat.Field{
		{Name: "memory_bandwidth_utilization_node", Unit: cat.Percent, Aliases: []string{"memory_bandwidth_utilization"}, Provides: cat.Provides(signal.GPUDRAMActive, "")},
		{Name: "tensorcore_utilization_node", Unit: cat.Percent, Aliases: []string{"tensorcore_utilization"}, Provides: cat.Provides(signal.GPUPipeActive, "tensor")},
	}},
}

// gaps explains why this exporter does not provide some of the metrics that other exporters
// provide.
var gaps = cat.Gaps(map[string][]*signal.Metric{
	"not exposed": {
		signal.GPUClockThrottleTime, signal.GPUClockEventActive, signal.GPUClockEventTime, signal.GPUClockFrequency, signal.HwErrors,
		signal.HwPower, signal.HwEnergy, signal.HwTemperature, signal.HwStatus, signal.GPURecoveryAction, signal.GPUPowerLimit,
		signal.GPUEngineActive, signal.GPUSMOccupancy, signal.GPUPCIeThroughput, signal.GPUPCIeUtilization, signal.GPUPCIeLinkWidth, signal.HwGPUIO,
	},
	"the tensor core is in `gpu.pipe.active`":         {signal.GPUSMActive},
	"no NVLink; the chips' own links are not exposed": {signal.GPUNVLinkThroughput, signal.GPUNVLinkUtilization},
	"from pods and schedulers":                        {signal.K8sContainerGPUMemoryBudget},
	"no xGMI":                                         {signal.GPUXGMIThroughput},
	"a pod's rows repeat the chip's":                  {signal.K8sContainerGPUMemoryUsage, signal.K8sContainerGPUUtilization},
})

const (
	duty  = "duty_cycle_node"
	used  = "memory_used_node"
	total = "memory_total_node"
)

var labels = map[cat.Role][]string{
	cat.RoleUUID: {"accelerator_id"}, cat.RoleVendor: {"make"}, cat.RoleModel: {"model"},
	cat.RolePod: {"pod"}, cat.RoleNamespace: {"namespace"}, cat.RoleContainer: {"container"},
	cat.RoleRelayedPod: {"exported_pod"}, cat.RoleRelayedNamespace: {"exported_namespace"}, cat.RoleRelayedContainer: {"exported_container"},
}

// identify uses a row's accelerator_id to determine which chip the row describes.
func identify(r *cat.Row) (cat.Identity, cat.Refusal) {
	id := r.Get(cat.RoleUUID)
	if _, _, ok := parseID(id); !ok {
		return cat.Identity{}, cat.NoDevice
	}
	return cat.Identity{Board: id}, cat.Accepted
}

// parseID splits an accelerator_id into the machine's ID and the chip's number, which follows the
// last dash.
func parseID(id string) (machine string, chip int, ok bool) {
	dash := strings.LastIndexByte(id, '-')
	chip, err := strconv.Atoi(id[dash+1:])
	if dash < 1 || err != nil {
		return "", 0, false
	}
	return id[:dash], chip, true
}
