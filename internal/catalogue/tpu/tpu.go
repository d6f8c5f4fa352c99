// Package tpu is the table of the TPU device plugin of Google Kubernetes Engine.
package tpu

import (
	"cmp"
	"strconv"
	"strings"

	cat "github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Exporter is the table of the TPU device plugin.
var Exporter = cat.New(cat.Exporter{
	Name:    "tpu-device-plugin",
	Vendor:  signal.VendorGoogle,
	Groups:  groups,
	Signals: []cat.Signal{{Metric: signal.GPUDeviceHolder, By: cat.ByHolders}},
	Gaps:    gaps,
	TurnOn:  "duty_cycle and the memory come from the workload: a chip without one has no rows of them.",

	Claims:   func(r *cat.Row) bool { return r.Get(cat.RoleVendor) == "cloud-tpu" }, // its metric names are common words
	Labels:   labels,
	Identify: identify,
	CalledExporter: func(h cat.Holder) bool {
		return strings.Contains(cmp.Or(h.Pod, h.Container, h.Name), "tpu-device-plugin")
	},
})

// groups is the table. The plugin exposes each value twice: with the pod's labels, and for the
// device without them, under a name that ends in _node. Utilization and memory are reported by the
// workload, so an idle chip has no such rows. In these rows, accelerator_id numbers the chips of
// the entire slice; in other rows it numbers the chips of the node. The latter rows are measured on
// the host and copied for every pod of the node.
var groups = []cat.Group{
	{Title: "Utilization", Fields: []cat.Field{
		{Name: "duty_cycle_node", Unit: cat.Percent, Aliases: []string{"duty_cycle"}, Renumbered: true, Gives: cat.Gives(signal.HwGPUUtilization, signal.TaskGeneral)},
	}},
	{Title: "Memory occupancy and pressure", Fields: []cat.Field{
		{Name: used, Unit: cat.Byte, Aliases: []string{"memory_used"}, Renumbered: true, Gives: []cat.Signal{
			{Metric: signal.HwGPUMemoryUtilization, From: [][]string{{used, total}}, Make: cat.Share},
			{Metric: signal.HwGPUMemoryUsage, From: [][]string{{used}}},
		}},
		{Name: total, Unit: cat.Byte, Aliases: []string{"memory_total"}, Renumbered: true, ZeroIsNone: true, Gives: cat.Gives(signal.HwGPUMemoryLimit, "")},
	}},
	{Title: "Activity, read on the host", Fields: []cat.Field{
		{Name: "memory_bandwidth_utilization_node", Unit: cat.Percent, Aliases: []string{"memory_bandwidth_utilization"}, Copied: true, Gives: cat.Gives(signal.GPUDRAMActive, "")},
		{Name: "tensorcore_utilization_node", Unit: cat.Percent, Aliases: []string{"tensorcore_utilization"}, Copied: true, Gives: cat.Gives(signal.GPUPipeActive, "tensor")},
	}},
}

// gaps lists the signals that only other exporters have, with the reason.
var gaps = cat.Gaps(map[string][]*signal.Metric{
	"not exposed": {
		signal.GPUClockThrottleTime, signal.GPUClockEventActive, signal.GPUClockEventTime, signal.GPUClockFrequency, signal.HwErrors,
		signal.HwPower, signal.HwEnergy, signal.HwTemperature, signal.HwStatus, signal.GPURecoveryAction, signal.GPUPowerLimit,
		signal.GPUEngineActive, signal.GPUSMOccupancy, signal.GPUPCIeThroughput, signal.GPUPCIeUtilization, signal.HwGPUIO,
	},
	"the tensor core is `gpu.pipe.active`":                     {signal.GPUSMActive},
	"there is no NVLink; the chips' own links are not exposed": {signal.GPUNVLinkThroughput, signal.GPUNVLinkUtilization},
	"from pods and schedulers":                                 {signal.K8sContainerGPUMemoryBudget},
	"there is no xGMI":                                         {signal.GPUXGMIThroughput},
	"a pod's rows repeat the chip's":                           {signal.K8sContainerGPUMemoryUsage, signal.K8sContainerGPUUtilization},
})

const (
	used  = "memory_used_node"
	total = "memory_total_node"
)

var labels = map[cat.Role][]string{
	cat.RoleUUID: {"accelerator_id"}, cat.RoleVendor: {"make"}, cat.RoleModel: {"model"},
	cat.RolePod: {"pod"}, cat.RoleNamespace: {"namespace"}, cat.RoleContainer: {"container"},
	cat.RoleRelayedPod: {"exported_pod"}, cat.RoleRelayedNamespace: {"exported_namespace"}, cat.RoleRelayedContainer: {"exported_container"},
}

// identify returns the chip of a row. Its accelerator_id consists of the number of the machine and,
// after the last dash, the number of the chip.
func identify(r *cat.Row) (cat.Identity, cat.Refusal) {
	id := r.Get(cat.RoleUUID)
	dash := strings.LastIndexByte(id, '-')
	number, err := strconv.Atoi(id[dash+1:])
	if dash < 1 || err != nil {
		return cat.Identity{}, cat.NoDevice
	}
	return cat.Identity{Board: id, Group: id[:dash], Number: number}, cat.Accepted
}
