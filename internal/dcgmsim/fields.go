package dcgmsim

import "math"

// quantity is what a field reads from a device.
type quantity int

const (
	smClock quantity = iota
	memClock
	eventReasons
	memTemp
	gpuTemp
	powerUsage
	enforcedLimit
	energy
	pcieTxKB
	pcieRxKB
	pcieReplay
	gpuUtil
	memCopyUtil
	encUtil
	decUtil
	xidLast
	pcieMaxGen
	pcieMaxWidth
	pcieGen
	pcieWidth
	powerViolation
	thermalViolation
	syncBoostViolation
	boardLimitViolation
	lowUtilViolation
	reliabilityViolation
	fbTotal
	fbFree
	fbUsed
	fbReserved
	eccSBE
	eccDBE
	remapUncorrectable
	remapCorrectable
	remapFailed
	remapPending
	recoveryAction
	fabricHealth
	linkCRCErrors
	linkReplays
	linkRecoveries
	linkBandwidth
	vgpuLicense
	grEngine
	smActive
	smOccupancy
	pipeTensor
	dramActive
	pipeFP64
	pipeFP32
	pipeFP16
	profPCIeTx
	profPCIeRx
	profNVLinkTx
	profNVLinkRx
	swPowerCapTime
	syncBoostTime
	swThermalTime
	hwThermalTime
	hwPowerBrakeTime
	xidWindow
	clockEventsWindow
	xidTotal
	clockEventsTotal
	quantities
)

// number is a field value with DCGM's type: the exporter prints integers and
// floats differently.
type number struct {
	int    int64
	float  float64
	double bool
	valid  bool
}

func integer(v int64) number { return number{int: v, valid: true} }

// double rounds to the six decimals that "%f" prints, so that every style
// exposes the same value.
func double(v float64) number {
	return number{float: math.Round(v*1e6) / 1e6, double: true, valid: true}
}

func (n number) value() float64 {
	if n.double {
		return n.float
	}
	return float64(n.int)
}

// field is one row of a counters csv.
type field struct {
	// id is DCGM's field id, or the exporter's own for DCGM_EXP_*; text/template
	// walked the counters in this order.
	id       int
	quantity quantity
	name     string
	typ      string
	help     string
	// gpuOnly fields do not exist under MIG. Other fields of the board are repeated on the row
	// of every instance.
	gpuOnly bool
	// convert changes the unit, nil keeps the value.
	convert func(number) number
}

// Conversions to the base units of DCGM 4.7.
func times(factor int64) func(number) number {
	return func(n number) number { return integer(n.int * factor) }
}

func millijoules(n number) number { return integer(n.int / 1000) }
func percent(n number) number     { return double(n.value() / 100) }

const (
	gauge   = "gauge"
	counter = "counter"
	mib     = 1 << 20
)

// csvRow is a field over all generations.
type csvRow struct {
	field
	// exists and shipped are the styles that know the field, and those whose
	// default-counters.csv has it.
	exists, shipped generation
	// renamed holds what DCGM 4.7 calls the field, empty if nothing changed.
	renamed field
}

// csv is the union of the counters of all styles, in the order of their ids.
// Names, types and help texts are those of the shipped csv files. Fields that
// are in none, not even as a comment, have a help text of our own.
var csv = []csvRow{
	{
		field{id: 100, quantity: smClock, name: "DCGM_FI_DEV_SM_CLOCK", typ: gauge, help: "SM clock frequency (in MHz)."},
		always, always,
		field{id: 1603, name: "DCGM_FI_DEV_SM_CLOCK_HERTZ", help: "SM clock frequency (in Hz).", convert: times(1e6)},
	},
	{
		field{id: 101, quantity: memClock, name: "DCGM_FI_DEV_MEM_CLOCK", typ: gauge, help: "Memory clock frequency (in MHz)."},
		always, always,
		field{id: 1604, name: "DCGM_FI_DEV_MEMORY_CLOCK_HERTZ", help: "Memory clock frequency (in Hz).", convert: times(1e6)},
	},
	{field{id: 112, quantity: eventReasons, name: "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", typ: gauge, help: "Current clock throttle reasons (bitmask)."}, until3, 0, field{}},
	{field{id: 112, quantity: eventReasons, name: "DCGM_FI_DEV_CLOCKS_EVENT_REASONS", typ: gauge, help: "Current clock event reasons (bitmask)."}, since45, 0, field{}},
	{
		field{id: 140, quantity: memTemp, name: "DCGM_FI_DEV_MEMORY_TEMP", typ: gauge, help: "Memory temperature (in C)."},
		always, always,
		field{id: 140, name: "DCGM_FI_DEV_MEMORY_TEMP_CELSIUS"},
	},
	{
		field{id: 150, quantity: gpuTemp, name: "DCGM_FI_DEV_GPU_TEMP", typ: gauge, help: "GPU temperature (in C)."},
		always, always,
		field{id: 150, name: "DCGM_FI_DEV_GPU_TEMP_CELSIUS"},
	},
	{
		field{id: 155, quantity: powerUsage, name: "DCGM_FI_DEV_POWER_USAGE", typ: gauge, help: "Power draw (in W)."},
		always, always,
		field{id: 155, name: "DCGM_FI_DEV_BOARD_POWER_WATTS"},
	},
	{
		field{id: 156, quantity: energy, name: "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", typ: counter, help: "Total energy consumption since boot (in mJ)."},
		always, always,
		field{id: 1611, name: "DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL", help: "Total energy consumption since boot (in J).", convert: millijoules},
	},
	{
		field{id: 164, quantity: enforcedLimit, name: "DCGM_FI_DEV_ENFORCED_POWER_LIMIT", typ: gauge, help: "Effective power limit that the driver enforces (in W)."},
		always, 0,
		field{id: 164, name: "DCGM_FI_DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS"},
	},
	{field{id: 174, quantity: fabricHealth, name: "DCGM_FI_DEV_FABRIC_HEALTH_MASK", typ: gauge, help: "Health of the NVLink fabric."}, since483, 0, field{}},
	{field{id: 200, quantity: pcieTxKB, name: "DCGM_FI_DEV_PCIE_TX_THROUGHPUT", typ: counter, help: "Total number of bytes transmitted through PCIe TX (in KB) via NVML."}, until3, until3, field{}},
	{field{id: 201, quantity: pcieRxKB, name: "DCGM_FI_DEV_PCIE_RX_THROUGHPUT", typ: counter, help: "Total number of bytes received through PCIe RX (in KB) via NVML."}, until3, until3, field{}},
	{
		field{id: 202, quantity: pcieReplay, name: "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", typ: counter, help: "Total number of PCIe retries."},
		always, always,
		field{id: 202, name: "DCGM_FI_DEV_PCIE_REPLAY_TOTAL"},
	},
	{
		field{id: 203, quantity: gpuUtil, name: "DCGM_FI_DEV_GPU_UTIL", typ: gauge, help: "GPU utilization (in %).", gpuOnly: true},
		always, always,
		field{id: 1613, name: "DCGM_FI_DEV_GPU_UTIL_RATIO", help: "GPU utilization (ratio).", convert: percent},
	},
	{
		field{id: 204, quantity: memCopyUtil, name: "DCGM_FI_DEV_MEM_COPY_UTIL", typ: gauge, help: "Memory utilization (in %).", gpuOnly: true},
		always, always,
		field{id: 1614, name: "DCGM_FI_DEV_MEMORY_UTIL_RATIO", help: "Memory utilization (ratio).", convert: percent},
	},
	{
		field{id: 206, quantity: encUtil, name: "DCGM_FI_DEV_ENC_UTIL", typ: gauge, help: "Encoder utilization (in %).", gpuOnly: true},
		always, always,
		field{id: 1615, name: "DCGM_FI_DEV_ENC_UTIL_RATIO", help: "Encoder utilization (ratio).", convert: percent},
	},
	{
		field{id: 207, quantity: decUtil, name: "DCGM_FI_DEV_DEC_UTIL", typ: gauge, help: "Decoder utilization (in %).", gpuOnly: true},
		always, always,
		field{id: 1616, name: "DCGM_FI_DEV_DEC_UTIL_RATIO", help: "Decoder utilization (ratio).", convert: percent},
	},
	{
		field{id: 230, quantity: xidLast, name: "DCGM_FI_DEV_XID_ERRORS", typ: gauge, help: "Value of the last XID error encountered."},
		always, always,
		field{id: 230, name: "DCGM_FI_DEV_XID_ERROR"},
	},
	{field{id: 235, quantity: pcieMaxGen, name: "DCGM_FI_DEV_PCIE_MAX_LINK_GEN", typ: gauge, help: "Maximum PCIe link generation of this device in this system."}, always, 0, field{}},
	{field{id: 236, quantity: pcieMaxWidth, name: "DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH", typ: gauge, help: "Maximum PCIe link width of this device in this system."}, always, 0, field{}},
	{field{id: 237, quantity: pcieGen, name: "DCGM_FI_DEV_PCIE_LINK_GEN", typ: gauge, help: "Current PCIe link generation."}, always, 0, field{}},
	{field{id: 238, quantity: pcieWidth, name: "DCGM_FI_DEV_PCIE_LINK_WIDTH", typ: gauge, help: "Current PCIe link width."}, always, 0, field{}},
	{field{id: 240, quantity: powerViolation, name: "DCGM_FI_DEV_POWER_VIOLATION", typ: counter, help: "Throttling duration due to power constraints (in ns)."}, always, 0, field{}},
	{field{id: 241, quantity: thermalViolation, name: "DCGM_FI_DEV_THERMAL_VIOLATION", typ: counter, help: "Throttling duration due to thermal constraints (in ns)."}, always, 0, field{}},
	{field{id: 242, quantity: syncBoostViolation, name: "DCGM_FI_DEV_SYNC_BOOST_VIOLATION", typ: counter, help: "Throttling duration due to sync-boost constraints (in ns)."}, always, 0, field{}},
	{field{id: 243, quantity: boardLimitViolation, name: "DCGM_FI_DEV_BOARD_LIMIT_VIOLATION", typ: counter, help: "Throttling duration due to board limit constraints (in ns)."}, always, 0, field{}},
	{field{id: 244, quantity: lowUtilViolation, name: "DCGM_FI_DEV_LOW_UTIL_VIOLATION", typ: counter, help: "Throttling duration due to low utilization (in ns)."}, always, 0, field{}},
	{field{id: 245, quantity: reliabilityViolation, name: "DCGM_FI_DEV_RELIABILITY_VIOLATION", typ: counter, help: "Throttling duration due to reliability constraints (in ns)."}, always, 0, field{}},
	{
		field{id: 250, quantity: fbTotal, name: "DCGM_FI_DEV_FB_TOTAL", typ: gauge, help: "Framebuffer memory total (in MiB)."},
		always, gen49,
		field{id: 1625, name: "DCGM_FI_DEV_FB_CAPACITY_BYTES", help: "Framebuffer memory capacity (in bytes).", convert: times(mib)},
	},
	{
		field{id: 251, quantity: fbFree, name: "DCGM_FI_DEV_FB_FREE", typ: gauge, help: "Framebuffer memory free (in MiB)."},
		always, always,
		field{id: 1626, name: "DCGM_FI_DEV_FB_FREE_BYTES", help: "Framebuffer memory free (in bytes).", convert: times(mib)},
	},
	{
		field{id: 252, quantity: fbUsed, name: "DCGM_FI_DEV_FB_USED", typ: gauge, help: "Framebuffer memory used (in MiB)."},
		always, always,
		field{id: 1627, name: "DCGM_FI_DEV_FB_USED_BYTES", help: "Framebuffer memory used (in bytes).", convert: times(mib)},
	},
	{
		field{id: 253, quantity: fbReserved, name: "DCGM_FI_DEV_FB_RESERVED", typ: gauge, help: "Framebuffer memory reserved (in MiB)."},
		since45, since45,
		field{id: 1628, name: "DCGM_FI_DEV_FB_RESERVED_BYTES", help: "Framebuffer memory reserved (in bytes).", convert: times(mib)},
	},
	{field{id: 310, quantity: eccSBE, name: "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", typ: counter, help: "Total number of single-bit volatile ECC errors."}, always, 0, field{}},
	{field{id: 311, quantity: eccDBE, name: "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", typ: counter, help: "Total number of double-bit volatile ECC errors."}, always, 0, field{}},
	{
		field{id: 393, quantity: remapUncorrectable, name: "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", typ: counter, help: "Number of remapped rows for uncorrectable errors"},
		always, always,
		field{id: 393, name: "DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL"},
	},
	{
		field{id: 394, quantity: remapCorrectable, name: "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", typ: counter, help: "Number of remapped rows for correctable errors"},
		always, always,
		field{id: 394, name: "DCGM_FI_DEV_ROW_REMAP_CORRECTABLE_TOTAL"},
	},
	{
		field{id: 395, quantity: remapFailed, name: "DCGM_FI_DEV_ROW_REMAP_FAILURE", typ: gauge, help: "Whether remapping of rows has failed"},
		always, always,
		field{id: 395, name: "DCGM_FI_DEV_ROW_REMAP_FAILED"},
	},
	{field{id: 396, quantity: remapPending, name: "DCGM_FI_DEV_ROW_REMAP_PENDING", typ: gauge, help: "Whether a row is remapped at the next reset."}, always, 0, field{}},
	{
		field{id: 419, quantity: linkCRCErrors, name: "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", typ: counter, help: "Total number of NVLink data CRC errors."},
		always, 0,
		field{id: 419, name: "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_TOTAL"},
	},
	{
		field{id: 429, quantity: linkReplays, name: "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", typ: counter, help: "Total number of NVLink retries."},
		always, 0,
		field{id: 429, name: "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_TOTAL"},
	},
	{
		field{id: 439, quantity: linkRecoveries, name: "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", typ: counter, help: "Total number of NVLink recovery errors."},
		always, 0,
		field{id: 439, name: "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_TOTAL"},
	},
	{
		field{id: 449, quantity: linkBandwidth, name: "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", typ: counter, help: "Total number of NVLink bandwidth counters for all lanes."},
		always, always,
		field{id: 1648, name: "DCGM_FI_DEV_NVLINK_THROUGHPUT_BYTES_PER_SECOND", help: "NVLink throughput of all lanes (in bytes per second).", convert: times(1e6)},
	},
	{field{id: 526, quantity: vgpuLicense, name: "DCGM_FI_DEV_VGPU_LICENSE_STATUS", typ: gauge, help: "vGPU License status"}, always, always, field{}},
	{
		field{id: 1001, quantity: grEngine, name: "DCGM_FI_PROF_GR_ENGINE_ACTIVE", typ: gauge, help: "Ratio of time the graphics engine is active."},
		always, since45,
		field{id: 1001, name: "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO"},
	},
	{
		field{id: 1002, quantity: smActive, name: "DCGM_FI_PROF_SM_ACTIVE", typ: gauge, help: "The ratio of cycles an SM has at least 1 warp assigned."},
		always, 0,
		field{id: 1002, name: "DCGM_FI_PROF_SM_UTIL_RATIO"},
	},
	{
		field{id: 1003, quantity: smOccupancy, name: "DCGM_FI_PROF_SM_OCCUPANCY", typ: gauge, help: "The ratio of number of warps resident on an SM."},
		always, 0,
		field{id: 1003, name: "DCGM_FI_PROF_SM_OCCUPANCY_RATIO"},
	},
	{
		field{id: 1004, quantity: pipeTensor, name: "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", typ: gauge, help: "Ratio of cycles the tensor (HMMA) pipe is active."},
		always, since45,
		field{id: 1004, name: "DCGM_FI_PROF_TENSOR_UTIL_RATIO"},
	},
	{
		field{id: 1005, quantity: dramActive, name: "DCGM_FI_PROF_DRAM_ACTIVE", typ: gauge, help: "Ratio of cycles the device memory interface is active sending or receiving data."},
		always, since45,
		field{id: 1005, name: "DCGM_FI_PROF_DRAM_UTIL_RATIO"},
	},
	{
		field{id: 1006, quantity: pipeFP64, name: "DCGM_FI_PROF_PIPE_FP64_ACTIVE", typ: gauge, help: "Ratio of cycles the fp64 pipes are active."},
		always, 0,
		field{id: 1006, name: "DCGM_FI_PROF_FP64_UTIL_RATIO"},
	},
	{
		field{id: 1007, quantity: pipeFP32, name: "DCGM_FI_PROF_PIPE_FP32_ACTIVE", typ: gauge, help: "Ratio of cycles the fp32 pipes are active."},
		always, 0,
		field{id: 1007, name: "DCGM_FI_PROF_FP32_UTIL_RATIO"},
	},
	{
		field{id: 1008, quantity: pipeFP16, name: "DCGM_FI_PROF_PIPE_FP16_ACTIVE", typ: gauge, help: "Ratio of cycles the fp16 pipes are active."},
		always, 0,
		field{id: 1008, name: "DCGM_FI_PROF_FP16_UTIL_RATIO"},
	},
	{field{id: 1009, quantity: profPCIeTx, name: "DCGM_FI_PROF_PCIE_TX_BYTES", typ: gauge, help: "The rate of data transmitted over the PCIe bus - including both protocol headers and data payloads - in bytes per second."}, always, since45, field{}},
	{field{id: 1010, quantity: profPCIeRx, name: "DCGM_FI_PROF_PCIE_RX_BYTES", typ: gauge, help: "The rate of data received over the PCIe bus - including both protocol headers and data payloads - in bytes per second."}, always, since45, field{}},
	{field{id: 1011, quantity: profNVLinkTx, name: "DCGM_FI_PROF_NVLINK_TX_BYTES", typ: gauge, help: "The rate of data transmitted over NVLink, not including protocol headers, in bytes per second."}, always, 0, field{}},
	{field{id: 1012, quantity: profNVLinkRx, name: "DCGM_FI_PROF_NVLINK_RX_BYTES", typ: gauge, help: "The rate of data received over NVLink, not including protocol headers, in bytes per second."}, always, 0, field{}},
	{field{id: 1420, quantity: swPowerCapTime, name: "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS", typ: counter, help: "Throttling duration due to the software power cap (in ns)."}, since45, 0, field{}},
	{field{id: 1421, quantity: syncBoostTime, name: "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST_NS", typ: counter, help: "Throttling duration due to sync boost (in ns)."}, since45, 0, field{}},
	{field{id: 1422, quantity: swThermalTime, name: "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS", typ: counter, help: "Throttling duration due to the software thermal slowdown (in ns)."}, since45, 0, field{}},
	{field{id: 1423, quantity: hwThermalTime, name: "DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS", typ: counter, help: "Throttling duration due to the hardware thermal slowdown (in ns)."}, since45, 0, field{}},
	{field{id: 1424, quantity: hwPowerBrakeTime, name: "DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS", typ: counter, help: "Throttling duration due to the hardware power brake (in ns)."}, since45, 0, field{}},
	{
		field{id: 1523, quantity: recoveryAction, name: "DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION", typ: gauge, help: "What the driver wants to be done."},
		since45, 0,
		field{id: 1523, name: "DCGM_FI_DEV_GPU_RECOVERY_ACTION"},
	},
	{field{id: 9001, quantity: xidWindow, name: "DCGM_EXP_XID_ERRORS_COUNT", typ: gauge, help: "XID errors observed during the configured time window."}, since45, 0, field{}},
	{field{id: 9002, quantity: clockEventsWindow, name: "DCGM_EXP_CLOCK_EVENTS_COUNT", typ: gauge, help: "Clock events observed during the configured time window."}, since45, 0, field{}},
	{field{id: 9005, quantity: xidTotal, name: "DCGM_EXP_XID_ERRORS_TOTAL", typ: counter, help: "Total XID errors observed since exporter start."}, since483, 0, field{}},
	{field{id: 9006, quantity: clockEventsTotal, name: "DCGM_EXP_CLOCK_EVENTS_TOTAL", typ: counter, help: "Total clock events observed since exporter start (edge-counted)."}, since483, 0, field{}},
}

// textsOf are the rows whose type or help differs from the table in some
// styles.
var textsOf = []struct {
	quantity quantity
	styles   generation
	typ      string
	help     string
}{
	{powerViolation, until3, counter, "Throttling duration due to power constraints (in us)."},
	{thermalViolation, until3, counter, "Throttling duration due to thermal constraints (in us)."},
	{syncBoostViolation, until3, counter, "Throttling duration due to sync-boost constraints (in us)."},
	{boardLimitViolation, until3, counter, "Throttling duration due to board limit constraints (in us)."},
	{lowUtilViolation, until3, counter, "Throttling duration due to low utilization (in us)."},
	{reliabilityViolation, until3, counter, "Throttling duration due to reliability constraints (in us)."},
	{linkBandwidth, until3, counter, "Total number of NVLink bandwidth counters for all lanes"},
	{linkBandwidth, gen483, gauge, "Total number of NVLink bandwidth counters for all lanes."},
	{linkBandwidth, gen49, gauge, "NVLink throughput of all lanes (in bytes per second)."},
	{profPCIeTx, until3, counter, "Total number of bytes transmitted through PCIe TX via NVML."},
	{profPCIeRx, until3, counter, "Total number of bytes received through PCIe RX via NVML."},
	{xidWindow, gen45, counter, "reported XIDs during last window"},
	{clockEventsWindow, gen45, counter, "reported clock events"},
}

// fieldsOf returns the fields that an exporter of the style exposes with its
// default counters, or with all counters on.
func fieldsOf(style Style, set FieldSet) []field {
	var out []field
	for _, row := range csv {
		if !style.in(row.exists) || (set == FieldsDefault && !style.in(row.shipped)) {
			continue
		}
		f := row.field
		if style == Style49 && row.renamed.name != "" {
			f.id, f.name, f.convert = row.renamed.id, row.renamed.name, row.renamed.convert
			if row.renamed.help != "" {
				f.help = row.renamed.help
			}
		}
		for _, t := range textsOf {
			if t.quantity == f.quantity && style.in(t.styles) {
				f.typ, f.help = t.typ, t.help
			}
		}
		out = append(out, f)
	}
	return out
}

// linkFields are the fields that also exist per NVLink.
func linkFields(fields []field) []field {
	var out []field
	for _, f := range fields {
		if f.quantity == linkBandwidth || f.quantity == linkReplays {
			out = append(out, f)
		}
	}
	return out
}
