// Package hami contains the catalogue table for HAMi's vGPU monitor and HAMi's scheduler. The
// monitor reports how much of a shared GPU each container uses. The scheduler reports how much of a
// shared GPU it reserved for each container.
package hami

import (
	"strings"

	cat "github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Exporter is the table for HAMi's vGPU monitor and HAMi's scheduler.
var Exporter = cat.New(cat.Exporter{
	Name:         "HAMi vGPU monitor",
	Groups:       groups,
	Signals:      []cat.Signal{{Metric: signal.GPUDeviceHolder, By: cat.ByHolders}},
	Gaps:         gaps,
	OfContainers: true,

	Claims:       func(r *cat.Row) bool { return r.Get(cat.RoleUUID) != "" },
	Labels:       labels,
	PublicLabels: []string{"devicetype"},
	Identify: func(r *cat.Row) (cat.Identity, cat.Refusal) {
		return cat.Identity{Board: r.Get(cat.RoleUUID)}, cat.Accepted
	},
	IsExporter: func(h cat.Holder) bool {
		return h.Container == "vgpu-monitor" || strings.HasPrefix(h.Pod, "hami-device-plugin") || strings.HasPrefix(h.Pod, "hami-scheduler")
	},
})

const (
	used      = "hami_vgpu_memory_used_bytes"
	breakdown = "hami_container_device_memory_bytes"
	limit     = "hami_vgpu_memory_limit_bytes"
	allocated = "hami_vgpu_memory_allocated_bytes"
)

// groups contains the exporter's fields, grouped by topic. The aliases are the names that releases
// before 2.9 used. The monitor still exposes the aliases if it is configured to do so. The memory
// usage is the amount that HAMi itself counted as allocated, which excludes CUDA contexts. The
// breakdown of the memory usage was exposed with the TYPE counter. The labels of the breakdown
// change whenever its value changes. The scheduler's rows contain the pod's name and the
// container's index.
var groups = []cat.Group{
	{Title: "Memory of containers", Fields: []cat.Field{
		{Name: used, Unit: cat.Byte, Aliases: []string{"vGPU_device_memory_usage_in_bytes"}, Provides: []cat.Signal{
			{Metric: signal.K8sContainerGPUMemoryUsage, By: cat.ByProcesses, From: [][]string{{used}, {breakdown}}},
		}},
		{Name: breakdown, Unit: cat.Byte, Aliases: []string{"Device_memory_desc_of_container"}},
		{Name: limit, Unit: cat.Byte, Aliases: []string{"vGPU_device_memory_limit_in_bytes"}, ZeroIsNone: true, Provides: []cat.Signal{
			{Metric: signal.K8sContainerGPUMemoryBudget, By: cat.ByProcesses, From: [][]string{{limit}, {allocated}}},
		}},
		{Name: allocated, Unit: cat.Byte, ZeroIsNone: true},
	}},
	{Title: "Utilization of containers", Fields: []cat.Field{
		{Name: "hami_container_device_utilization_ratio", Unit: cat.Percent, Aliases: []string{"Device_utilization_desc_of_container"}, Provides: []cat.Signal{
			{Metric: signal.K8sContainerGPUUtilization, By: cat.ByProcesses},
		}},
	}},
	{Title: "MIG devices", Fields: []cat.Field{{Name: "hami_mig_device_info", Unit: cat.None}}},
	{Title: "Boards, if no other exporter exposes them", Fields: []cat.Field{
		{Name: "hami_host_gpu_memory_used_bytes", Unit: cat.Byte, Aliases: []string{"HostGPUMemoryUsage"}, Provides: cat.Provides(signal.HwGPUMemoryUsage)},
		{Name: "hami_host_gpu_utilization_ratio", Unit: cat.Percent, Aliases: []string{"HostCoreUtilization"}, Provides: cat.Provides(signal.HwGPUUtilization, signal.TaskGeneral)},
	}},
}

// labels assigns the names that releases before 2.9 used for the pod, namespace, and container only
// to the roles for alternative names, because rows with these label names may also have the labels
// of the scrape target.
var labels = map[cat.Role][]string{
	cat.RoleUUID: {"device_uuid", "deviceuuid"}, cat.RolePart: {"vdevice_index", "vdeviceid", "container_index"}, cat.RoleHost: {"node", "nodeid", "NodeName"},
	cat.RoleMIGUUID: {"mig_uuid"}, cat.RoleInstanceID: {"gpu_instance_id"},
	cat.RolePod: {"pod"}, cat.RoleNamespace: {"namespace"}, cat.RoleContainer: {"container"},
	cat.RoleOldPod: {"podname"}, cat.RoleOldNamespace: {"podnamespace"}, cat.RoleOldContainer: {"ctrname"},
	cat.RoleRelayedPod: {"exported_pod"}, cat.RoleRelayedNamespace: {"exported_namespace"}, cat.RoleRelayedContainer: {"exported_container"},
}

// gaps explains why this exporter does not provide some of the metrics that other exporters
// provide.
var gaps = cat.Gaps(map[string][]*signal.Metric{
	"the boards' exporter provides it": {
		signal.GPUClockThrottleTime, signal.GPUClockEventActive, signal.GPUClockEventTime, signal.GPUClockFrequency, signal.HwErrors,
		signal.HwStatus, signal.GPURecoveryAction, signal.GPUDRAMActive, signal.GPUSMActive, signal.GPUSMOccupancy, signal.GPUEngineActive,
		signal.GPUPipeActive, signal.GPUPCIeThroughput, signal.GPUNVLinkThroughput, signal.GPUXGMIThroughput, signal.GPUPCIeUtilization, signal.GPUPCIeLinkWidth,
		signal.GPUNVLinkUtilization, signal.HwPower, signal.GPUPowerLimit, signal.HwEnergy, signal.HwTemperature,
		signal.HwGPUMemoryUtilization, signal.HwGPUMemoryLimit, signal.HwGPUIO,
	},
})
