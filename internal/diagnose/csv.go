package diagnose

import "github.com/otelcol-gpu/otelcol-gpu/internal/dcgm"

// line is a field's line in the exporter's csv.
type line struct {
	name, kind, help string
}

// String returns the line as it stands in a csv.
func (l line) String() string { return l.name + ", " + l.kind + ", " + l.help }

// csv has a line for each field that advice may ask for, as
// examples/dcgm-exporter/counters.csv has it.
var csv = [dcgm.NumFields]line{
	dcgm.GREngineActive:        {"DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gauge", "Ratio of time the graphics engine is active."},
	dcgm.GPUUtil:               {"DCGM_FI_DEV_GPU_UTIL", "gauge", "GPU utilization (in %)."},
	dcgm.EncUtil:               {"DCGM_FI_DEV_ENC_UTIL", "gauge", "Encoder utilization (in %)."},
	dcgm.DecUtil:               {"DCGM_FI_DEV_DEC_UTIL", "gauge", "Decoder utilization (in %)."},
	dcgm.SMActive:              {"DCGM_FI_PROF_SM_ACTIVE", "gauge", "Ratio of cycles an SM has at least 1 warp assigned."},
	dcgm.SMOccupancy:           {"DCGM_FI_PROF_SM_OCCUPANCY", "gauge", "Ratio of warps resident on an SM."},
	dcgm.DRAMActive:            {"DCGM_FI_PROF_DRAM_ACTIVE", "gauge", "Ratio of cycles the device memory interface is active."},
	dcgm.PipeTensorActive:      {"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "gauge", "Ratio of cycles the tensor pipe is active."},
	dcgm.PipeFP64Active:        {"DCGM_FI_PROF_PIPE_FP64_ACTIVE", "gauge", "Ratio of cycles the fp64 pipes are active."},
	dcgm.PipeFP32Active:        {"DCGM_FI_PROF_PIPE_FP32_ACTIVE", "gauge", "Ratio of cycles the fp32 pipes are active."},
	dcgm.PipeFP16Active:        {"DCGM_FI_PROF_PIPE_FP16_ACTIVE", "gauge", "Ratio of cycles the fp16 pipes are active."},
	dcgm.PipeIntActive:         {"DCGM_FI_PROF_PIPE_INT_ACTIVE", "gauge", "Ratio of cycles the integer pipe is active."},
	dcgm.PipeTensorIMMAActive:  {"DCGM_FI_PROF_PIPE_TENSOR_IMMA_ACTIVE", "gauge", "Ratio of cycles the tensor pipe is active with integers."},
	dcgm.PipeTensorHMMAActive:  {"DCGM_FI_PROF_PIPE_TENSOR_HMMA_ACTIVE", "gauge", "Ratio of cycles the tensor pipe is active with half precision."},
	dcgm.PipeTensorDFMAActive:  {"DCGM_FI_PROF_PIPE_TENSOR_DFMA_ACTIVE", "gauge", "Ratio of cycles the tensor pipe is active with double precision."},
	dcgm.FBUsed:                {"DCGM_FI_DEV_FB_USED", "gauge", "Framebuffer memory used (in MiB)."},
	dcgm.FBFree:                {"DCGM_FI_DEV_FB_FREE", "gauge", "Framebuffer memory free (in MiB)."},
	dcgm.FBReserved:            {"DCGM_FI_DEV_FB_RESERVED", "gauge", "Framebuffer memory reserved (in MiB)."},
	dcgm.FBTotal:               {"DCGM_FI_DEV_FB_TOTAL", "gauge", "Framebuffer memory (in MiB)."},
	dcgm.PowerViolation:        {"DCGM_FI_DEV_POWER_VIOLATION", "counter", "Throttling duration due to power constraints (in ns)."},
	dcgm.ThermalViolation:      {"DCGM_FI_DEV_THERMAL_VIOLATION", "counter", "Throttling duration due to thermal constraints (in ns)."},
	dcgm.SyncBoostViolation:    {"DCGM_FI_DEV_SYNC_BOOST_VIOLATION", "counter", "Throttling duration due to sync-boost constraints (in ns)."},
	dcgm.BoardLimitViolation:   {"DCGM_FI_DEV_BOARD_LIMIT_VIOLATION", "counter", "Throttling duration due to board limit constraints (in ns)."},
	dcgm.EventTimeSWPowerCap:   {"DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS", "counter", "Time with clocks lowered by the software power cap (in ns)."},
	dcgm.EventTimeSyncBoost:    {"DCGM_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST_NS", "counter", "Time with clocks lowered by sync boost (in ns)."},
	dcgm.EventTimeSWThermal:    {"DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS", "counter", "Time with clocks lowered by software thermal slowdown (in ns)."},
	dcgm.EventTimeHWThermal:    {"DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS", "counter", "Time with clocks lowered by hardware thermal slowdown (in ns)."},
	dcgm.EventTimeHWPowerBrake: {"DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS", "counter", "Time with clocks lowered by the hardware power brake (in ns)."},
	dcgm.ClocksEventReasons:    {"DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "gauge", "Bitmask of the reasons for lowered clocks."},
	dcgm.SMClock:               {"DCGM_FI_DEV_SM_CLOCK", "gauge", "SM clock frequency (in MHz)."},
	dcgm.MemClock:              {"DCGM_FI_DEV_MEM_CLOCK", "gauge", "Memory clock frequency (in MHz)."},
	dcgm.PCIeTXRate:            {"DCGM_FI_PROF_PCIE_TX_BYTES", "gauge", "Rate of data transmitted over PCIe (in bytes per second)."},
	dcgm.PCIeRXRate:            {"DCGM_FI_PROF_PCIE_RX_BYTES", "gauge", "Rate of data received over PCIe (in bytes per second)."},
	dcgm.NVLinkTXRate:          {"DCGM_FI_PROF_NVLINK_TX_BYTES", "gauge", "Rate of data transmitted over NVLink (in bytes per second)."},
	dcgm.NVLinkRXRate:          {"DCGM_FI_PROF_NVLINK_RX_BYTES", "gauge", "Rate of data received over NVLink (in bytes per second)."},
	dcgm.PCIeMaxLinkGen:        {"DCGM_FI_DEV_PCIE_MAX_LINK_GEN", "gauge", "Highest PCIe generation of GPU and system."},
	dcgm.PCIeMaxLinkWidth:      {"DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH", "gauge", "Highest PCIe width of GPU and system (in lanes)."},
	dcgm.XIDLast:               {"DCGM_FI_DEV_XID_ERRORS", "gauge", "Value of the last XID error encountered."},
	dcgm.XIDCount:              {"DCGM_EXP_XID_ERRORS_COUNT", "gauge", "XID errors within the last minutes."},
	dcgm.XIDTotal:              {"DCGM_EXP_XID_ERRORS_TOTAL", "counter", "XID errors since the exporter started."},
	dcgm.ECCSBEVolatile:        {"DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "counter", "Total number of single-bit volatile ECC errors."},
	dcgm.ECCDBEVolatile:        {"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "counter", "Total number of double-bit volatile ECC errors."},
	dcgm.RowRemapUncorrectable: {"DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "counter", "Number of remapped rows for uncorrectable errors."},
	dcgm.RowRemapCorrectable:   {"DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "counter", "Number of remapped rows for correctable errors."},
	dcgm.PCIeReplay:            {"DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "counter", "Total number of PCIe retries."},
	dcgm.NVLinkCRCFlit:         {"DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "counter", "Total number of NVLink flow-control CRC errors."},
	dcgm.NVLinkCRCData:         {"DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", "counter", "Total number of NVLink data CRC errors."},
	dcgm.NVLinkReplay:          {"DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "counter", "Total number of NVLink retries."},
	dcgm.NVLinkRecovery:        {"DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", "counter", "Total number of NVLink recovery errors."},
	dcgm.NVLinkLinkCRC:         {"DCGM_FI_DEV_NVLINK_ERROR_DL_CRC", "counter", "Total number of NVLink CRC errors."},
	dcgm.NVLinkLinkReplay:      {"DCGM_FI_DEV_NVLINK_ERROR_DL_REPLAY", "counter", "Total number of NVLink retries."},
	dcgm.NVLinkLinkRecovery:    {"DCGM_FI_DEV_NVLINK_ERROR_DL_RECOVERY", "counter", "Total number of NVLink recovery errors."},
	dcgm.NVLinkRecoveryEvents:  {"DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS", "counter", "Total number of times an NVLink went to recovery."},
	dcgm.PowerUsage:            {"DCGM_FI_DEV_POWER_USAGE", "gauge", "Power draw (in W)."},
	dcgm.EnergyConsumption:     {"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "counter", "Total energy consumption since boot (in mJ)."},
	dcgm.GPUTemp:               {"DCGM_FI_DEV_GPU_TEMP", "gauge", "GPU temperature (in C)."},
	dcgm.MemoryTemp:            {"DCGM_FI_DEV_MEMORY_TEMP", "gauge", "Memory temperature (in C)."},
}
