package dcgm

import (
	"math"
	"slices"
	"strings"

	cat "github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Exporter is the table for NVIDIA's dcgm-exporter.
var Exporter = cat.New(cat.Exporter{
	Name:    "dcgm-exporter",
	Vendor:  signal.VendorNVIDIA,
	Groups:  fieldsOf(groups),
	Signals: held,
	Gaps:    map[*signal.Metric]string{signal.GPUXGMIThroughput: "no xGMI", signal.K8sContainerGPUMemoryBudget: "from pods and schedulers"},
	Labels:  labels,
	PublicLabels: []string{
		"device", "modelname", "gpu_i_profile", "pci_bus_id", "err_msg", "window_size_in_ms", "dra_driver_name",
		"dcgm_fi_driver_version", "dcgm_fi_system_driver_version", "dcgm_fi_cuda_driver_version",
	},
	BlankText:  blankText,
	OwnsName:   func(name string) bool { return len(name) >= 5 && strings.EqualFold(name[:5], "DCGM_") },
	Identify:   identify,
	IsExporter: IsExporter,
	// DCGM reports 0 for boards that it has not read yet.
	Vitals: cat.Names(powerUsage, gpuTemp, smClock),
	Hooks: cat.Hooks{
		InstanceID:     InstanceID,
		JobsOfBoard:    jobsOfBoard,
		Capacities:     func(model string) cat.Capacities { return LookupModel(model).Capacities },
		Contradictions: contradictions,
		Fatal: func(code int) bool {
			x, _ := XIDByCode(code)
			return x.Fatal
		},
	},
})

const (
	grEngine = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
	gpuUtil  = "DCGM_FI_DEV_GPU_UTIL"
	fbUsed   = "DCGM_FI_DEV_FB_USED"
	fbFree   = "DCGM_FI_DEV_FB_FREE"
	fbTotal  = "DCGM_FI_DEV_FB_TOTAL"
	fbRes    = "DCGM_FI_DEV_FB_RESERVED"

	powerUsage = "DCGM_FI_DEV_POWER_USAGE"
	gpuTemp    = "DCGM_FI_DEV_GPU_TEMP"
	smClock    = "DCGM_FI_DEV_SM_CLOCK"

	recoveryAction = "DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION"
	remapFailure   = "DCGM_FI_DEV_ROW_REMAP_FAILURE"
	remapPending   = "DCGM_FI_DEV_ROW_REMAP_PENDING"
	fabricHealth   = "DCGM_FI_DEV_FABRIC_HEALTH_MASK"
)

// groups contains the exporter's fields, grouped by topic. Canonical names are from DCGM 4.5 and
// earlier. If a field has an alias in uppercase, the first such alias is the name in DCGM 4.6.
// Lowercase names are from dcgm-exporter 1.x. Some names were added later, for values in base
// units: DCGM 4.6.1 added names that end with _HERTZ or _JOULES_TOTAL, and DCGM 4.7 added names
// that end with _SECONDS_TOTAL and names of frame buffer fields that end with _BYTES. *_VIOLATION
// values are in nanoseconds in every version, even if HELP states a different unit.
// PROF_PCIE_*_BYTES and PROF_NVLINK_*_BYTES are rates, even if their TYPE is not gauge.
//
// There are three sets of NVLink error counters. NVLink 3 and earlier use …_ERROR_COUNT_TOTAL.
// Hopper uses …_ERROR_DL_*, and its …_ERROR_COUNT_TOTAL fields have no value. Blackwell uses
// …_LINK_RECOVERY_*. The …_ERROR_COUNT_TOTAL and …_LINK_RECOVERY_* counters are sums over all
// links. For …_ERROR_DL_*, DCGM 4.6.0 calls NVML without specifying a link, although nvml.h
// requires the caller to specify a link.
//
// Omitted on purpose:
//   - NVLINK_BANDWIDTH_TOTAL (NVLINK_THROUGHPUT_TOTAL, NVLINK_THROUGHPUT_BYTES_PER_SECOND), because
//     it is the sum of both directions (see DcgmCacheManager in DCGM 4.6.0), whereas
//     gpu.nvlink.throughput is per direction
//   - field 153 (GPU_TEMP_LIMIT, GPU_TEMP_MARGIN_CELSIUS), because it is the margin to a limit and
//     not a temperature
var groups = []group{
	{"Utilization", []tableRow{
		{cat.Field{Name: gpuUtil, Unit: cat.Percent, Scope: cat.BoardWithoutInstances, Aliases: cat.Names("dcgm_gpu_utilization"), Rescaled: slices.Concat(in(cat.RatioOrPercent, "DCGM_FI_DEV_GPU_UTIL_RATIO"), in(cat.Ratio, "DCGM_FI_DEV_GPU_UTIL_RATIO_V2")), Provides: utilization}, Advice{Help: "GPU utilization (in %).", Absent: UnderMIG}},
		{cat.Field{Name: "DCGM_FI_DEV_ENC_UTIL", Unit: cat.Percent, Scope: cat.Board, Aliases: cat.Names("dcgm_enc_utilization"), Rescaled: in(cat.RatioOrPercent, "DCGM_FI_DEV_ENC_UTIL_RATIO"), Provides: cat.Provides(signal.HwGPUUtilization, signal.TaskEncoder)}, Advice{Help: "Encoder utilization (in %).", Absent: UnderMIG}},
		{cat.Field{Name: "DCGM_FI_DEV_DEC_UTIL", Unit: cat.Percent, Scope: cat.Board, Aliases: cat.Names("dcgm_dec_utilization"), Rescaled: in(cat.RatioOrPercent, "DCGM_FI_DEV_DEC_UTIL_RATIO"), Provides: cat.Provides(signal.HwGPUUtilization, signal.TaskDecoder)}, Advice{Help: "Decoder utilization (in %).", Absent: UnderMIG}},
	}},
	{"Memory occupancy and pressure", []tableRow{
		{cat.Field{Name: fbUsed, Unit: cat.MiB, Aliases: cat.Names("dcgm_fb_used"), Rescaled: in(cat.Byte, "DCGM_FI_DEV_FB_USED_BYTES"), Provides: memory}, Advice{Help: "Framebuffer memory used (in MiB).", Companion: fbRes}},
		{cat.Field{Name: fbFree, Unit: cat.MiB, Aliases: cat.Names("dcgm_fb_free"), Rescaled: in(cat.Byte, "DCGM_FI_DEV_FB_FREE_BYTES")}, Advice{Help: "Framebuffer memory free (in MiB)."}},
		{cat.Field{Name: fbRes, Unit: cat.MiB, Rescaled: in(cat.Byte, "DCGM_FI_DEV_FB_RESERVED_BYTES")}, Advice{Help: "Framebuffer memory reserved (in MiB)."}},
		{cat.Field{Name: fbTotal, Unit: cat.MiB, Rescaled: in(cat.Byte, "DCGM_FI_DEV_FB_TOTAL_BYTES", "DCGM_FI_DEV_FB_CAPACITY_BYTES"), ZeroIsNone: true, Provides: memorySize}, Advice{Help: "Framebuffer memory (in MiB)."}},
	}},
	{"Throttling: time by policy, time by reason [4.x], and the current reasons", []tableRow{
		{cat.Field{Name: "DCGM_FI_DEV_POWER_VIOLATION", Unit: cat.Nanosecond, Kind: cat.Counter, Scope: cat.Board, Aliases: cat.Names("dcgm_power_violation"), Rescaled: in(cat.Second, "DCGM_FI_DEV_GPU_POWER_THROTTLE_SECONDS_TOTAL"), Provides: cat.Provides(signal.GPUClockThrottleTime, "power")}, Advice{Help: "Throttling duration due to power constraints (in ns)."}},
		{cat.Field{Name: "DCGM_FI_DEV_THERMAL_VIOLATION", Unit: cat.Nanosecond, Kind: cat.Counter, Scope: cat.Board, Aliases: cat.Names("dcgm_thermal_violation"), Rescaled: in(cat.Second, "DCGM_FI_DEV_GPU_THERMAL_THROTTLE_SECONDS_TOTAL"), Provides: cat.Provides(signal.GPUClockThrottleTime, "thermal")}, Advice{Help: "Throttling duration due to thermal constraints (in ns)."}},
		{cat.Field{Name: "DCGM_FI_DEV_SYNC_BOOST_VIOLATION", Unit: cat.Nanosecond, Kind: cat.Counter, Scope: cat.Board, Aliases: cat.Names("dcgm_sync_boost_violation"), Rescaled: in(cat.Second, "DCGM_FI_DEV_GPU_SYNC_BOOST_THROTTLE_SECONDS_TOTAL"), Provides: cat.Provides(signal.GPUClockThrottleTime, "sync_boost")}, Advice{Help: "Throttling duration due to sync-boost constraints (in ns)."}},
		{cat.Field{Name: "DCGM_FI_DEV_BOARD_LIMIT_VIOLATION", Unit: cat.Nanosecond, Kind: cat.Counter, Scope: cat.Board, Aliases: cat.Names("dcgm_board_limit_violation"), Rescaled: in(cat.Second, "DCGM_FI_DEV_GPU_LIMIT_THROTTLE_SECONDS_TOTAL"), Provides: cat.Provides(signal.GPUClockThrottleTime, "board_limit")}, Advice{Help: "Throttling duration due to board limit constraints (in ns)."}},
		{cat.Field{Name: "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS", Unit: cat.Nanosecond, Kind: cat.Counter, Scope: cat.Board, Provides: cat.Provides(signal.GPUClockEventTime, "sw_power_cap")}, Advice{Help: "Time with clocks lowered by the software power cap (in ns).", Absent: OldExporters}},
		{cat.Field{Name: "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST_NS", Unit: cat.Nanosecond, Kind: cat.Counter, Scope: cat.Board, Aliases: cat.Names("DCGM_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST_COUNT_NS"), Provides: cat.Provides(signal.GPUClockEventTime, "sync_boost")}, Advice{Help: "Time with clocks lowered by sync boost (in ns).", Absent: OldExporters}},
		{cat.Field{Name: "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS", Unit: cat.Nanosecond, Kind: cat.Counter, Scope: cat.Board, Provides: cat.Provides(signal.GPUClockEventTime, "sw_thermal")}, Advice{Help: "Time with clocks lowered by software thermal slowdown (in ns).", Absent: OldExporters}},
		{cat.Field{Name: "DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS", Unit: cat.Nanosecond, Kind: cat.Counter, Scope: cat.Board, Provides: cat.Provides(signal.GPUClockEventTime, "hw_thermal")}, Advice{Help: "Time with clocks lowered by hardware thermal slowdown (in ns).", Absent: OldExporters}},
		{cat.Field{Name: "DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS", Unit: cat.Nanosecond, Kind: cat.Counter, Scope: cat.Board, Provides: cat.Provides(signal.GPUClockEventTime, "hw_power_brake")}, Advice{Help: "Time with clocks lowered by the hardware power brake (in ns).", Absent: OldExporters}},
		{cat.Field{Name: "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", Unit: cat.Mask, Kind: cat.Bits, Scope: cat.Board, Aliases: cat.Names("DCGM_FI_DEV_CLOCKS_EVENT_REASONS"), Provides: clockReasons}, Advice{Help: "Bitmask of the reasons for lowered clocks.", Listed: "DCGM_FI_DEV_CLOCKS_EVENT_REASONS"}},
		{cat.Field{Name: smClock, Unit: cat.MHz, Scope: cat.Board, ZeroIsNone: true, Aliases: cat.Names("dcgm_sm_clock"), Rescaled: in(cat.Hz, "DCGM_FI_DEV_SM_CLOCK_HERTZ"), Provides: cat.Provides(signal.GPUClockFrequency, signal.DomainSM)}, Advice{Help: "SM clock frequency (in MHz)."}},
		{cat.Field{Name: "DCGM_FI_DEV_MEM_CLOCK", Unit: cat.MHz, Scope: cat.Board, ZeroIsNone: true, Aliases: cat.Names("dcgm_memory_clock"), Rescaled: in(cat.Hz, "DCGM_FI_DEV_MEMORY_CLOCK_HERTZ", "DCGM_FI_DEV_MEM_CLOCK_HERTZ"), Provides: cat.Provides(signal.GPUClockFrequency, signal.DomainMemory)}, Advice{Help: "Memory clock frequency (in MHz)."}},
	}},
	{"Errors", []tableRow{
		{cat.Field{Name: "DCGM_FI_DEV_XID_ERRORS", Unit: cat.None, Kind: cat.Code, Aliases: cat.Names("DCGM_FI_DEV_XID_ERROR", "dcgm_xid_errors"), Provides: xidEvents}, Advice{Help: "Value of the last XID error encountered."}},
		{cat.Field{Name: "DCGM_EXP_XID_ERRORS_COUNT", Unit: cat.None, Kind: cat.EventCount}, Advice{Help: "XID errors within the last minutes."}},
		{cat.Field{Name: "DCGM_EXP_XID_ERRORS_TOTAL", Unit: cat.None, Kind: cat.EventTotal}, Advice{Help: "XID errors since the exporter started.", Offered: true, Note: "With exporter 4.8.3 and later, uncomment this exact counter."}},
		{cat.Field{Name: "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", Unit: cat.None, Kind: cat.Counter, Scope: cat.Board, Aliases: cat.Names("dcgm_ecc_sbe_volatile_total"), Provides: cat.Provides(signal.HwErrors, "corrected")}, Advice{Help: "Total number of single-bit volatile ECC errors."}},
		{cat.Field{Name: "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", Unit: cat.None, Kind: cat.Counter, Scope: cat.Board, Aliases: cat.Names("dcgm_ecc_dbe_volatile_total"), Provides: cat.Provides(signal.HwErrors, "uncorrected")}, Advice{Help: "Total number of double-bit volatile ECC errors."}},
		{cat.Field{Name: "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", Unit: cat.None, Kind: cat.Counter, Scope: cat.Board, Aliases: cat.Names("DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL"), Provides: cat.Provides(signal.HwErrors, "row_remap_uncorrectable")}, Advice{Help: "Number of remapped rows for uncorrectable errors.", Absent: InGuests}},
		{cat.Field{Name: "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", Unit: cat.None, Kind: cat.Counter, Scope: cat.Board, Aliases: cat.Names("DCGM_FI_DEV_ROW_REMAP_CORRECTABLE_TOTAL"), Provides: cat.Provides(signal.HwErrors, "row_remap_correctable")}, Advice{Help: "Number of remapped rows for correctable errors.", Absent: InGuests}},
		{cat.Field{Name: remapFailure, Unit: cat.Flag, Scope: cat.Board, Aliases: cat.Names("DCGM_FI_DEV_ROW_REMAP_FAILED"), Health: cat.Flagged(cat.HealthFailed), Provides: slices.Concat(cat.Provides(signal.HwErrors, "row_remap_failure"), status)}, Advice{Help: "Whether remapping of rows has failed.", Absent: InGuests}},
		{cat.Field{Name: remapPending, Unit: cat.Flag, Scope: cat.Board, Health: cat.Flagged(cat.HealthPredictedFailure)}, Advice{Help: "Whether a row is remapped at the next reset.", Absent: InGuests}},
		{cat.Field{Name: recoveryAction, Unit: cat.None, Scope: cat.Board, Aliases: cat.Names("DCGM_FI_DEV_GPU_RECOVERY_ACTION"), Health: RecoveryHealth, Provides: []cat.Signal{{Metric: signal.GPURecoveryAction, States: signal.Values(signal.RecoveryAction)}}}, Advice{Help: "Recovery action that the driver recommends.", Offered: true, Note: "With DCGM 4.1 to 4.5, uncomment this line. In DCGM 4.6 and later, the name is DCGM_FI_DEV_GPU_RECOVERY_ACTION.", Absent: InGuests | OldExporters}},
		{cat.Field{Name: fabricHealth, Unit: cat.Mask, Kind: cat.Bits, Scope: cat.Board, Health: FabricHealth}, Advice{Help: "Health of the NVLink fabric.", Offered: true, Note: "With exporter 4.8.4 and later, uncomment this line for boards with an NVLink fabric.", Absent: InGuests | OldExporters}},
		{cat.Field{Name: "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", Unit: cat.None, Kind: cat.Counter, Scope: cat.Board, Aliases: cat.Names("DCGM_FI_DEV_PCIE_REPLAY_TOTAL", "dcgm_pcie_replay_counter"), Provides: cat.Provides(signal.HwErrors, "pcie_replay")}, Advice{Help: "Total number of PCIe retries.", Absent: InGuests}},
		{cat.Field{Name: "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", Unit: cat.None, Kind: cat.Counter, Scope: cat.Board, Aliases: cat.Names("DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_TOTAL", "dcgm_nvlink_flit_crc_error_count_total"), Provides: nvlinkCRC}, Advice{Help: "Total number of NVLink flow-control CRC errors.", Companion: "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", NVLinkGeneration: 3}},
		{cat.Field{Name: "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", Unit: cat.None, Kind: cat.Counter, Scope: cat.Board, Aliases: cat.Names("DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_TOTAL", "dcgm_nvlink_data_crc_error_count_total")}, Advice{Help: "Total number of NVLink data CRC errors.", NVLinkGeneration: 3}},
		{cat.Field{Name: "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", Unit: cat.None, Kind: cat.Counter, Scope: cat.Board, Aliases: cat.Names("DCGM_FI_DEV_NVLINK_REPLAY_ERROR_TOTAL", "dcgm_nvlink_replay_error_count_total"), Provides: nvlinkReplay}, Advice{Help: "Total number of NVLink retries.", NVLinkGeneration: 3}},
		{cat.Field{Name: "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", Unit: cat.None, Kind: cat.Counter, Scope: cat.Board, Aliases: cat.Names("DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_TOTAL", "dcgm_nvlink_recovery_error_count_total"), Provides: nvlinkRecovery}, Advice{Help: "Total number of NVLink recovery errors.", NVLinkGeneration: 3}},
		{cat.Field{Name: "DCGM_FI_DEV_NVLINK_ERROR_DL_CRC", Unit: cat.None, Kind: cat.Counter, Scope: cat.Board, Aliases: cat.Names("DCGM_FI_DEV_NVLINK_CRC_ERROR_TOTAL")}, Advice{Help: "Total number of NVLink CRC errors.", Offered: true, Note: "On Hopper and later boards, the four fields above have no value. With DCGM 4.1 and later, uncomment three lines for Hopper.", Absent: OldExporters, NVLinkGeneration: 4}},
		{cat.Field{Name: "DCGM_FI_DEV_NVLINK_ERROR_DL_REPLAY", Unit: cat.None, Kind: cat.Counter, Scope: cat.Board, Aliases: cat.Names("DCGM_FI_DEV_NVLINK_REPLAY_TOTAL")}, Advice{Help: "Total number of NVLink retries.", Offered: true, Absent: OldExporters, NVLinkGeneration: 4}},
		{cat.Field{Name: "DCGM_FI_DEV_NVLINK_ERROR_DL_RECOVERY", Unit: cat.None, Kind: cat.Counter, Scope: cat.Board, Aliases: cat.Names("DCGM_FI_DEV_NVLINK_RECOVERY_TOTAL")}, Advice{Help: "Total number of NVLink recovery errors.", Offered: true, Absent: OldExporters, NVLinkGeneration: 4}},
		{cat.Field{Name: "DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS", Unit: cat.None, Kind: cat.Counter, Scope: cat.Board, Aliases: cat.Names("DCGM_FI_DEV_NVLINK_RECOVERY_EVENT_TOTAL")}, Advice{Help: "Total number of times an NVLink went to recovery.", Offered: true, Note: "With DCGM 4.1 and later, uncomment this line for Blackwell.", Absent: OldExporters, NVLinkGeneration: 5}},
		{cat.Field{Name: "DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_SUCCESSFUL_EVENTS", Unit: cat.None, Kind: cat.Counter, Scope: cat.Board, Aliases: cat.Names("DCGM_FI_DEV_NVLINK_RECOVERY_SUCCESSFUL_TOTAL")}, Advice{Absent: OldExporters, NVLinkGeneration: 5}},
		{cat.Field{Name: "DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS", Unit: cat.None, Kind: cat.Counter, Scope: cat.Board, Aliases: cat.Names("DCGM_FI_DEV_NVLINK_RECOVERY_FAILED_TOTAL")}, Advice{Absent: OldExporters, NVLinkGeneration: 5}},
	}},
	{"Activity (PROF fields need DCGM's profiling module)", []tableRow{
		{cat.Field{Name: grEngine, Unit: cat.Ratio, Aliases: cat.Names("DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO"), Provides: cat.Provides(signal.GPUEngineActive)}, Advice{Help: "Ratio of time the graphics engine is active."}},
		{cat.Field{Name: "DCGM_FI_PROF_SM_ACTIVE", Unit: cat.Ratio, Aliases: cat.Names("DCGM_FI_PROF_SM_UTIL_RATIO"), Provides: cat.Provides(signal.GPUSMActive)}, Advice{Help: "Ratio of cycles an SM has at least 1 warp assigned."}},
		{cat.Field{Name: "DCGM_FI_PROF_SM_OCCUPANCY", Unit: cat.Ratio, Aliases: cat.Names("DCGM_FI_PROF_SM_OCCUPANCY_RATIO"), Provides: cat.Provides(signal.GPUSMOccupancy)}, Advice{Help: "Ratio of warps resident on an SM."}},
		{cat.Field{Name: "DCGM_FI_PROF_DRAM_ACTIVE", Unit: cat.Ratio, Aliases: cat.Names("DCGM_FI_PROF_DRAM_UTIL_RATIO"), Provides: cat.Provides(signal.GPUDRAMActive)}, Advice{Help: "Ratio of cycles the device memory interface is active."}},
		{cat.Field{Name: "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", Unit: cat.Ratio, Aliases: cat.Names("DCGM_FI_PROF_TENSOR_UTIL_RATIO"), Provides: cat.Provides(signal.GPUPipeActive, "tensor")}, Advice{Help: "Ratio of cycles the tensor pipe is active."}},
		{cat.Field{Name: "DCGM_FI_PROF_PIPE_FP64_ACTIVE", Unit: cat.Ratio, Aliases: cat.Names("DCGM_FI_PROF_FP64_UTIL_RATIO"), Provides: cat.Provides(signal.GPUPipeActive, "fp64")}, Advice{Help: "Ratio of cycles the fp64 pipes are active."}},
		{cat.Field{Name: "DCGM_FI_PROF_PIPE_FP32_ACTIVE", Unit: cat.Ratio, Aliases: cat.Names("DCGM_FI_PROF_FP32_UTIL_RATIO"), Provides: cat.Provides(signal.GPUPipeActive, "fp32")}, Advice{Help: "Ratio of cycles the fp32 pipes are active."}},
		{cat.Field{Name: "DCGM_FI_PROF_PIPE_FP16_ACTIVE", Unit: cat.Ratio, Aliases: cat.Names("DCGM_FI_PROF_FP16_UTIL_RATIO"), Provides: cat.Provides(signal.GPUPipeActive, "fp16")}, Advice{Help: "Ratio of cycles the fp16 pipes are active."}},
		{cat.Field{Name: "DCGM_FI_PROF_PIPE_INT_ACTIVE", Unit: cat.Ratio, Aliases: cat.Names("DCGM_FI_PROF_INT_UTIL_RATIO"), Provides: rarely(cat.Provides(signal.GPUPipeActive, "int"))}, Advice{Help: "Ratio of cycles the integer pipe is active.", Unlisted: true}},
		{cat.Field{Name: "DCGM_FI_PROF_PIPE_TENSOR_IMMA_ACTIVE", Unit: cat.Ratio, Aliases: cat.Names("DCGM_FI_PROF_IMMA_UTIL_RATIO"), Provides: rarely(cat.Provides(signal.GPUPipeActive, "tensor_imma"))}, Advice{Help: "Ratio of cycles the tensor pipe is active with integers.", Unlisted: true}},
		{cat.Field{Name: "DCGM_FI_PROF_PIPE_TENSOR_HMMA_ACTIVE", Unit: cat.Ratio, Aliases: cat.Names("DCGM_FI_PROF_HMMA_UTIL_RATIO"), Provides: rarely(cat.Provides(signal.GPUPipeActive, "tensor_hmma"))}, Advice{Help: "Ratio of cycles the tensor pipe is active with half precision.", Unlisted: true}},
		{cat.Field{Name: "DCGM_FI_PROF_PIPE_TENSOR_DFMA_ACTIVE", Unit: cat.Ratio, Aliases: cat.Names("DCGM_FI_PROF_DFMA_UTIL_RATIO"), Provides: rarely(cat.Provides(signal.GPUPipeActive, "tensor_dfma"))}, Advice{Help: "Ratio of cycles the tensor pipe is active with double precision.", Unlisted: true}},
	}},
	{"Links. The PROF fields are rates, regardless of their type in the list.", []tableRow{
		{cat.Field{Name: "DCGM_FI_PROF_PCIE_TX_BYTES", Unit: cat.BytePerSecond, Scope: cat.Board, Provides: pcieTransmit}, Advice{Help: "Rate of data transmitted over PCIe (in bytes per second)."}},
		{cat.Field{Name: "DCGM_FI_PROF_PCIE_RX_BYTES", Unit: cat.BytePerSecond, Scope: cat.Board, Provides: pcieReceive}, Advice{Help: "Rate of data received over PCIe (in bytes per second)."}},
		{cat.Field{Name: "DCGM_FI_PROF_PCIE_TX_BYTES_TOTAL", Unit: cat.ByteCount, Kind: cat.Counter, Scope: cat.Board, Provides: rarely(cat.Provides(signal.HwGPUIO, signal.DirectionTransmit))}, Advice{Help: "Bytes transmitted over PCIe.", Unlisted: true}},
		{cat.Field{Name: "DCGM_FI_PROF_PCIE_RX_BYTES_TOTAL", Unit: cat.ByteCount, Kind: cat.Counter, Scope: cat.Board, Provides: rarely(cat.Provides(signal.HwGPUIO, signal.DirectionReceive))}, Advice{Help: "Bytes received over PCIe.", Unlisted: true}},
		{cat.Field{Name: "DCGM_FI_DEV_PCIE_MAX_LINK_GEN", Unit: cat.None, Scope: cat.Board, Provides: pcieShare}, Advice{Help: "Highest PCIe generation of GPU and system."}},
		{cat.Field{Name: "DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH", Unit: cat.None, Scope: cat.Board}, Advice{Help: "Highest PCIe width of GPU and system (in lanes)."}},
		{cat.Field{Name: "DCGM_FI_DEV_PCIE_LINK_WIDTH", Unit: cat.None, Scope: cat.Board, ZeroIsNone: true, Provides: cat.Provides(signal.GPUPCIeLinkWidth)}, Advice{Help: "Current PCIe width (in lanes)."}},
		{cat.Field{Name: "DCGM_FI_PROF_NVLINK_TX_BYTES", Unit: cat.BytePerSecond, Scope: cat.Board, Provides: nvlinkTransmit}, Advice{Help: "Rate of data transmitted over NVLink (in bytes per second)."}},
		{cat.Field{Name: "DCGM_FI_PROF_NVLINK_RX_BYTES", Unit: cat.BytePerSecond, Scope: cat.Board, Provides: nvlinkReceive}, Advice{Help: "Rate of data received over NVLink (in bytes per second)."}},
		{cat.Field{Name: "DCGM_FI_DEV_NVLINK_COUNT_TX_BYTES", Unit: cat.ByteCount, Kind: cat.Counter, Scope: cat.Board, Aliases: cat.Names("DCGM_FI_DEV_NVLINK_TX_BYTES_TOTAL", "DCGM_FI_PROF_NVLINK_TX_BYTES_TOTAL")}, Advice{}},
		{cat.Field{Name: "DCGM_FI_DEV_NVLINK_COUNT_RX_BYTES", Unit: cat.ByteCount, Kind: cat.Counter, Scope: cat.Board, Aliases: cat.Names("DCGM_FI_DEV_NVLINK_RX_BYTES_TOTAL", "DCGM_FI_PROF_NVLINK_RX_BYTES_TOTAL")}, Advice{}},
		{cat.Field{Name: "DCGM_FI_DEV_NVLINK_TX_BANDWIDTH_TOTAL", Unit: cat.ThousandKiBPerSecond, Scope: cat.Board, Aliases: cat.Names("DCGM_FI_DEV_NVLINK_TX_THROUGHPUT_TOTAL")}, Advice{}},
		{cat.Field{Name: "DCGM_FI_DEV_NVLINK_RX_BANDWIDTH_TOTAL", Unit: cat.ThousandKiBPerSecond, Scope: cat.Board, Aliases: cat.Names("DCGM_FI_DEV_NVLINK_RX_THROUGHPUT_TOTAL"), Provides: nvlinkShare}, Advice{}},
	}},
	{"Power and temperature", []tableRow{
		{cat.Field{Name: powerUsage, Unit: cat.Watt, Scope: cat.Board, ZeroIsNone: true, Aliases: cat.Names("DCGM_FI_DEV_BOARD_POWER_WATTS", "dcgm_power_usage"), Provides: cat.Provides(signal.HwPower)}, Advice{Help: "Power draw (in W).", Absent: InGuests}},
		{cat.Field{Name: "DCGM_FI_DEV_ENFORCED_POWER_LIMIT", Unit: cat.Watt, Scope: cat.Board, Aliases: cat.Names("DCGM_FI_DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS"), Provides: cat.Provides(signal.GPUPowerLimit)}, Advice{Help: "Effective power limit that the driver enforces (in W).", Absent: InGuests}},
		{cat.Field{Name: "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", Unit: cat.Millijoule, Kind: cat.Counter, Scope: cat.Board, Aliases: cat.Names("dcgm_total_energy_consumption"), Rescaled: in(cat.Joule, "DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL"), Provides: cat.Provides(signal.HwEnergy)}, Advice{Help: "Total energy consumption since boot (in mJ).", Absent: InGuests}},
		{cat.Field{Name: gpuTemp, Unit: cat.Celsius, Scope: cat.Board, ZeroIsNone: true, Aliases: cat.Names("DCGM_FI_DEV_GPU_TEMP_CELSIUS", "dcgm_gpu_temp"), Provides: cat.Provides(signal.HwTemperature, signal.LocationGPU)}, Advice{Help: "GPU temperature (in C).", Absent: InGuests}},
		{cat.Field{Name: "DCGM_FI_DEV_MEMORY_TEMP", Unit: cat.Celsius, Scope: cat.Board, Aliases: cat.Names("DCGM_FI_DEV_MEMORY_TEMP_CELSIUS", "dcgm_memory_temp"), ZeroIsNone: true, Provides: cat.Provides(signal.HwTemperature, signal.LocationMemory)}, Advice{Help: "Memory temperature (in C)."}},
	}},
}

// The following signals are not simply the value of a single field.
var (
	utilization = []cat.Signal{{
		Metric: signal.HwGPUUtilization, Part: signal.TaskGeneral,
		From: cat.First(grEngine, gpuUtil).Or(grEngine).Or(gpuUtil), Usual: 1, Make: engineOrUtil,
	}}
	memory = []cat.Signal{
		{Metric: signal.HwGPUMemoryUtilization, From: cat.First(fbUsed, fbFree), Make: occupancy},
		{Metric: signal.HwGPUMemoryUsage},
	}
	memorySize = []cat.Signal{{
		Metric: signal.HwGPUMemoryLimit, From: cat.First(fbTotal).Or(fbUsed, fbFree, fbRes).Or(fbUsed, fbFree), Usual: 2, Make: cat.Size,
	}}
	clockReasons = []cat.Signal{{Metric: signal.GPUClockEventActive, Bits: SaturationReasons}}
	xidEvents    = []cat.Signal{{
		Metric: signal.HwErrors, Part: cat.PartXID, By: cat.ByEvents, Usual: 2,
		From: cat.First("DCGM_EXP_XID_ERRORS_TOTAL").Or("DCGM_EXP_XID_ERRORS_COUNT").Or("DCGM_FI_DEV_XID_ERRORS"),
	}}
	status = []cat.Signal{{
		Metric: signal.HwStatus, By: cat.ByHealth,
		From: cat.First(remapFailure).Or(recoveryAction).Or(remapPending).Or(fabricHealth).Or("DCGM_FI_DEV_XID_ERRORS").
			Or("DCGM_EXP_XID_ERRORS_COUNT").Or("DCGM_EXP_XID_ERRORS_TOTAL"),
	}}
	nvlinkCRC = errors("nvlink_crc", 2, cat.First("DCGM_FI_DEV_NVLINK_ERROR_DL_CRC").
			Or("DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL").
			Or("DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL").Or("DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL"))
	nvlinkReplay   = errors("nvlink_replay", 1, cat.First("DCGM_FI_DEV_NVLINK_ERROR_DL_REPLAY").Or("DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL"))
	nvlinkRecovery = errors("nvlink_recovery", 3, cat.First("DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS").
			Or("DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_SUCCESSFUL_EVENTS", "DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS").
			Or("DCGM_FI_DEV_NVLINK_ERROR_DL_RECOVERY").Or("DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL"))

	// An exposed rate is preferred to a rate computed from a counter, and a computed rate is
	// preferred to a coarse exposed rate.
	pcieTX   = cat.First("DCGM_FI_PROF_PCIE_TX_BYTES").Or("DCGM_FI_PROF_PCIE_TX_BYTES_TOTAL")
	pcieRX   = cat.First("DCGM_FI_PROF_PCIE_RX_BYTES").Or("DCGM_FI_PROF_PCIE_RX_BYTES_TOTAL")
	nvlinkTX = cat.First("DCGM_FI_PROF_NVLINK_TX_BYTES").Or("DCGM_FI_DEV_NVLINK_COUNT_TX_BYTES").Or("DCGM_FI_DEV_NVLINK_TX_BANDWIDTH_TOTAL")
	nvlinkRX = cat.First("DCGM_FI_PROF_NVLINK_RX_BYTES").Or("DCGM_FI_DEV_NVLINK_COUNT_RX_BYTES").Or("DCGM_FI_DEV_NVLINK_RX_BANDWIDTH_TOTAL")

	pcieTransmit   = cat.Made(signal.GPUPCIeThroughput, signal.DirectionTransmit, pcieTX)
	pcieReceive    = cat.Made(signal.GPUPCIeThroughput, signal.DirectionReceive, pcieRX)
	nvlinkTransmit = cat.Made(signal.GPUNVLinkThroughput, signal.DirectionTransmit, nvlinkTX)
	nvlinkReceive  = cat.Made(signal.GPUNVLinkThroughput, signal.DirectionReceive, nvlinkRX)
	pcieShare      = []cat.Signal{
		{Metric: signal.GPUPCIeUtilization, Part: signal.DirectionTransmit, From: pcieTX, Capacity: pcieCapacity, With: pcieLink},
		{Metric: signal.GPUPCIeUtilization, Part: signal.DirectionReceive, From: pcieRX, Capacity: pcieCapacity, With: pcieLink},
	}
	pcieLink    = []string{"DCGM_FI_DEV_PCIE_MAX_LINK_GEN", "DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH"}
	nvlinkShare = []cat.Signal{
		{Metric: signal.GPUNVLinkUtilization, Part: signal.DirectionTransmit, From: nvlinkTX, Capacity: nvlinkCapacity},
		{Metric: signal.GPUNVLinkUtilization, Part: signal.DirectionReceive, From: nvlinkRX, Capacity: nvlinkCapacity},
	}

	held = []cat.Signal{
		{Metric: signal.GPUDeviceHolder, By: cat.ByHolders},
		{Metric: signal.K8sContainerGPUMemoryUsage, By: cat.ByProcesses, From: cat.First(fbUsed), Optional: true},
		{Metric: signal.K8sContainerGPUUtilization, By: cat.ByProcesses, From: cat.First(gpuUtil), Optional: true},
	}
)

// RecoveryHealth returns the health state for a GPU recovery action, or false if the action is
// unknown.
func RecoveryHealth(action float64) (cat.Health, bool) {
	switch action {
	case 0: // none
		return cat.HealthOK, true
	case 1, 2: // 1: reset the GPU; 2: reboot the node
		return cat.HealthFailed, true
	case 3, 4: // 3: drain peers; 4: drain and reset
		return cat.HealthDegraded, true
	}
	return 0, false
}

// FabricHealth returns the health state for a value of NVML_GPU_FABRIC_HEALTH_MASK_*. Bits 0 to 7
// of the mask represent four conditions, with two bits each. A condition is true if the value of
// its two bits is 1. Bits 8 to 11 of the mask contain the configuration state. A configuration
// state of 2 or higher indicates an error. A mask of 0 means that the driver supports none of the
// conditions.
func FabricHealth(mask float64) (cat.Health, bool) {
	m := uint64(mask)
	for shift := range 4 {
		if m>>(2*shift)&3 == 1 {
			return cat.HealthDegraded, true
		}
	}
	if m>>8&15 > 1 {
		return cat.HealthDegraded, true
	}
	return cat.HealthOK, m != 0
}

// engineOrUtil returns the engine's activity. If the activity is 0 but the driver reports a
// utilization above 0, engineOrUtil returns the driver's utilization, because the device is not
// idle.
func engineOrUtil(set int, v []float64) (float64, bool) {
	if set == 0 && v[0] <= 0 && v[1] > 0 {
		return v[1], true
	}
	return v[0], true
}

// occupancy returns used / (used + free), or false if both are 0.
func occupancy(_ int, v []float64) (float64, bool) { return v[0] / (v[0] + v[1]), v[0]+v[1] > 0 }

func pcieCapacity(of *cat.Capacities, link []float64) float64 {
	if math.IsNaN(link[0]) || math.IsNaN(link[1]) {
		return of.PCIe
	}
	capacity, _ := cat.PCIeCapacity(link[0], link[1])
	return capacity
}

func nvlinkCapacity(of *cat.Capacities, _ []float64) float64 { return of.NVLink }

// in(unit, names...) returns the names of a field together with the unit of their values.
func in(unit cat.Unit, names ...string) (out []cat.Rescaled) {
	for _, name := range names {
		out = append(out, cat.Rescaled{Name: name, Unit: unit})
	}
	return out
}

func errors(kind string, usual int, from cat.Sets) []cat.Signal {
	return []cat.Signal{{Metric: signal.HwErrors, Part: kind, From: from, Usual: usual}}
}

// rarely(s) marks the signal in s as optional, because DCGM needs additional profiling passes for
// the signal.
func rarely(s []cat.Signal) []cat.Signal {
	s[0].Optional = true
	return s
}
