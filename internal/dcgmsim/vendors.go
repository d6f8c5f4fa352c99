package dcgmsim

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// vendor is the manufacturer of a node's devices. The values of vendor are those of OpenTelemetry's
// hw.vendor. The vendor determines which exporter runs on the node.
type vendor string

const (
	nvidia vendor = "NVIDIA"
	amd    vendor = "AMD"
	google vendor = "Google"
	aws    vendor = "AWS"
)

// vendors lists the vendors of consecutive nodes in the vendors scenario.
var vendors = []vendor{nvidia, amd, google, aws}

// otherVendorsDevices is the maximum number of devices on a node whose vendor is not NVIDIA. A TPU
// machine has four chips, and there are four scenarios for AMD devices.
const otherVendorsDevices = 4

// vendorOf returns the vendor of the nth node.
func vendorOf(scenario string, n int) vendor {
	if scenario == ScenarioVendors {
		return vendors[n%len(vendors)]
	}
	return nvidia
}

// These boards are from vendors other than NVIDIA.
var (
	mi300x = hardware{
		model: "AMD Instinct MI300X OAM", driver: "6.16.6",
		fbMiB: 196592, idleWatts: 140, limitWatts: 750, smMHz: 2100, memMHz: 1300, pcieGen: 5, pcieBytes: 63e9,
	}
	tpuV5p   = hardware{model: "tpu-v5p-slice", fbMiB: 98041}
	trainium = hardware{model: "Trainium", fbMiB: 32768}
)

// hardware returns the vendor's board. NVIDIA's board depends on the style.
func (v vendor) hardware(style Style) *hardware {
	switch v {
	case amd:
		return &mi300x
	case google:
		return &tpuV5p
	case aws:
		return &trainium
	default:
		return style.hardware()
	}
}

// contentType returns the Content-Type header of a node's exporter, or "" if net/http must detect
// the content type.
func (s *Simulation) contentType(node int) string {
	if s.nodes[node].vendor != nvidia || s.config.Style.in(since483) {
		return "text/plain; version=0.0.4; charset=utf-8"
	}
	return ""
}

// identify sets the identity that the vendor's exporter exposes for the device.
func (v vendor) identify(g *gpu, n int) {
	switch v {
	case amd:
		g.uuid = uuid("x", key(n, g.index))[2:]
		g.serial = strconv.FormatUint(key(n, g.index)%1e12, 10)
	case google:
		machine := key(n, 0) >> 1
		g.uuid = fmt.Sprintf("%d-%d", machine, g.index)
		// The chips of a machine form a two-by-two square. The slice is eight chips wide.
		g.sliceID = fmt.Sprintf("%d-%d", machine, 404+g.index%2+g.index/2*8)
	case aws:
		g.uuid = fmt.Sprintf("i-%017x/neuron%d", key(n, 0), g.index)
	default:
		g.uuid = uuid("GPU", key(n, g.index))
	}
}

// measure is a metric family, or the rows of a family that have the same additional label. The
// exporters of vendors other than NVIDIA expose even counters as gauges.
type measure struct {
	name, help string
	extra      []label
	value      func(r *reading, at time.Duration) float64
}

// The scaled function returns a function that converts the quantity to another unit.
func scaled(q quantity, factor float64) func(*reading, time.Duration) float64 {
	return func(r *reading, _ time.Duration) float64 { return r[q].value() * factor }
}

// rounded returns a function that converts the quantity to another unit and rounds the
// result to an integer.
func rounded(q quantity, factor float64) func(*reading, time.Duration) float64 {
	return func(r *reading, _ time.Duration) float64 { return math.Round(r[q].value() * factor) }
}

// tick is the unit of AMD's residencies, and bootTicks is the number of ticks between the machine's
// boot and the start of the simulation.
const (
	tick      = time.Millisecond
	bootTicks = 30 * 24 * time.Hour / tick
	ticks     = 1 / float64(tick)
)

// xccs is the number of compute dies of a board.
const xccs = 8

// amdMeasures are the metrics of AMD's device-metrics-exporter for an unpartitioned board, with the
// names of release 1.5. The voltage regulators and the memory never overheat in the stories.
var amdMeasures = slices.Concat([]measure{
	{name: "gpu_clock", help: "Current clock frequency in MHz", extra: []label{{"clock_index", "0"}, {"clock_type", "system"}}, value: rounded(smClock, 1)},
	{name: "gpu_clock", extra: []label{{"clock_index", "8"}, {"clock_type", "memory"}}, value: rounded(memClock, 1)},
	{name: "gpu_ecc_correct_total", help: "Correctable errors", value: rounded(eccSBE, 1)},
	{name: "gpu_ecc_uncorrect_total", help: "Uncorrectable errors", value: rounded(eccDBE, 1)},
	{name: "gpu_energy_consumed", help: "Accumulated energy in uJ", value: rounded(energy, 1e3)},
	{name: "gpu_free_vram", help: "Free VRAM in MB", value: rounded(fbFree, 1)},
	{name: "gpu_gfx_activity", help: "Graphics engine activity in percent", value: rounded(gpuUtil, 1)},
}, busyPerXCC(), []measure{
	{name: "gpu_health", help: "Health: 1 healthy, 0 not", value: func(*reading, time.Duration) float64 { return 1 }},
	{name: "gpu_junction_temperature", help: "Junction temperature in Celsius", value: rounded(gpuTemp, 1)},
	{name: "gpu_memory_temperature", help: "Memory temperature in Celsius", value: rounded(memTemp, 1)},
	{name: "gpu_package_power", help: "Socket power in Watts", value: rounded(powerUsage, 1)},
	{name: "gpu_total_vram", help: "Total VRAM in MB", value: rounded(fbTotal, 1)},
	{name: "gpu_umc_activity", help: "Memory controller activity in percent", value: rounded(dramActive, 100)},
	{name: "gpu_used_vram", help: "Used VRAM in MB", value: rounded(fbUsed, 1)},
	{name: "gpu_violation_current_accumulated_counter", help: "Ticks of the violation clock", value: func(_ *reading, at time.Duration) float64 { return float64(bootTicks + at/tick) }},
	{name: "gpu_violation_hbm_thermal_residency_accumulated", help: "Ticks throttled for the memory's temperature", value: rounded(boardLimitViolation, ticks)},
	{name: "gpu_violation_ppt_residency_accumulated", help: "Ticks throttled for power", value: rounded(powerViolation, ticks)},
	{name: "gpu_violation_processor_hot_residency_accumulated", help: "Ticks throttled by the hot signal", value: rounded(hwThermalTime, ticks)},
	{name: "gpu_violation_socket_thermal_residency_accumulated", help: "Ticks throttled for the socket's temperature", value: rounded(thermalViolation, ticks)},
	{name: "gpu_violation_vr_thermal_residency_accumulated", help: "Ticks throttled for the regulators' temperature", value: rounded(boardLimitViolation, ticks)},
	{name: "pcie_replay_count", help: "PCIe replays", value: rounded(pcieReplay, 1)},
})

// busyPerXCC returns the activity of each compute die, which is the same for all dies.
func busyPerXCC() []measure {
	out := make([]measure, xccs)
	for i := range out {
		out[i] = measure{
			name: "gpu_gfx_busy_instantaneous", help: "Activity of a compute die in percent",
			extra: []label{{"xcc_index", strconv.Itoa(i)}}, value: rounded(gpuUtil, 1),
		}
	}
	return out
}

// tpuMeasures are the metrics of GKE's TPU device plugin for a chip that a pod holds. The metrics
// for a node have the same names with the suffix _node. The runtime's metrics use the chip numbers
// within the entire slice.
var tpuMeasures = []struct {
	measure
	runtime bool
}{
	{measure{name: "duty_cycle", help: "Percent of time in which the chip was busy", value: scaled(gpuUtil, 1)}, true},
	{measure{name: "memory_bandwidth_utilization", help: "Percent of the memory bandwidth", value: scaled(dramActive, 100)}, false},
	{measure{name: "memory_total", help: "Memory of the chip in bytes", value: scaled(fbTotal, 1<<20)}, true},
	{measure{name: "memory_used", help: "Memory in use in bytes", value: scaled(fbUsed, 1<<20)}, true},
	{measure{name: "tensorcore_utilization", help: "Percent of the tensor core's capacity", value: scaled(pipeTensor, 100)}, false},
}

// amdBody writes the body of an AMD node.
func (r *renderer) amdBody() {
	for i, m := range amdMeasures {
		r.measure(m, i == 0 || amdMeasures[i-1].name != m.name, r.amdLabels)
	}
}

func (r *renderer) amdLabels(e *entity) []label {
	var p pod
	if len(e.holders) > 0 {
		p = e.holders[0]
	}
	return []label{
		{"card_model", "102-G30211-0C"},
		{"card_series", e.gpu.hardware.model},
		{"card_vendor", "AMD"},
		{"cluster_name", ""},
		{"container", p.container},
		{"deployment_mode", "baremetal"},
		{"driver_version", e.gpu.hardware.driver},
		{"gpu_compute_partition_type", "spx"},
		{"gpu_id", strconv.Itoa(e.gpu.index)},
		{"gpu_memory_partition_type", "nps1"},
		{"gpu_partition_id", "0"},
		{"gpu_uuid", e.gpu.uuid},
		{"hostname", r.node.name},
		{"job_id", ""},
		{"job_partition", ""},
		{"job_user", ""},
		{"namespace", p.namespace},
		{"pod", p.name},
		{"serial_number", e.gpu.serial},
	}
}

// tpuBody writes the body of a TPU node. Each family is written first for the pods and then for the
// devices.
func (r *renderer) tpuBody() {
	for _, m := range tpuMeasures {
		labels := func(e *entity) []label {
			id := e.gpu.uuid
			if m.runtime {
				id = e.gpu.sliceID
			}
			return []label{{"accelerator_id", id}, {"make", "cloud-tpu"}, {"model", e.gpu.hardware.model}, {"tpu_topology", "8x8x16"}}
		}
		r.measure(m.measure, true, func(e *entity) []label {
			p := e.holders[0]
			return append(labels(e), label{"container", p.container}, label{"namespace", p.namespace}, label{"pod", p.name})
		})
		m.name += "_node"
		r.measure(m.measure, true, labels)
	}
}

// neuronCores is the number of cores of a Trainium device.
const neuronCores = 2

// neuronMeasures are the metrics of neuron-monitor's script for a core that a process uses. The
// process uses the same amount of memory on both cores.
var neuronMeasures = []measure{
	{name: "neuroncore_memory_usage_model_code", help: "Bytes of model code on the core", extra: []label{{"memory_location", "None"}}, value: scaled(fbUsed, 1<<20/neuronCores/4.)},
	{name: "neuroncore_memory_usage_tensors", help: "Bytes of tensors on the core", extra: []label{{"memory_location", "None"}}, value: scaled(fbUsed, 1<<20/neuronCores*3/4.)},
	{name: "neuroncore_utilization_ratio", help: "Share of the time in which the core was busy", value: scaled(gpuUtil, 1./100)},
}

// neuronBody writes the body of a machine with Neuron devices. Each device has its own process.
func (r *renderer) neuronBody() {
	for _, m := range neuronMeasures {
		for core := range neuronCores {
			r.measure(m, core == 0, func(e *entity) []label {
				machine, _, _ := strings.Cut(e.gpu.uuid, "/")
				return []label{
					{"availability_zone", "us-east-1a"},
					{"instance_id", machine},
					{"instance_name", ""},
					{"instance_type", "trn1.32xlarge"},
					{"neuroncore", strconv.Itoa(e.gpu.index*neuronCores + core)},
					{"region", "us-east-1"},
					{"runtime_tag", strconv.Itoa(4000 + e.gpu.index)},
					{"subnet_id", "subnet-1"},
				}
			})
		}
	}
}

// measure writes the rows of a measure. If the second argument is true, HELP and TYPE are written
// first.
func (r *renderer) measure(m measure, begins bool, labels func(*entity) []label) {
	if begins {
		r.header(&field{name: m.name, help: m.help, typ: gauge})
	}
	for i, e := range r.node.entities {
		set := labelSet{identity: slices.Concat(labels(e), m.extra)}
		slices.SortFunc(set.identity, label.compare)
		r.out = append(r.out, m.name...)
		r.out = append(r.out, set.text(Style483)...)
		r.out = strconv.AppendFloat(r.out, m.value(&r.readings[i], r.at), 'g', -1, 64)
		r.out = append(r.out, '\n')
	}
}
