package amd

import (
	"cmp"
	"strings"

	cat "github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Exporter is the table for AMD's device-metrics-exporter.
var Exporter = cat.New(cat.Exporter{
	Name:   "device-metrics-exporter",
	Vendor: signal.VendorAMD,
	TurnOn: "GPUConfig.Fields in the exporter's config.json lists its fields; without that list it shows all but gpu_prof_*. " +
		"Time throttled and partitions are those of MI300 and later; power and energy are not shown in a virtual machine.",
	Groups:  groups,
	Signals: []cat.Signal{{Metric: signal.GPUDeviceHolder, By: cat.ByHolders}},
	Gaps:    gaps,
	Claims:  claims,
	Labels:  labels,
	PublicLabels: []string{
		"card_model", "card_series", "card_vendor", "driver_version", "gpu_partition_id", "gpu_compute_partition_type", "gpu_memory_partition_type",
		"clock_type",
	},
	BlankText: blankText,
	OwnsName:  ownsName,
	Identify:  identify,
	// The operator names the container default-metrics-exporter. The Helm chart names the container
	// after the Helm release.
	IsExporter: func(h cat.Holder) bool {
		return strings.Contains(cmp.Or(h.Pod, h.Container, h.Name), "metrics-exporter")
	},
	Hooks: cat.Hooks{
		Spellings:     func(name string) []string { return []string{name, prefix + name} },
		AnyPrefix:     func(r *cat.Row) bool { return r.Get(rolePartitioning) != "" },
		BlankValue:    blankValue,
		Resolve:       resolve,
		MeasuresBoard: func(number int) bool { return number == 0 },
		EqualParts:    equalParts,
	},
})

// prefix is the prefix of the metric names in the exporter's example configuration. Users can
// configure a different prefix. A row with a different prefix belongs to the exporter if the row
// has the gpu_compute_partition_type label, which no other exporter uses. If the table does not
// contain the name without the prefix, the row is passed through unchanged.
const prefix = "amd_"

const (
	gfx          = "gpu_gfx_activity"
	gfxBusy      = "gpu_gfx_busy_instantaneous"
	used         = "gpu_used_vram"
	free         = "gpu_free_vram"
	total        = "gpu_total_vram"
	packagePower = "gpu_package_power"
	average      = "gpu_average_package_power"
	usage        = "gpu_power_usage"
	ticks        = "gpu_violation_current_accumulated_counter"
)

// groups contains the exporter's fields, grouped by topic. Canonical names are from release 1.4,
// and aliases are from earlier releases. Each field has the unit that its values actually have,
// even if HELP states a different unit. Memory is in MiB, and energy is in microjoules. The TYPE of
// every metric is gauge. Only the rows of a board's first partition contain the readings of the
// board's sensors. For partitions other than the first, the sensor rows contain 0 or are missing.
//
// A residency counts the clock ticks during which one cause throttled the GPU. The
// gpu_violation_current_accumulated_counter field counts all ticks. Several causes can throttle the
// GPU at the same time. MI2xx and Radeon GPUs have no residencies.
//
// Omitted on purpose:
//   - the *_percentage fields of the violations, which cover only a tenth of a second
//   - gfx_clock_below_host_limit_*, because it is unclear which clock it counts
//   - pcie_bandwidth, which is the sum of both directions
//   - pcie_rx and pcie_tx, which were always 0 in recordings
//   - gpu_afid_errors, which is a code and not a count
//   - gpu_xgmi_nbr_*, which counts the traffic of the xGMI links a second time
var groups = []cat.Group{
	{Title: "Utilization", Fields: []cat.Field{
		{Name: gfx, Unit: cat.Percent, Scope: cat.Board, Provides: cat.Made(signal.HwGPUUtilization, signal.TaskGeneral, cat.First(gfxBusy).Or(gfx))},
		{Name: gfxBusy, Unit: cat.Percent, Parts: cat.Mean},
	}},
	{Title: "Memory occupancy and pressure", Fields: []cat.Field{
		{Name: used, Unit: cat.MiB, Provides: memory},
		{Name: free, Unit: cat.MiB},
		{Name: total, Unit: cat.MiB, ZeroIsNone: true, Provides: memorySize},
	}},
	{Title: "Throttling: ticks by cause, on MI3xx", Fields: []cat.Field{
		{Name: "gpu_violation_ppt_residency_accumulated", Unit: cat.Tick, Kind: cat.Counter, Scope: cat.Board, Provides: throttled("power", "gpu_violation_ppt_residency_accumulated")},
		{Name: "gpu_violation_socket_thermal_residency_accumulated", Unit: cat.Tick, Kind: cat.Counter, Scope: cat.Board, Aliases: cat.Names("gpu_violation_soc_thermal_residency_accumulated"), Provides: throttled("thermal", "gpu_violation_socket_thermal_residency_accumulated")},
		{Name: "gpu_violation_processor_hot_residency_accumulated", Unit: cat.Tick, Kind: cat.Counter, Scope: cat.Board, Aliases: cat.Names("gpu_violation_proc_hot_residency_accumulated"), Provides: throttled("processor_hot", "gpu_violation_processor_hot_residency_accumulated")},
		{Name: "gpu_violation_vr_thermal_residency_accumulated", Unit: cat.Tick, Kind: cat.Counter, Scope: cat.Board, Aliases: cat.Names("gpu_violation_vr_thermal_tracking_accumulated"), Provides: throttled("vr_thermal", "gpu_violation_vr_thermal_residency_accumulated")},
		{Name: "gpu_violation_hbm_thermal_residency_accumulated", Unit: cat.Tick, Kind: cat.Counter, Scope: cat.Board, Provides: throttled("hbm_thermal", "gpu_violation_hbm_thermal_residency_accumulated")},
		{Name: ticks, Unit: cat.Tick, Kind: cat.Counter, Scope: cat.Board, ZeroIsNone: true},
		{Name: "gpu_clock{system}", Unit: cat.MHz, Scope: cat.Board, ZeroIsNone: true, Cut: cat.Names("system", "GPU_CLOCK_TYPE_SYSTEM"), Provides: cat.Provides(signal.GPUClockFrequency, signal.DomainSM)},
		{Name: "gpu_clock{memory}", Unit: cat.MHz, Scope: cat.Board, ZeroIsNone: true, Cut: cat.Names("memory", "GPU_CLOCK_TYPE_MEMORY"), Provides: cat.Provides(signal.GPUClockFrequency, signal.DomainMemory)},
	}},
	{Title: "Errors", Fields: []cat.Field{
		{Name: "gpu_ecc_correct_total", Unit: cat.None, Kind: cat.Counter, Scope: cat.Board, Provides: ecc("corrected", "gpu_ecc_correct_")},
		ofBlocks("gpu_ecc_correct_"),
		{Name: "gpu_ecc_uncorrect_total", Unit: cat.None, Kind: cat.Counter, Scope: cat.Board, Provides: ecc("uncorrected", "gpu_ecc_uncorrect_")},
		ofBlocks("gpu_ecc_uncorrect_"),
		{Name: "gpu_ecc_deferred_total", Unit: cat.None, Kind: cat.Counter, Scope: cat.Board, Provides: ecc("deferred", "gpu_ecc_deferred_")},
		ofBlocks("gpu_ecc_deferred_"),
		{Name: "gpu_health", Unit: cat.Flag, Scope: cat.Board, Health: healthy, Provides: []cat.Signal{{Metric: signal.HwStatus, By: cat.ByHealth}}},
		{Name: "pcie_replay_count", Unit: cat.None, Kind: cat.Counter, Scope: cat.Board, Provides: cat.Provides(signal.HwErrors, "pcie_replay")},
	}},
	{Title: "Activity (the gpu_prof_ fields are off by default)", Fields: []cat.Field{
		{Name: "gpu_umc_activity", Unit: cat.Percent, Scope: cat.Board, Provides: cat.Provides(signal.GPUDRAMActive)},
		{Name: "gpu_prof_sm_active", Unit: cat.Percent, Provides: cat.Provides(signal.GPUSMActive)},
		{Name: "gpu_prof_occupancy_percent", Unit: cat.Percent, Provides: cat.Provides(signal.GPUSMOccupancy)},
		{Name: "gpu_prof_tensor_active_percent", Unit: cat.Percent, Provides: cat.Provides(signal.GPUPipeActive, "tensor")},
	}},
	{Title: "Links", Fields: []cat.Field{xgmi("tx", signal.DirectionTransmit), xgmi("rx", signal.DirectionReceive)}},
	{Title: "Power and temperature", Fields: []cat.Field{
		{Name: packagePower, Unit: cat.Watt, Scope: cat.Board, ZeroIsNone: true, Provides: cat.Made(signal.HwPower, "", cat.First(packagePower).Or(average).Or(usage))},
		{Name: average, Unit: cat.Watt, Scope: cat.Board, ZeroIsNone: true},
		{Name: usage, Unit: cat.Watt, Scope: cat.Board, ZeroIsNone: true},
		{Name: "gpu_energy_consumed", Unit: cat.Microjoule, Kind: cat.Counter, Scope: cat.Board, ZeroIsNone: true, Provides: cat.Provides(signal.HwEnergy)},
		{Name: "gpu_edge_temperature", Unit: cat.Celsius, Scope: cat.Board, ZeroIsNone: true, Provides: cat.Provides(signal.HwTemperature, signal.LocationEdge)},
		{Name: "gpu_junction_temperature", Unit: cat.Celsius, Scope: cat.Board, ZeroIsNone: true, Provides: cat.Provides(signal.HwTemperature, signal.LocationJunction)},
		{Name: "gpu_memory_temperature", Unit: cat.Celsius, Scope: cat.Board, ZeroIsNone: true, Provides: cat.Made(signal.HwTemperature, signal.LocationMemory, cat.First("gpu_memory_temperature").Or("gpu_hbm_temperature"))},
		{Name: "gpu_hbm_temperature", Unit: cat.Celsius, Scope: cat.Board, ZeroIsNone: true},
	}},
}

// gaps explains why this exporter does not provide some of the metrics that other exporters
// provide.
var gaps = cat.Gaps(map[string][]*signal.Metric{
	"only the fraction of 0.1 s is exposed":            {signal.GPUClockEventActive},
	"the residencies are in `gpu.clock.throttle.time`": {signal.GPUClockEventTime},
	"not exposed":                           {signal.GPUEngineActive, signal.GPURecoveryAction, signal.GPUPowerLimit, signal.GPUPCIeLinkWidth},
	"exposed as the sum of both directions": {signal.GPUPCIeThroughput, signal.GPUPCIeUtilization, signal.HwGPUIO},
	"no NVLink; see `gpu.xgmi.throughput`":  {signal.GPUNVLinkThroughput},
	"no NVLink":                             {signal.GPUNVLinkUtilization},
	"from pods and schedulers":              {signal.K8sContainerGPUMemoryBudget},
	"no process rows":                       {signal.K8sContainerGPUMemoryUsage, signal.K8sContainerGPUUtilization},
})

// The memory size is the exposed size, or the sum of used and free memory if the exporter does not
// expose the size.
var (
	memory = []cat.Signal{
		{Metric: signal.HwGPUMemoryUtilization, From: cat.First(used, total).Or(used, free), Make: occupancy},
		{Metric: signal.HwGPUMemoryUsage, From: cat.First(used)},
	}
	memorySize = []cat.Signal{{Metric: signal.HwGPUMemoryLimit, From: cat.First(total).Or(used, free), Make: cat.Size}}
)

func occupancy(set int, v []float64) (float64, bool) {
	all := v[1]
	if set == 1 {
		all += v[0]
	}
	return v[0] / all, all > 0
}

// healthy converts the value of gpu_health to a health state. A value of 1 means healthy.
func healthy(v float64) (cat.Health, bool) {
	if v == 1 {
		return cat.HealthOK, true
	}
	return cat.HealthFailed, true
}

// xgmi returns the field that sums the bytes of all links in one direction. The first link
// represents the GPU itself, so the value of the first link is always 0.
func xgmi(name, direction string) cat.Field {
	return cat.Field{
		Name: "gpu_xgmi_link_" + name, Unit: cat.Kilobyte, Kind: cat.Counter, Scope: cat.Board, Parts: cat.Sum,
		Provides: cat.Provides(signal.GPUXGMIThroughput, direction),
	}
}

// throttled returns the signal for the time during which the given cause throttled the GPU. The
// signal is computed from the given field, which counts ticks.
func throttled(cause, field string) []cat.Signal {
	return []cat.Signal{{
		Metric: signal.GPUClockThrottleTime, Part: cause, From: cat.First(field, ticks),
		By: cat.ByTracker, Track: func() cat.Tracker { return &residency{} },
	}}
}

// blocks lists the parts of a GPU that have separate error counters.
var blocks = cat.Names("umc", "gfx", "sdma", "mmhub", "athub", "bif", "hdp", "xgmi_wafl", "df", "smn", "sem",
	"mp0", "mp1", "fuse", "mca", "vcn", "jpeg", "ih", "mpio")

// ofBlocks returns the field that sums the error counters of all blocks.
func ofBlocks(begin string) cat.Field {
	f := cat.Field{Name: begin + blocks[0], Unit: cat.None, Kind: cat.Counter, Scope: cat.Board, Parts: cat.Sum}
	for _, b := range blocks[1:] {
		f.Aliases = append(f.Aliases, begin+b)
	}
	return f
}

// ecc returns the signal for ECC errors: the exporter's total, or the sum over the blocks if there
// is no total.
func ecc(kind, begin string) []cat.Signal {
	return []cat.Signal{{Metric: signal.HwErrors, Part: kind, From: cat.First(begin + "total").Or(begin + blocks[0]), Lasting: true}}
}
