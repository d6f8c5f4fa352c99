// Package intel contains the catalogue table for Intel's xpumd, which is itself an OpenTelemetry
// Collector.
package intel

import (
	"slices"
	"strconv"
	"strings"

	cat "github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Exporter is the table for xpumd 2.
var Exporter = cat.New(cat.Exporter{
	Name:         "xpumd",
	Vendor:       signal.VendorIntel,
	Experimental: "based on the source code of a release candidate and one synthetic output. Send xpumd's OTLP to the otlp receiver instead of scraping its Prometheus endpoint, which has the vendor on only one metric.",
	Groups:       groups,
	Gaps:         gaps,
	TurnOn:       "xpumd needs CAP_SYS_ADMIN for the load of engines, and root for temperatures and the memory's bandwidth.",

	Claims: claims,
	Labels: labels,
	PublicLabels: []string{
		"hw_vendor", "hw_model", "hw_driver_version", "pci_bdf", "hw_gpu_task", "hw_memory_location", "hw_sensor_location", "hw_frequency_domain",
		"network_io_direction", "com_intel_speed_throttle_reason", "error_type", "error_category", "aggregation",
	},
	OwnsName:   func(name string) bool { return strings.HasPrefix(name, "hw.") || strings.HasPrefix(name, "hw_") },
	Identify:   identify,
	IsExporter: func(h cat.Holder) bool { return strings.Contains(h.Pod, "xpum") },
})

// groups contains the exporter's fields, grouped by topic. The fields' names are the metric names
// in OTLP, and the aliases are the metric names on the Prometheus endpoint. The engine groups
// overlap, so their values are never added. The value of the group of all engines is preferred to
// the value of the group of compute engines.
//
// Other hw.* metrics of xpumd are dropped, so that their series do not mix with this distribution's
// series.
//
// Omitted on purpose:
//   - hw.power.limit, which is wrong by a factor of a million
//   - hw.memory.io, whose unit is unclear
//   - hw.gpu.bandwidth.utilization, whose directions are unknown
var groups = []cat.Group{
	{Title: "Utilization", Fields: []cat.Field{
		{Name: "hw.gpu.utilization{all}", Unit: cat.Ratio, Aliases: cat.Names("hw_gpu_utilization_ratio"), Cut: cat.Names("all"), Provides: []cat.Signal{
			{Metric: signal.HwGPUUtilization, Part: signal.TaskGeneral, From: [][]string{{"hw.gpu.utilization{all}"}, {"hw.gpu.utilization{compute_all}"}}},
		}},
		{Name: "hw.gpu.utilization{compute_all}", Unit: cat.Ratio, Aliases: cat.Names("hw_gpu_utilization_ratio"), Cut: cat.Names("compute_all")},
	}},
	{Title: "Memory occupancy and pressure", Fields: []cat.Field{
		{Name: used, Unit: cat.Byte, Aliases: cat.Names("hw_memory_usage_bytes"), Cut: cat.Names("device"), Provides: []cat.Signal{
			{Metric: signal.HwGPUMemoryUtilization, From: [][]string{{used, size}}, Make: cat.Share},
			{Metric: signal.HwGPUMemoryUsage, From: [][]string{{used}}},
		}},
		{Name: size, Unit: cat.Byte, Aliases: cat.Names("hw_memory_size_bytes"), Cut: cat.Names("device"), ZeroIsNone: true, Provides: cat.Provides(signal.HwGPUMemoryLimit, "")},
		{Name: "hw.memory.bandwidth.utilization{device}", Unit: cat.Ratio, Aliases: cat.Names("hw_memory_bandwidth_utilization_ratio"), Cut: cat.Names("device"), Provides: cat.Provides(signal.GPUDRAMActive, "")},
	}},
	{Title: "Throttling: reasons, each exposed after it first occurred", Fields: reasons()},
	{Title: "Errors", Fields: []cat.Field{
		errors("correctable", "corrected"), errors("uncorrectable", "uncorrected"),
	}},
	{Title: "Links", Fields: []cat.Field{
		io("transmit"), io("receive"),
	}},
	{Title: "Power, clock and temperature", Fields: slices.Concat(
		sensors("hw.power", "hw_power_watts", cat.Watt, cat.Level, signal.HwPower),
		sensors("hw.energy", "hw_energy_joules_total", cat.Joule, cat.Counter, signal.HwEnergy),
		[]cat.Field{
			{Name: "hw.frequency", Unit: cat.Hz, Aliases: cat.Names("hw_frequency_hertz"), Provides: cat.Provides(signal.GPUClockFrequency, signal.DomainSM)},
			{Name: "hw.temperature{gpu}", Unit: cat.Celsius, Aliases: cat.Names("hw_temperature_celsius"), Cut: cat.Names("gpu"), Provides: cat.Provides(signal.HwTemperature, signal.LocationGPU)},
			{Name: "hw.temperature{memory}", Unit: cat.Celsius, Aliases: cat.Names("hw_temperature_celsius"), Cut: cat.Names("memory"), Provides: cat.Provides(signal.HwTemperature, signal.LocationMemory)},
		},
	)},
	{Title: "Description", Fields: []cat.Field{{Name: "hw_gpu_info", Unit: cat.None}}},
}

const (
	used = "hw.memory.usage{device}"
	size = "hw.memory.size{device}"
)

// reasons returns the fields for Level Zero's throttle reasons. Each field is 1 while its reason is
// active.
func reasons() (out []cat.Field) {
	for _, reason := range cat.Names("ave_pwr_cap", "burst_pwr_cap", "current_limit", "thermal_limit", "psu_alert", "sw_range", "hw_range", "voltage", "thermal", "power") {
		out = append(out, cat.Field{
			Name: "hw.frequency.throttle_status{" + reason + "}", Unit: cat.Flag, Aliases: cat.Names("hw_frequency_throttle_status"), Cut: cat.Names(reason),
			Provides: cat.Provides(signal.GPUClockEventActive, reason),
		})
	}
	return out
}

// errors returns a field that counts the errors of one category.
func errors(kind, errorType string) cat.Field {
	return cat.Field{
		Name: "hw.errors{" + kind + "}", Unit: cat.None, Kind: cat.Counter, Parts: cat.Sum, Aliases: cat.Names("hw_errors_total"), Cut: cat.Names(kind),
		Provides: cat.Provides(signal.HwErrors, errorType),
	}
}

func io(direction string) cat.Field {
	return cat.Field{
		Name: "hw.gpu.io{" + direction + "}", Unit: cat.ByteCount, Kind: cat.Counter, Aliases: cat.Names("hw_gpu_io_bytes_total"), Cut: cat.Names(direction),
		Provides: slices.Concat(cat.Provides(signal.GPUPCIeThroughput, direction), cat.Provides(signal.HwGPUIO, direction)),
	}
}

// sensors returns the fields of two sensors: the card's sensor, whose values include the package,
// and the package's sensor.
func sensors(name, alias string, unit cat.Unit, kind cat.Kind, m *signal.Metric) []cat.Field {
	field := func(where string) cat.Field {
		return cat.Field{Name: name + "{" + where + "}", Unit: unit, Kind: kind, Aliases: cat.Names(alias), Cut: cat.Names(where)}
	}
	card, chip := field("card"), field("package")
	card.Provides = []cat.Signal{{Metric: m, From: [][]string{{card.Name}, {chip.Name}}, Lasting: true}}
	return []cat.Field{card, chip}
}

// gaps explains why this exporter does not provide some of the metrics that other exporters
// provide.
var gaps = cat.Gaps(map[string][]*signal.Metric{
	"only the current reasons are exposed":        {signal.GPUClockThrottleTime, signal.GPUClockEventTime},
	"only for sensors, not for the device":        {signal.HwStatus},
	"not exposed":                                 {signal.GPURecoveryAction, signal.GPUEngineActive, signal.GPUPipeActive, signal.GPUSMActive, signal.GPUSMOccupancy, signal.GPUPCIeLinkWidth},
	"exposed values are a million times too high": {signal.GPUPowerLimit},
	"exposed without a known direction":           {signal.GPUPCIeUtilization},
	"no NVLink; Xe Link is not exposed":           {signal.GPUNVLinkThroughput, signal.GPUNVLinkUtilization},
	"from pods and schedulers":                    {signal.K8sContainerGPUMemoryBudget},
	"no xGMI":                                     {signal.GPUXGMIThroughput},
	"no pod labels":                               {signal.GPUDeviceHolder},
	"no process rows":                             {signal.K8sContainerGPUMemoryUsage, signal.K8sContainerGPUUtilization},
})

const (
	// roleDomain is the clock domain.
	roleDomain = cat.RoleOwn + iota
	// roleAggregation specifies how the values within an interval were aggregated.
	roleAggregation
)

// labels contains the OTLP attribute names and their spellings in Prometheus.
var labels = func() map[cat.Role][]string {
	out := map[cat.Role][]string{
		cat.RoleUUID: {"hw.id"}, cat.RoleVendor: {"hw.vendor"}, cat.RoleModel: {"hw.model"}, cat.RoleIndex: {"pci.bdf"},
		cat.RoleSerial: {"hw.serial_number"}, cat.RoleDriverVersion: {"hw.driver_version"},
		cat.RolePartition: {"com.intel.subdevice_id"},
		cat.RoleCut: {
			"hw.gpu.task", "hw.memory.location", "hw.sensor_location", "network.io.direction",
			"com.intel.speed.throttle_reason", "error.type",
		},
		cat.RolePart: {"error.category"}, roleDomain: {"hw.frequency.domain"}, roleAggregation: {"aggregation"},
	}
	for role, names := range out {
		for _, name := range names {
			if underscored := strings.ReplaceAll(name, ".", "_"); underscored != name {
				out[role] = append(out[role], underscored)
			}
		}
	}
	return out
}()

// pciVendor is Intel's PCI vendor ID in hexadecimal.
const pciVendor = "8086"

// claims reports whether a row's labels identify it as a row of xpumd. The metric names do not
// identify xpumd, because they are from the semantic conventions for hardware, which this
// distribution's metrics also follow.
func claims(r *cat.Row) bool {
	vendor := strings.ToLower(strings.TrimSpace(r.Get(cat.RoleVendor)))
	return r.Get(cat.RoleUUID) != "" && r.Get(cat.RoleIndex) != "" &&
		(vendor == "" || strings.Contains(vendor, "intel") || strings.TrimPrefix(vendor, "0x") == pciVendor)
}

// identify returns the board or the tile that a row describes. A row with a clock frequency is
// accepted only if the frequency is the mean frequency of the GPU's clock.
func identify(r *cat.Row) (cat.Identity, cat.Refusal) {
	board, tile := r.Get(cat.RoleUUID), r.Get(cat.RolePartition)
	if domain, how := r.Get(roleDomain), r.Get(roleAggregation); domain != "" && domain != "gpu" || how != "" && how != "avg" {
		return cat.Identity{}, cat.OtherEntity
	}
	if tile == "" {
		return cat.Identity{Board: board}, cat.Accepted
	}
	number, err := strconv.Atoi(tile)
	if err != nil {
		return cat.Identity{}, cat.NoDevice
	}
	return cat.Identity{Board: board, Instance: board + "/tile" + tile, Number: number}, cat.Accepted
}
