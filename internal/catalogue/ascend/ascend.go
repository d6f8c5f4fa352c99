// Package ascend contains the catalogue table for Huawei's npu-exporter.
package ascend

import (
	"slices"
	"strings"

	cat "github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Exporter is the table for npu-exporter.
var Exporter = cat.New(cat.Exporter{
	Name:         "npu-exporter",
	Vendor:       signal.VendorHuawei,
	Experimental: "based on the exporter's source code and a recording of clocks only. From the chips' memory sizes, we assume that 1 MB is 1048576 bytes. Releases before the label vdie_id do not identify devices.",
	Groups:       groups,
	Signals:      []cat.Signal{{Metric: signal.GPUDeviceHolder, By: cat.ByHolders}},
	Gaps:         gaps,
	TurnOn: "metricConfiguration.json switches groups of metrics on. Set honor_timestamps where the dcgm receiver does not find the exporter by its pod: " +
		"its values may be some seconds old. The NetworkPolicy of its manifest lets in pods with the label app=prometheus alone.",

	Claims:       func(r *cat.Row) bool { return r.Get(cat.RoleIndex) != "" },
	Labels:       labels,
	PublicLabels: []string{"model_name"},
	BlankText:    func(_ cat.Role, s string) bool { return s == "NA" },
	OwnsName:     ownsName,
	Identify:     identify,
	IsExporter:   func(h cat.Holder) bool { return strings.Contains(h.Pod, "npu-exporter") },
	Hooks:        cat.Hooks{BlankValue: func(v float64) bool { return v == -1 }}, // the exporter exposes -1 if it cannot read a value
})

// groups contains the exporter's fields, grouped by topic. Training chips have HBM, other chips
// have DDR, and some chips have both. Chips with both types of memory keep models and data in HBM,
// so the HBM values of a chip are used once the chip has reported an HBM size. The TYPE of every
// metric is gauge.
//
// Omitted on purpose:
//   - health_status, which does not distinguish a warning from a failure
//   - error_code, which is a code and not a count
//   - the hbm_ecc_*_error_cnt fields without "total" in the name, whose values may not be totals
//   - bandwidth_rx and bandwidth_tx, which measure the network
//   - pcie_*_bw, because it is unknown whether the packet types overlap
//   - hccs_*
//   - vnpu_pod_* and container_npu_*, which repeat the chip's values for a pod
var groups = []cat.Group{
	{Title: "Utilization", Fields: []cat.Field{
		{Name: "npu_chip_info_utilization", Unit: cat.Percent, Provides: cat.Provides(signal.HwGPUUtilization, signal.TaskGeneral)},
	}},
	{Title: "Memory occupancy and pressure", Fields: []cat.Field{
		{Name: hbmUsed, Unit: cat.MiB, Provides: []cat.Signal{
			{Metric: signal.HwGPUMemoryUtilization, From: memory, Lasting: true, Make: cat.Share},
			{Metric: signal.HwGPUMemoryUsage, From: memory, Lasting: true, Make: func(_ int, v []float64) (float64, bool) { return v[0], true }},
			{Metric: signal.HwGPUMemoryLimit, From: [][]string{{hbmTotal}, {ddrTotal}}, Lasting: true},
		}},
		{Name: hbmTotal, Unit: cat.MiB, ZeroIsNone: true},
		{Name: ddrUsed, Unit: cat.MiB},
		{Name: ddrTotal, Unit: cat.MiB, ZeroIsNone: true},
	}},
	{Title: "Activity", Fields: []cat.Field{
		{Name: "npu_chip_info_hbm_bandwidth_utilization", Unit: cat.Percent, Provides: cat.Provides(signal.GPUDRAMActive, "")},
		{Name: "npu_chip_info_cube_utilization", Unit: cat.Percent, Provides: cat.Provides(signal.GPUPipeActive, "tensor")},
	}},
	{Title: "Errors", Fields: []cat.Field{
		{Name: "npu_chip_info_hbm_ecc_total_single_bit_error_cnt", Unit: cat.None, Kind: cat.Counter, Provides: cat.Provides(signal.HwErrors, "corrected")},
		{Name: "npu_chip_info_hbm_ecc_total_double_bit_error_cnt", Unit: cat.None, Kind: cat.Counter, Provides: cat.Provides(signal.HwErrors, "uncorrected")},
	}},
	{Title: "Power, clock and temperature", Fields: []cat.Field{
		{Name: "npu_chip_info_power", Unit: cat.Watt, ZeroIsNone: true, Provides: cat.Provides(signal.HwPower, "")},
		{Name: "npu_chip_info_aicore_current_freq", Unit: cat.MHz, ZeroIsNone: true, Provides: cat.Provides(signal.GPUClockFrequency, signal.DomainSM)},
		{Name: "npu_chip_info_temperature", Unit: cat.Celsius, ZeroIsNone: true, Provides: cat.Provides(signal.HwTemperature, signal.LocationGPU)},
		{Name: "npu_chip_info_hbm_temperature", Unit: cat.Celsius, ZeroIsNone: true, Provides: cat.Provides(signal.HwTemperature, signal.LocationMemory)},
	}},
}

const (
	hbmUsed  = "npu_chip_info_hbm_used_memory"
	hbmTotal = "npu_chip_info_hbm_total_memory"
	ddrUsed  = "npu_chip_info_used_memory"
	ddrTotal = "npu_chip_info_total_memory"
)

var memory = [][]string{{hbmUsed, hbmTotal}, {ddrUsed, ddrTotal}}

// gaps explains why this exporter does not provide some of the metrics that other exporters
// provide.
var gaps = cat.Gaps(map[string][]*signal.Metric{
	"not exposed": {
		signal.GPUClockThrottleTime, signal.GPUClockEventActive, signal.GPUClockEventTime, signal.GPURecoveryAction, signal.GPUPowerLimit,
		signal.GPUEngineActive, signal.GPUSMOccupancy, signal.HwEnergy, signal.GPUPCIeLinkWidth,
	},
	"warnings and failures have the same value": {signal.HwStatus},
	"the cube units are in `gpu.pipe.active`":   {signal.GPUSMActive},
	"exposed by overlapping kinds of packets":   {signal.GPUPCIeThroughput, signal.GPUPCIeUtilization, signal.HwGPUIO},
	"no NVLink; HCCS is not read":               {signal.GPUNVLinkThroughput, signal.GPUNVLinkUtilization},
	"from pods and schedulers":                  {signal.K8sContainerGPUMemoryBudget},
	"no xGMI":                                   {signal.GPUXGMIThroughput},
	"a pod's rows repeat the chip's":            {signal.K8sContainerGPUMemoryUsage, signal.K8sContainerGPUUtilization},
})

var labels = map[cat.Role][]string{
	cat.RoleIndex: {"id"}, cat.RoleUUID: {"vdie_id"}, cat.RoleModel: {"model_name"},
	cat.RolePod: {"pod_name"}, cat.RoleNamespace: {"namespace"}, cat.RoleContainer: {"container_name"},
	cat.RoleRelayedPod: {"exported_pod_name"}, cat.RoleRelayedNamespace: {"exported_namespace"}, cat.RoleRelayedContainer: {"exported_container_name"},
}

// ownsName reports whether a metric name has the form of the exporter's metric names.
func ownsName(name string) bool {
	return slices.ContainsFunc([]string{"npu_chip_", "npu_container_", "container_npu_", "vnpu_pod_"}, func(prefix string) bool {
		return strings.HasPrefix(name, prefix)
	})
}

// identify returns the chip that a row describes. The id label is unique only within a node.
func identify(r *cat.Row) (cat.Identity, cat.Refusal) {
	chip := r.Get(cat.RoleUUID)
	if chip == "" {
		return cat.Identity{}, cat.NoDevice
	}
	return cat.Identity{Board: chip}, cat.Accepted
}
