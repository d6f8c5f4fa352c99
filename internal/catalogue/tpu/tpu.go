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

	Claims:     claims,
	Labels:     labels,
	BlankText:  func(_ cat.Role, s string) bool { return s == "" },
	OwnsName:   func(string) bool { return false },
	Identify:   identify,
	InstanceID: func(_, instance string) string { return instance },
	CalledExporter: func(h cat.Holder) bool {
		return strings.Contains(cmp.Or(h.Pod, h.Container, h.Name), "tpu-device-plugin")
	},
	Model: func(string) cat.Model { return cat.Model{} },
})

// groups is the table. The plugin shows each value twice: with the pod's labels, and for the
// device without them, under a name that ends in _node. Utilization and memory come from the
// workload: an idle chip has no such rows. Their accelerator_id numbers the chips of the whole
// slice; in other rows it numbers those of the node.
var groups = []cat.Group{
	{Title: "Utilization", Fields: []cat.Field{
		{Name: "duty_cycle_node", Unit: cat.Percent, Aliases: []string{"duty_cycle"}, Renumbered: true, Gives: gives(signal.HwGPUUtilization, signal.TaskGeneral)},
	}},
	{Title: "Memory occupancy and pressure", Fields: []cat.Field{
		{Name: used, Unit: cat.Byte, Aliases: []string{"memory_used"}, Renumbered: true, Gives: []cat.Signal{
			{Metric: signal.HwGPUMemoryUtilization, From: [][]string{{used, total}}, Make: occupancy},
			{Metric: signal.HwGPUMemoryUsage, From: [][]string{{used}}},
		}},
		{Name: total, Unit: cat.Byte, Aliases: []string{"memory_total"}, Renumbered: true, ZeroIsNone: true, Gives: gives(signal.HwGPUMemoryLimit, "")},
	}},
	{Title: "Activity, read on the host", Fields: []cat.Field{
		{Name: "memory_bandwidth_utilization_node", Unit: cat.Percent, Aliases: []string{"memory_bandwidth_utilization"}, Gives: gives(signal.GPUDRAMActive, "")},
		{Name: "tensorcore_utilization_node", Unit: cat.Percent, Aliases: []string{"tensorcore_utilization"}, Gives: gives(signal.GPUPipeActive, "tensor")},
	}},
}

// gaps are the signals that other exporters give, with the reason.
var gaps = map[*signal.Metric]string{
	signal.GPUClockThrottleTime:       "not exposed",
	signal.GPUClockEventActive:        "not exposed",
	signal.GPUClockEventTime:          "not exposed",
	signal.GPUClockFrequency:          "not exposed",
	signal.HwErrors:                   "not exposed",
	signal.HwPower:                    "not exposed",
	signal.HwEnergy:                   "not exposed",
	signal.HwTemperature:              "not exposed",
	signal.HwStatus:                   "not exposed",
	signal.GPURecoveryAction:          "not exposed",
	signal.GPUPowerLimit:              "not exposed",
	signal.GPUEngineActive:            "not exposed",
	signal.GPUSMActive:                "the tensor core is `gpu.pipe.active`",
	signal.GPUSMOccupancy:             "not exposed",
	signal.GPUPCIeThroughput:          "not exposed",
	signal.GPUPCIeUtilization:         "not exposed",
	signal.GPUNVLinkThroughput:        "there is no NVLink; the chips' own links are not exposed",
	signal.GPUNVLinkUtilization:       "there is no NVLink; the chips' own links are not exposed",
	signal.GPUXGMIThroughput:          "there is no xGMI",
	signal.K8sContainerGPUMemoryUsage: "a pod's rows repeat the chip's",
	signal.K8sContainerGPUUtilization: "a pod's rows repeat the chip's",
}

const (
	used  = "memory_used_node"
	total = "memory_total_node"
)

func gives(m *signal.Metric, part string) []cat.Signal {
	return []cat.Signal{{Metric: m, Part: part}}
}

func occupancy(_ int, v []float64) (float64, bool) { return v[0] / v[1], v[1] > 0 }

var labels = map[string]cat.Role{
	"accelerator_id": cat.RoleUUID, "make": cat.RoleVendor, "model": cat.RoleModel,
	"pod": cat.RolePod, "namespace": cat.RoleNamespace, "container": cat.RoleContainer,
	"exported_pod": cat.RoleRelayedPod, "exported_namespace": cat.RoleRelayedNamespace, "exported_container": cat.RoleRelayedContainer,
}

// claims reports whether the labels are the plugin's: its names are common words.
func claims(r *cat.Row) bool { return r.Get(cat.RoleVendor) == "cloud-tpu" }

// identify returns which chip a row is about. Its accelerator_id is the number of the
// machine and, after the last dash, the chip's.
func identify(r *cat.Row) (cat.Identity, cat.Refusal) {
	id := r.Get(cat.RoleUUID)
	dash := strings.LastIndexByte(id, '-')
	number, err := strconv.Atoi(id[dash+1:])
	if dash < 1 || err != nil {
		return cat.Identity{}, cat.NoDevice
	}
	return cat.Identity{Board: id, Group: id[:dash], Number: number}, cat.Accepted
}
