// Package neuron contains the catalogue table for the Prometheus script of AWS's neuron-monitor.
package neuron

import (
	"slices"
	"strconv"
	"strings"

	cat "github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Exporter is the table for neuron-monitor-prometheus.py.
var Exporter = cat.New(cat.Exporter{
	Name:         "neuron-monitor",
	Vendor:       signal.VendorAWS,
	Experimental: "based on one recording of an Inferentia and the script's source code. No output of a Trainium was available. Memory and errors are reported for processes, so they are a device's only on a machine with one device. A process that has ended keeps its last values while another process runs.",
	Groups:       groups,
	Gaps:         gaps,
	TurnOn:       "neuroncore_counters and memory_used in the configuration of neuron-monitor. A node on which no process uses a Neuron device shows none of them.",

	Claims:       func(r *cat.Row) bool { return r.Get(cat.RoleUUID) != "" && r.Get(cat.RolePart) != "" }, // other exporters use some of the same metric names
	Labels:       labels,
	PublicLabels: []string{"instance_type", "neuroncore", "neuron_device", "memory_location", "event_type", "error_type"},
	Identify:     identify,
	IsExporter:   func(h cat.Holder) bool { return strings.Contains(h.Pod, "neuron-monitor") },
	Hooks:        cat.Hooks{Capacities: func(model string) cat.Capacities { return cat.Capacities{Memory: memory[model]} }},
})

// groups contains the exporter's fields, grouped by topic. A row describes a process (runtime_tag)
// on one core, or a process on all devices of the machine. Rows that describe a process on all
// devices are used only if the machine has one device.
//
// Omitted on purpose:
//   - hardware_ecc_events_total, because the script adds up values that may already be totals
//   - execution_status_total and execution_latency_seconds, which describe the workload
var groups = []cat.Group{
	{Title: "Utilization", Fields: []cat.Field{
		{Name: "neuroncore_utilization_ratio", Unit: cat.Ratio, Parts: cat.Sum, Provides: []cat.Signal{{Metric: signal.HwGPUUtilization, Part: signal.TaskGeneral}}},
	}},
	{Title: "Memory occupancy and pressure", Fields: []cat.Field{
		{Name: ofCores, Unit: cat.Byte, Scope: cat.Board, Parts: cat.Sum, Aliases: []string{
			"neuroncore_memory_usage_model_code", "neuroncore_memory_usage_model_shared_scratchpad",
			"neuroncore_memory_usage_runtime_memory", "neuroncore_memory_usage_tensors",
		}, Provides: []cat.Signal{
			{Metric: signal.HwGPUMemoryUtilization, From: usage, Capacity: size},
			{Metric: signal.HwGPUMemoryUsage, From: usage},
			{Metric: signal.HwGPUMemoryLimit, From: usage, Capacity: size},
		}},
		{Name: ofProcesses + "{neuron_device}", Unit: cat.Byte, Scope: cat.Board, Parts: cat.Sum, Cut: []string{onDevice}},
	}},
	{Title: "Errors", Fields: errors("generic", "numerical", "transient", "model", "runtime", "hardware")},
}

func errors(kinds ...string) (out []cat.Field) {
	for _, kind := range kinds {
		out = append(out, cat.Field{
			Name: "execution_errors_total{" + kind + "}", Unit: cat.None, Kind: cat.Counter, Scope: cat.Board, Parts: cat.Sum, Cut: []string{kind},
			Provides: []cat.Signal{{Metric: signal.HwErrors, Part: "execution_" + kind}},
		})
	}
	return out
}

const (
	ofCores     = "neuroncore_memory_usage_constants"
	ofProcesses = "neuron_runtime_memory_used_bytes"
	onDevice    = "neuron_device" // a value of memory_location; the only other value is for the host's memory
)

var usage = [][]string{{ofCores}, {ofProcesses + "{neuron_device}"}}

// memory maps models to the size of a device's memory in bytes. The script exposes the memory size
// only in a row that does not name a device.
var memory = map[string]float64{"Inferentia": 8 << 30, "Inferentia2": 32 << 30, "Trainium": 32 << 30, "Trainium2": 96 << 30}

func size(of *cat.Capacities, _ []float64) float64 { return of.Memory }

// gaps explains why this exporter does not provide some of the metrics that other exporters
// provide.
var gaps = cat.Gaps(map[string][]*signal.Metric{
	"not exposed": {
		signal.GPUClockThrottleTime, signal.GPUClockEventActive, signal.GPUClockEventTime, signal.GPUClockFrequency, signal.HwPower,
		signal.HwEnergy, signal.HwTemperature, signal.HwStatus, signal.GPURecoveryAction, signal.GPUPowerLimit, signal.GPUEngineActive,
		signal.GPUPipeActive, signal.GPUDRAMActive, signal.GPUSMActive, signal.GPUSMOccupancy, signal.GPUPCIeThroughput, signal.GPUPCIeUtilization, signal.GPUPCIeLinkWidth, signal.HwGPUIO,
	},
	"no NVLink; NeuronLink is not exposed": {signal.GPUNVLinkThroughput, signal.GPUNVLinkUtilization},
	"from pods and schedulers":             {signal.K8sContainerGPUMemoryBudget},
	"no xGMI":                              {signal.GPUXGMIThroughput},
	"no pod labels":                        {signal.GPUDeviceHolder},
	"processes have no pod labels":         {signal.K8sContainerGPUMemoryUsage, signal.K8sContainerGPUUtilization},
})

// roleMachine is the role of the label that contains the machine's type.
const roleMachine = cat.RoleOwn

var labels = map[cat.Role][]string{
	cat.RoleUUID: {"instance_id"}, roleMachine: {"instance_type"},
	cat.RoleIndex: {"neuroncore"}, cat.RolePart: {"runtime_tag"}, cat.RoleCut: {"memory_location", "error_type"},
}

// family describes the EC2 instance types whose names start with the same prefix.
type family struct {
	model string
	// cores is the number of cores per device, or 0 if the number is configurable.
	cores uint64
	// single lists the instance sizes that have only one device.
	single []string
}

var families = map[string]family{
	"inf1":  {"Inferentia", 4, []string{"xlarge", "2xlarge"}},
	"inf2":  {"Inferentia2", 2, []string{"xlarge", "8xlarge"}},
	"trn1":  {"Trainium", 2, []string{"2xlarge"}},
	"trn1n": {"Trainium", 2, nil},
	"trn2":  {"Trainium2", 0, []string{"3xlarge"}},
}

// identify returns the device that a row describes. A row of a memory or error metric describes a
// device. Any other row that names a core describes the core, which is an instance of a device. If
// the number of cores per device is configurable, each core is treated as a device.
func identify(r *cat.Row) (cat.Identity, cat.Refusal) {
	machine := r.Get(cat.RoleUUID)
	class, size, _ := strings.Cut(r.Get(roleMachine), ".")
	f, number := families[class], r.Get(cat.RoleIndex)
	core, err := strconv.ParseUint(number, 10, 16)
	switch {
	case number != "" && err != nil:
		return cat.Identity{}, cat.NoDevice
	case number == "" && !slices.Contains(f.single, size):
		return cat.Identity{}, cat.OtherEntity
	case number != "" && f.cores == 0:
		return cat.Identity{Board: coreID(machine, core), Part: number + " " + r.Get(cat.RolePart)}, cat.Accepted
	}
	is := cat.Identity{Board: machine + "/neuron0", Model: f.model}
	if number != "" {
		is.Board = machine + "/neuron" + strconv.FormatUint(core/f.cores, 10)
	}
	if r.Get(cat.RoleCut) != "" {
		is.Part = number + " " + r.Get(cat.RolePart)
	} else {
		is.Instance, is.Number = coreID(machine, core), int(core)
	}
	return is, cat.Accepted
}

func coreID(machine string, core uint64) string {
	return machine + "/nc" + strconv.FormatUint(core, 10)
}
