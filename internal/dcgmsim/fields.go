package dcgmsim

import (
	"cmp"
	"math"
	"slices"
)

// quantity is a value that a field reports.
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

// number is a field's value. A number also records the value's type in DCGM, because the exporter
// formats integers and floats differently.
type number struct {
	int    int64
	float  float64
	double bool
	valid  bool
}

func integer(v int64) number { return number{int: v, valid: true} }

// double returns a float that is rounded to six decimal places, as the %f verb does, so that every
// style exposes the same value.
func double(v float64) number {
	return number{float: math.Round(v*1e6) / 1e6, double: true, valid: true}
}

func (n number) value() float64 {
	if n.double {
		return n.float
	}
	return float64(n.int)
}

// field is a line of a counters CSV file.
type field struct {
	quantity        quantity
	name, typ, help string
	// convert converts the value to another unit. If convert is nil, the value is unchanged.
	convert func(number) number
}

// ofGPUs lists the quantities that are missing if MIG is enabled. All other quantities of a board
// are repeated for every instance.
var ofGPUs = []quantity{gpuUtil, memCopyUtil, encUtil, decUtil}

// The times function returns a function that multiplies an integer by a factor. The times,
// millijoules, and percent functions convert values to the base units of DCGM 4.7.
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

// csv contains the counters of all styles, sorted by DCGM's field ID as in the exporter's template.
// Names, types, and help texts are from the CSV files that the exporter ships. If none of the CSV
// files contain a field, not even in a comment, the help text is our own.
var csv = []struct {
	quantity        quantity
	name, typ, help string
	// The exists set contains the styles that support the counter. The shipped set contains the
	// styles whose default-counters.csv contains the counter.
	exists, shipped generation
}{
	{smClock, "DCGM_FI_DEV_SM_CLOCK", gauge, "SM clock frequency (in MHz).", always, always},
	{memClock, "DCGM_FI_DEV_MEM_CLOCK", gauge, "Memory clock frequency (in MHz).", always, always},
	{eventReasons, "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", gauge, "Current clock throttle reasons (bitmask).", until3, 0},
	{eventReasons, "DCGM_FI_DEV_CLOCKS_EVENT_REASONS", gauge, "Current clock event reasons (bitmask).", since45, 0},
	{memTemp, "DCGM_FI_DEV_MEMORY_TEMP", gauge, "Memory temperature (in C).", always, always},
	{gpuTemp, "DCGM_FI_DEV_GPU_TEMP", gauge, "GPU temperature (in C).", always, always},
	{powerUsage, "DCGM_FI_DEV_POWER_USAGE", gauge, "Power draw (in W).", always, always},
	{energy, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", counter, "Total energy consumption since boot (in mJ).", always, always},
	{enforcedLimit, "DCGM_FI_DEV_ENFORCED_POWER_LIMIT", gauge, "Effective power limit that the driver enforces (in W).", always, 0},
	{fabricHealth, "DCGM_FI_DEV_FABRIC_HEALTH_MASK", gauge, "Health of the NVLink fabric.", since483, 0},
	{pcieTxKB, "DCGM_FI_DEV_PCIE_TX_THROUGHPUT", counter, "Total number of bytes transmitted through PCIe TX (in KB) via NVML.", until3, until3},
	{pcieRxKB, "DCGM_FI_DEV_PCIE_RX_THROUGHPUT", counter, "Total number of bytes received through PCIe RX (in KB) via NVML.", until3, until3},
	{pcieReplay, "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", counter, "Total number of PCIe retries.", always, always},
	{gpuUtil, "DCGM_FI_DEV_GPU_UTIL", gauge, "GPU utilization (in %).", always, always},
	{memCopyUtil, "DCGM_FI_DEV_MEM_COPY_UTIL", gauge, "Memory utilization (in %).", always, always},
	{encUtil, "DCGM_FI_DEV_ENC_UTIL", gauge, "Encoder utilization (in %).", always, always},
	{decUtil, "DCGM_FI_DEV_DEC_UTIL", gauge, "Decoder utilization (in %).", always, always},
	{xidLast, "DCGM_FI_DEV_XID_ERRORS", gauge, "Value of the last XID error encountered.", always, always},
	{pcieMaxGen, "DCGM_FI_DEV_PCIE_MAX_LINK_GEN", gauge, "Maximum PCIe link generation of this device in this system.", always, 0},
	{pcieMaxWidth, "DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH", gauge, "Maximum PCIe link width of this device in this system.", always, 0},
	{pcieGen, "DCGM_FI_DEV_PCIE_LINK_GEN", gauge, "Current PCIe link generation.", always, 0},
	{pcieWidth, "DCGM_FI_DEV_PCIE_LINK_WIDTH", gauge, "Current PCIe link width.", always, 0},
	{powerViolation, "DCGM_FI_DEV_POWER_VIOLATION", counter, "Throttling duration due to power constraints (in ns).", always, 0},
	{thermalViolation, "DCGM_FI_DEV_THERMAL_VIOLATION", counter, "Throttling duration due to thermal constraints (in ns).", always, 0},
	{syncBoostViolation, "DCGM_FI_DEV_SYNC_BOOST_VIOLATION", counter, "Throttling duration due to sync-boost constraints (in ns).", always, 0},
	{boardLimitViolation, "DCGM_FI_DEV_BOARD_LIMIT_VIOLATION", counter, "Throttling duration due to board limit constraints (in ns).", always, 0},
	{lowUtilViolation, "DCGM_FI_DEV_LOW_UTIL_VIOLATION", counter, "Throttling duration due to low utilization (in ns).", always, 0},
	{reliabilityViolation, "DCGM_FI_DEV_RELIABILITY_VIOLATION", counter, "Throttling duration due to reliability constraints (in ns).", always, 0},
	{fbTotal, "DCGM_FI_DEV_FB_TOTAL", gauge, "Framebuffer memory total (in MiB).", always, gen49},
	{fbFree, "DCGM_FI_DEV_FB_FREE", gauge, "Framebuffer memory free (in MiB).", always, always},
	{fbUsed, "DCGM_FI_DEV_FB_USED", gauge, "Framebuffer memory used (in MiB).", always, always},
	{fbReserved, "DCGM_FI_DEV_FB_RESERVED", gauge, "Framebuffer memory reserved (in MiB).", since45, since45},
	{eccSBE, "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", counter, "Total number of single-bit volatile ECC errors.", always, 0},
	{eccDBE, "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", counter, "Total number of double-bit volatile ECC errors.", always, 0},
	{remapUncorrectable, "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", counter, "Number of remapped rows for uncorrectable errors", always, always},
	{remapCorrectable, "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", counter, "Number of remapped rows for correctable errors", always, always},
	{remapFailed, "DCGM_FI_DEV_ROW_REMAP_FAILURE", gauge, "Whether remapping of rows has failed", always, always},
	{remapPending, "DCGM_FI_DEV_ROW_REMAP_PENDING", gauge, "Whether a row is remapped at the next reset.", always, 0},
	{linkCRCErrors, "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", counter, "Total number of NVLink data CRC errors.", always, 0},
	{linkReplays, "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", counter, "Total number of NVLink retries.", always, 0},
	{linkRecoveries, "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", counter, "Total number of NVLink recovery errors.", always, 0},
	{linkBandwidth, "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", counter, "Total number of NVLink bandwidth counters for all lanes.", always, always},
	{vgpuLicense, "DCGM_FI_DEV_VGPU_LICENSE_STATUS", gauge, "vGPU License status", always, always},
	{grEngine, "DCGM_FI_PROF_GR_ENGINE_ACTIVE", gauge, "Ratio of time the graphics engine is active.", always, since45},
	{smActive, "DCGM_FI_PROF_SM_ACTIVE", gauge, "The ratio of cycles an SM has at least 1 warp assigned.", always, 0},
	{smOccupancy, "DCGM_FI_PROF_SM_OCCUPANCY", gauge, "The ratio of number of warps resident on an SM.", always, 0},
	{pipeTensor, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", gauge, "Ratio of cycles the tensor (HMMA) pipe is active.", always, since45},
	{dramActive, "DCGM_FI_PROF_DRAM_ACTIVE", gauge, "Ratio of cycles the device memory interface is active sending or receiving data.", always, since45},
	{pipeFP64, "DCGM_FI_PROF_PIPE_FP64_ACTIVE", gauge, "Ratio of cycles the fp64 pipes are active.", always, 0},
	{pipeFP32, "DCGM_FI_PROF_PIPE_FP32_ACTIVE", gauge, "Ratio of cycles the fp32 pipes are active.", always, 0},
	{pipeFP16, "DCGM_FI_PROF_PIPE_FP16_ACTIVE", gauge, "Ratio of cycles the fp16 pipes are active.", always, 0},
	{profPCIeTx, "DCGM_FI_PROF_PCIE_TX_BYTES", gauge, "The rate of data transmitted over the PCIe bus - including both protocol headers and data payloads - in bytes per second.", always, since45},
	{profPCIeRx, "DCGM_FI_PROF_PCIE_RX_BYTES", gauge, "The rate of data received over the PCIe bus - including both protocol headers and data payloads - in bytes per second.", always, since45},
	{profNVLinkTx, "DCGM_FI_PROF_NVLINK_TX_BYTES", gauge, "The rate of data transmitted over NVLink, not including protocol headers, in bytes per second.", always, 0},
	{profNVLinkRx, "DCGM_FI_PROF_NVLINK_RX_BYTES", gauge, "The rate of data received over NVLink, not including protocol headers, in bytes per second.", always, 0},
	{swPowerCapTime, "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS", counter, "Throttling duration due to the software power cap (in ns).", since45, 0},
	{syncBoostTime, "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST_NS", counter, "Throttling duration due to sync boost (in ns).", since45, 0},
	{swThermalTime, "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS", counter, "Throttling duration due to the software thermal slowdown (in ns).", since45, 0},
	{hwThermalTime, "DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS", counter, "Throttling duration due to the hardware thermal slowdown (in ns).", since45, 0},
	{hwPowerBrakeTime, "DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS", counter, "Throttling duration due to the hardware power brake (in ns).", since45, 0},
	{recoveryAction, "DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION", gauge, "Recovery action that the driver recommends.", since45, 0},
	{xidWindow, "DCGM_EXP_XID_ERRORS_COUNT", gauge, "XID errors observed during the configured time window.", since45, 0},
	{clockEventsWindow, "DCGM_EXP_CLOCK_EVENTS_COUNT", gauge, "Clock events observed during the configured time window.", since45, 0},
	{xidTotal, "DCGM_EXP_XID_ERRORS_TOTAL", counter, "Total XID errors observed since exporter start.", since483, 0},
	{clockEventsTotal, "DCGM_EXP_CLOCK_EVENTS_TOTAL", counter, "Total clock events observed since exporter start (edge-counted).", since483, 0},
}

// changes contains the differences between csv and some styles: types, help texts, and the names
// and base units of DCGM 4.7. Each nonempty value overrides the corresponding value in csv.
var changes = []struct {
	styles generation
	field
}{
	{until3, field{quantity: powerViolation, typ: counter, help: "Throttling duration due to power constraints (in us)."}},
	{until3, field{quantity: thermalViolation, typ: counter, help: "Throttling duration due to thermal constraints (in us)."}},
	{until3, field{quantity: syncBoostViolation, typ: counter, help: "Throttling duration due to sync-boost constraints (in us)."}},
	{until3, field{quantity: boardLimitViolation, typ: counter, help: "Throttling duration due to board limit constraints (in us)."}},
	{until3, field{quantity: lowUtilViolation, typ: counter, help: "Throttling duration due to low utilization (in us)."}},
	{until3, field{quantity: reliabilityViolation, typ: counter, help: "Throttling duration due to reliability constraints (in us)."}},
	{until3, field{quantity: linkBandwidth, typ: counter, help: "Total number of NVLink bandwidth counters for all lanes"}},
	{gen483, field{quantity: linkBandwidth, typ: gauge, help: "Total number of NVLink bandwidth counters for all lanes."}},
	{until3, field{quantity: profPCIeTx, typ: counter, help: "Total number of bytes transmitted through PCIe TX via NVML."}},
	{until3, field{quantity: profPCIeRx, typ: counter, help: "Total number of bytes received through PCIe RX via NVML."}},
	{gen45, field{quantity: xidWindow, typ: counter, help: "reported XIDs during last window"}},
	{gen45, field{quantity: clockEventsWindow, typ: counter, help: "reported clock events"}},

	{gen49, field{quantity: smClock, name: "DCGM_FI_DEV_SM_CLOCK_HERTZ", help: "SM clock frequency (in Hz).", convert: times(1e6)}},
	{gen49, field{quantity: memClock, name: "DCGM_FI_DEV_MEMORY_CLOCK_HERTZ", help: "Memory clock frequency (in Hz).", convert: times(1e6)}},
	{gen49, field{quantity: memTemp, name: "DCGM_FI_DEV_MEMORY_TEMP_CELSIUS"}},
	{gen49, field{quantity: gpuTemp, name: "DCGM_FI_DEV_GPU_TEMP_CELSIUS"}},
	{gen49, field{quantity: powerUsage, name: "DCGM_FI_DEV_BOARD_POWER_WATTS"}},
	{gen49, field{quantity: energy, name: "DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL", help: "Total energy consumption since boot (in J).", convert: millijoules}},
	{gen49, field{quantity: enforcedLimit, name: "DCGM_FI_DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS"}},
	{gen49, field{quantity: pcieReplay, name: "DCGM_FI_DEV_PCIE_REPLAY_TOTAL"}},
	{gen49, field{quantity: gpuUtil, name: "DCGM_FI_DEV_GPU_UTIL_RATIO", help: "GPU utilization (ratio).", convert: percent}},
	{gen49, field{quantity: memCopyUtil, name: "DCGM_FI_DEV_MEMORY_UTIL_RATIO", help: "Memory utilization (ratio).", convert: percent}},
	{gen49, field{quantity: encUtil, name: "DCGM_FI_DEV_ENC_UTIL_RATIO", help: "Encoder utilization (ratio).", convert: percent}},
	{gen49, field{quantity: decUtil, name: "DCGM_FI_DEV_DEC_UTIL_RATIO", help: "Decoder utilization (ratio).", convert: percent}},
	{gen49, field{quantity: xidLast, name: "DCGM_FI_DEV_XID_ERROR"}},
	{gen49, field{quantity: fbTotal, name: "DCGM_FI_DEV_FB_CAPACITY_BYTES", help: "Framebuffer memory capacity (in bytes).", convert: times(mib)}},
	{gen49, field{quantity: fbFree, name: "DCGM_FI_DEV_FB_FREE_BYTES", help: "Framebuffer memory free (in bytes).", convert: times(mib)}},
	{gen49, field{quantity: fbUsed, name: "DCGM_FI_DEV_FB_USED_BYTES", help: "Framebuffer memory used (in bytes).", convert: times(mib)}},
	{gen49, field{quantity: fbReserved, name: "DCGM_FI_DEV_FB_RESERVED_BYTES", help: "Framebuffer memory reserved (in bytes).", convert: times(mib)}},
	{gen49, field{quantity: remapUncorrectable, name: "DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL"}},
	{gen49, field{quantity: remapCorrectable, name: "DCGM_FI_DEV_ROW_REMAP_CORRECTABLE_TOTAL"}},
	{gen49, field{quantity: remapFailed, name: "DCGM_FI_DEV_ROW_REMAP_FAILED"}},
	{gen49, field{quantity: linkCRCErrors, name: "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_TOTAL"}},
	{gen49, field{quantity: linkReplays, name: "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_TOTAL"}},
	{gen49, field{quantity: linkRecoveries, name: "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_TOTAL"}},
	{gen49, field{quantity: linkBandwidth, name: "DCGM_FI_DEV_NVLINK_THROUGHPUT_BYTES_PER_SECOND", typ: gauge, help: "NVLink throughput of all lanes (in bytes per second).", convert: times(1e6)}},
	{gen49, field{quantity: grEngine, name: "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO"}},
	{gen49, field{quantity: smActive, name: "DCGM_FI_PROF_SM_UTIL_RATIO"}},
	{gen49, field{quantity: smOccupancy, name: "DCGM_FI_PROF_SM_OCCUPANCY_RATIO"}},
	{gen49, field{quantity: pipeTensor, name: "DCGM_FI_PROF_TENSOR_UTIL_RATIO"}},
	{gen49, field{quantity: dramActive, name: "DCGM_FI_PROF_DRAM_UTIL_RATIO"}},
	{gen49, field{quantity: pipeFP64, name: "DCGM_FI_PROF_FP64_UTIL_RATIO"}},
	{gen49, field{quantity: pipeFP32, name: "DCGM_FI_PROF_FP32_UTIL_RATIO"}},
	{gen49, field{quantity: pipeFP16, name: "DCGM_FI_PROF_FP16_UTIL_RATIO"}},
	{gen49, field{quantity: recoveryAction, name: "DCGM_FI_DEV_GPU_RECOVERY_ACTION"}},
}

// fieldsOf returns the fields that an exporter of the given style exposes with the given set of
// counters.
func fieldsOf(style Style, set FieldSet) []field {
	var out []field
	for _, row := range csv {
		if !style.in(row.exists) || (set == FieldsDefault && !style.in(row.shipped)) {
			continue
		}
		f := field{quantity: row.quantity, name: row.name, typ: row.typ, help: row.help}
		for _, c := range changes {
			if c.quantity == f.quantity && style.in(c.styles) {
				f.name, f.typ, f.help, f.convert = cmp.Or(c.name, f.name), cmp.Or(c.typ, f.typ), cmp.Or(c.help, f.help), c.convert
			}
		}
		out = append(out, f)
	}
	return out
}

// linkFields returns the fields that are also exposed for each NVLink.
func linkFields(fields []field) []field {
	return slices.DeleteFunc(slices.Clone(fields), func(f field) bool { return f.quantity != linkBandwidth && f.quantity != linkReplays })
}
