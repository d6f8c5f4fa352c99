package dcgm

import "strings"

// ID is a field of the catalogue. The zero value is no field.
type ID uint8

// The fields that signals are made of. Names are DCGM's without their prefix.
const (
	_ ID = iota
	FBUsed
	FBFree
	FBTotal
	FBReserved
	GPUUtil
	EncUtil
	DecUtil
	PowerUsage
	EnergyConsumption
	GPUTemp
	MemoryTemp
	SMClock
	MemClock
	ClocksEventReasons
	EventTimeSWPowerCap
	EventTimeSyncBoost
	EventTimeSWThermal
	EventTimeHWThermal
	EventTimeHWPowerBrake
	PowerViolation
	ThermalViolation
	SyncBoostViolation
	BoardLimitViolation
	GREngineActive
	SMActive
	SMOccupancy
	DRAMActive
	PipeTensorActive
	PipeFP64Active
	PipeFP32Active
	PipeFP16Active
	PipeIntActive
	PipeTensorIMMAActive
	PipeTensorHMMAActive
	PipeTensorDFMAActive
	PCIeTXRate
	PCIeRXRate
	PCIeTXTotal
	PCIeRXTotal
	NVLinkTXRate
	NVLinkRXRate
	NVLinkTXTotal
	NVLinkRXTotal
	NVLinkTXBandwidth
	NVLinkRXBandwidth
	PCIeMaxLinkGen
	PCIeMaxLinkWidth
	XIDLast
	XIDCount
	XIDTotal
	ECCSBEVolatile
	ECCDBEVolatile
	RowRemapUncorrectable
	RowRemapCorrectable
	PCIeReplay
	NVLinkCRCFlit
	NVLinkCRCData
	NVLinkReplay
	NVLinkRecovery
	NVLinkLinkCRC
	NVLinkLinkReplay
	NVLinkLinkRecovery
	NVLinkRecoveryEvents
	NVLinkRecoverySuccessful
	NVLinkRecoveryFailed
	// NumFields is one more than the highest ID.
	NumFields
)

// Kind says how a field's value behaves over time. It decides how rows that
// repeat one value are folded into one.
type Kind uint8

const (
	// Level is a value at one moment: sizes, rates, temperatures, activities.
	Level Kind = iota
	// Counter only grows, but for resets.
	Counter
	// Bits is a bit mask.
	Bits
	// Code is the last of a kind of events.
	Code
	// EventCount counts events by a label of its own.
	EventCount
)

// Scope says what a field measures when the board is cut into MIG instances.
type Scope uint8

const (
	// Instance fields measure the MIG instance named by the row.
	Instance Scope = iota
	// Board fields measure the board and repeat on every instance's row.
	Board
)

// Field describes one field.
type Field struct {
	ID    ID
	Name  string // canonical name, as in DCGM before 4.6
	Unit  Unit   // unit of the canonical spelling
	Kind  Kind
	Scope Scope
	// Aliases are the other names under which exporters expose the field in
	// the same unit.
	Aliases []string
	// Rescaled are names under which it is exposed in another unit.
	Rescaled []Rescaled
}

// Rescaled is a spelling with a unit of its own.
type Rescaled struct {
	Name string
	Unit Unit
}

// Spelling is what an exposed metric name means.
type Spelling struct {
	Field *Field
	Unit  Unit
	// BaseUnits says that the spelling came with DCGM 4.7, in which ratios are 0
	// to 1: that settles Scale for the whole scrape. The …_HERTZ and …_JOULES
	// fields are older (4.6.1) and settle nothing.
	BaseUnits bool
}

// fields is the catalogue. Canonical names are those of DCGM up to 4.5. The
// first aliases are the names of DCGM 4.6; lower case names are those of
// exporter 1.x. Of the names in base units, …_HERTZ and …_JOULES_TOTAL come with
// DCGM 4.6.1, …_BYTES of the frame buffer and …_SECONDS_TOTAL with 4.7.
// *_VIOLATION values are nanoseconds in every version, whatever
// their HELP says. PROF_PCIE_*_BYTES and PROF_NVLINK_*_BYTES are rates,
// whatever their TYPE says.
//
// NVLink errors have three generations of counters: the …_ERROR_COUNT_TOTAL of NVLink 3
// and earlier, the …_ERROR_DL_* of Hopper, on which the former have no value, and of
// Blackwell the …_LINK_RECOVERY_*. The first and the last are sums over all links. The
// second are what NVML answers where DCGM (4.6.0) names no link; nvml.h wants one named.
//
// Left out on purpose: NVLINK_BANDWIDTH_TOTAL (NVLINK_THROUGHPUT_TOTAL,
// NVLINK_THROUGHPUT_BYTES_PER_SECOND) is transmitted and received data in one sum
// (DcgmCacheManager of DCGM 4.6.0), and gpu.nvlink.throughput speaks of one direction.
var fields = [...]Field{
	{FBUsed, "DCGM_FI_DEV_FB_USED", MiB, Level, Instance, names("dcgm_fb_used"), []Rescaled{{"DCGM_FI_DEV_FB_USED_BYTES", Byte}}},
	{FBFree, "DCGM_FI_DEV_FB_FREE", MiB, Level, Instance, names("dcgm_fb_free"), []Rescaled{{"DCGM_FI_DEV_FB_FREE_BYTES", Byte}}},
	{FBTotal, "DCGM_FI_DEV_FB_TOTAL", MiB, Level, Instance, nil, []Rescaled{{"DCGM_FI_DEV_FB_TOTAL_BYTES", Byte}, {"DCGM_FI_DEV_FB_CAPACITY_BYTES", Byte}}},
	{FBReserved, "DCGM_FI_DEV_FB_RESERVED", MiB, Level, Instance, nil, []Rescaled{{"DCGM_FI_DEV_FB_RESERVED_BYTES", Byte}}},

	{GPUUtil, "DCGM_FI_DEV_GPU_UTIL", Percent, Level, Instance, names("dcgm_gpu_utilization"), []Rescaled{{"DCGM_FI_DEV_GPU_UTIL_RATIO", RatioOrPercent}}},
	{EncUtil, "DCGM_FI_DEV_ENC_UTIL", Percent, Level, Board, names("dcgm_enc_utilization"), []Rescaled{{"DCGM_FI_DEV_ENC_UTIL_RATIO", RatioOrPercent}}},
	{DecUtil, "DCGM_FI_DEV_DEC_UTIL", Percent, Level, Board, names("dcgm_dec_utilization"), []Rescaled{{"DCGM_FI_DEV_DEC_UTIL_RATIO", RatioOrPercent}}},

	{PowerUsage, "DCGM_FI_DEV_POWER_USAGE", Watt, Level, Board, names("DCGM_FI_DEV_BOARD_POWER_WATTS", "dcgm_power_usage"), nil},
	{EnergyConsumption, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", Millijoule, Counter, Board, names("dcgm_total_energy_consumption"), []Rescaled{{"DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL", Joule}}},
	{GPUTemp, "DCGM_FI_DEV_GPU_TEMP", Celsius, Level, Board, names("DCGM_FI_DEV_GPU_TEMP_CELSIUS", "dcgm_gpu_temp"), nil},
	{MemoryTemp, "DCGM_FI_DEV_MEMORY_TEMP", Celsius, Level, Board, names("DCGM_FI_DEV_MEMORY_TEMP_CELSIUS", "dcgm_memory_temp"), nil},
	{SMClock, "DCGM_FI_DEV_SM_CLOCK", MHz, Level, Board, names("dcgm_sm_clock"), []Rescaled{{"DCGM_FI_DEV_SM_CLOCK_HERTZ", Hz}}},
	{MemClock, "DCGM_FI_DEV_MEM_CLOCK", MHz, Level, Board, names("dcgm_memory_clock"), []Rescaled{{"DCGM_FI_DEV_MEMORY_CLOCK_HERTZ", Hz}, {"DCGM_FI_DEV_MEM_CLOCK_HERTZ", Hz}}},

	{ClocksEventReasons, "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", Mask, Bits, Board, names("DCGM_FI_DEV_CLOCKS_EVENT_REASONS"), nil},
	{EventTimeSWPowerCap, "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS", Nanosecond, Counter, Board, nil, nil},
	{EventTimeSyncBoost, "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST_NS", Nanosecond, Counter, Board, nil, nil},
	{EventTimeSWThermal, "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS", Nanosecond, Counter, Board, nil, nil},
	{EventTimeHWThermal, "DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS", Nanosecond, Counter, Board, nil, nil},
	{EventTimeHWPowerBrake, "DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS", Nanosecond, Counter, Board, nil, nil},
	{PowerViolation, "DCGM_FI_DEV_POWER_VIOLATION", Nanosecond, Counter, Board, names("dcgm_power_violation"), []Rescaled{{"DCGM_FI_DEV_GPU_POWER_THROTTLE_SECONDS_TOTAL", Second}}},
	{ThermalViolation, "DCGM_FI_DEV_THERMAL_VIOLATION", Nanosecond, Counter, Board, names("dcgm_thermal_violation"), []Rescaled{{"DCGM_FI_DEV_GPU_THERMAL_THROTTLE_SECONDS_TOTAL", Second}}},
	{SyncBoostViolation, "DCGM_FI_DEV_SYNC_BOOST_VIOLATION", Nanosecond, Counter, Board, names("dcgm_sync_boost_violation"), []Rescaled{{"DCGM_FI_DEV_GPU_SYNC_BOOST_THROTTLE_SECONDS_TOTAL", Second}}},
	{BoardLimitViolation, "DCGM_FI_DEV_BOARD_LIMIT_VIOLATION", Nanosecond, Counter, Board, names("dcgm_board_limit_violation"), []Rescaled{{"DCGM_FI_DEV_GPU_LIMIT_THROTTLE_SECONDS_TOTAL", Second}}},

	{GREngineActive, "DCGM_FI_PROF_GR_ENGINE_ACTIVE", Ratio, Level, Instance, names("DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO"), nil},
	{SMActive, "DCGM_FI_PROF_SM_ACTIVE", Ratio, Level, Instance, names("DCGM_FI_PROF_SM_UTIL_RATIO"), nil},
	{SMOccupancy, "DCGM_FI_PROF_SM_OCCUPANCY", Ratio, Level, Instance, names("DCGM_FI_PROF_SM_OCCUPANCY_RATIO"), nil},
	{DRAMActive, "DCGM_FI_PROF_DRAM_ACTIVE", Ratio, Level, Instance, names("DCGM_FI_PROF_DRAM_UTIL_RATIO"), nil},
	{PipeTensorActive, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", Ratio, Level, Instance, names("DCGM_FI_PROF_TENSOR_UTIL_RATIO"), nil},
	{PipeFP64Active, "DCGM_FI_PROF_PIPE_FP64_ACTIVE", Ratio, Level, Instance, names("DCGM_FI_PROF_FP64_UTIL_RATIO"), nil},
	{PipeFP32Active, "DCGM_FI_PROF_PIPE_FP32_ACTIVE", Ratio, Level, Instance, names("DCGM_FI_PROF_FP32_UTIL_RATIO"), nil},
	{PipeFP16Active, "DCGM_FI_PROF_PIPE_FP16_ACTIVE", Ratio, Level, Instance, names("DCGM_FI_PROF_FP16_UTIL_RATIO"), nil},
	{PipeIntActive, "DCGM_FI_PROF_PIPE_INT_ACTIVE", Ratio, Level, Instance, names("DCGM_FI_PROF_INT_UTIL_RATIO"), nil},
	{PipeTensorIMMAActive, "DCGM_FI_PROF_PIPE_TENSOR_IMMA_ACTIVE", Ratio, Level, Instance, names("DCGM_FI_PROF_IMMA_UTIL_RATIO"), nil},
	{PipeTensorHMMAActive, "DCGM_FI_PROF_PIPE_TENSOR_HMMA_ACTIVE", Ratio, Level, Instance, names("DCGM_FI_PROF_HMMA_UTIL_RATIO"), nil},
	{PipeTensorDFMAActive, "DCGM_FI_PROF_PIPE_TENSOR_DFMA_ACTIVE", Ratio, Level, Instance, names("DCGM_FI_PROF_DFMA_UTIL_RATIO"), nil},

	{PCIeTXRate, "DCGM_FI_PROF_PCIE_TX_BYTES", BytePerSecond, Level, Board, nil, nil},
	{PCIeRXRate, "DCGM_FI_PROF_PCIE_RX_BYTES", BytePerSecond, Level, Board, nil, nil},
	{PCIeTXTotal, "DCGM_FI_PROF_PCIE_TX_BYTES_TOTAL", ByteCount, Counter, Board, nil, nil},
	{PCIeRXTotal, "DCGM_FI_PROF_PCIE_RX_BYTES_TOTAL", ByteCount, Counter, Board, nil, nil},
	{NVLinkTXRate, "DCGM_FI_PROF_NVLINK_TX_BYTES", BytePerSecond, Level, Board, nil, nil},
	{NVLinkRXRate, "DCGM_FI_PROF_NVLINK_RX_BYTES", BytePerSecond, Level, Board, nil, nil},
	{NVLinkTXTotal, "DCGM_FI_DEV_NVLINK_COUNT_TX_BYTES", ByteCount, Counter, Board, names("DCGM_FI_DEV_NVLINK_TX_BYTES_TOTAL", "DCGM_FI_PROF_NVLINK_TX_BYTES_TOTAL"), nil},
	{NVLinkRXTotal, "DCGM_FI_DEV_NVLINK_COUNT_RX_BYTES", ByteCount, Counter, Board, names("DCGM_FI_DEV_NVLINK_RX_BYTES_TOTAL", "DCGM_FI_PROF_NVLINK_RX_BYTES_TOTAL"), nil},
	{NVLinkTXBandwidth, "DCGM_FI_DEV_NVLINK_TX_BANDWIDTH_TOTAL", ThousandKiBPerSecond, Level, Board, names("DCGM_FI_DEV_NVLINK_TX_THROUGHPUT_TOTAL"), nil},
	{NVLinkRXBandwidth, "DCGM_FI_DEV_NVLINK_RX_BANDWIDTH_TOTAL", ThousandKiBPerSecond, Level, Board, names("DCGM_FI_DEV_NVLINK_RX_THROUGHPUT_TOTAL"), nil},
	{PCIeMaxLinkGen, "DCGM_FI_DEV_PCIE_MAX_LINK_GEN", None, Level, Board, nil, nil},
	{PCIeMaxLinkWidth, "DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH", None, Level, Board, nil, nil},

	{XIDLast, "DCGM_FI_DEV_XID_ERRORS", None, Code, Instance, names("DCGM_FI_DEV_XID_ERROR", "dcgm_xid_errors"), nil},
	{XIDCount, "DCGM_EXP_XID_ERRORS_COUNT", None, EventCount, Instance, nil, nil},
	{XIDTotal, "DCGM_EXP_XID_ERRORS_TOTAL", None, EventCount, Instance, nil, nil},
	{ECCSBEVolatile, "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", None, Counter, Board, names("dcgm_ecc_sbe_volatile_total"), nil},
	{ECCDBEVolatile, "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", None, Counter, Board, names("dcgm_ecc_dbe_volatile_total"), nil},
	{RowRemapUncorrectable, "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", None, Counter, Board, names("DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL"), nil},
	{RowRemapCorrectable, "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", None, Counter, Board, names("DCGM_FI_DEV_ROW_REMAP_CORRECTABLE_TOTAL"), nil},
	{PCIeReplay, "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", None, Counter, Board, names("DCGM_FI_DEV_PCIE_REPLAY_TOTAL", "dcgm_pcie_replay_counter"), nil},
	{NVLinkCRCFlit, "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", None, Counter, Board, names("DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_TOTAL", "dcgm_nvlink_flit_crc_error_count_total"), nil},
	{NVLinkCRCData, "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", None, Counter, Board, names("DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_TOTAL", "dcgm_nvlink_data_crc_error_count_total"), nil},
	{NVLinkReplay, "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", None, Counter, Board, names("DCGM_FI_DEV_NVLINK_REPLAY_ERROR_TOTAL", "dcgm_nvlink_replay_error_count_total"), nil},
	{NVLinkRecovery, "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", None, Counter, Board, names("DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_TOTAL", "dcgm_nvlink_recovery_error_count_total"), nil},
	{NVLinkLinkCRC, "DCGM_FI_DEV_NVLINK_ERROR_DL_CRC", None, Counter, Board, names("DCGM_FI_DEV_NVLINK_CRC_ERROR_TOTAL"), nil},
	{NVLinkLinkReplay, "DCGM_FI_DEV_NVLINK_ERROR_DL_REPLAY", None, Counter, Board, names("DCGM_FI_DEV_NVLINK_REPLAY_TOTAL"), nil},
	{NVLinkLinkRecovery, "DCGM_FI_DEV_NVLINK_ERROR_DL_RECOVERY", None, Counter, Board, names("DCGM_FI_DEV_NVLINK_RECOVERY_TOTAL"), nil},
	{NVLinkRecoveryEvents, "DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS", None, Counter, Board, names("DCGM_FI_DEV_NVLINK_RECOVERY_EVENT_TOTAL"), nil},
	{NVLinkRecoverySuccessful, "DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_SUCCESSFUL_EVENTS", None, Counter, Board, names("DCGM_FI_DEV_NVLINK_RECOVERY_SUCCESSFUL_TOTAL"), nil},
	{NVLinkRecoveryFailed, "DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS", None, Counter, Board, names("DCGM_FI_DEV_NVLINK_RECOVERY_FAILED_TOTAL"), nil},
}

func names(s ...string) []string { return s }

var spellings = func() map[string]Spelling {
	m := make(map[string]Spelling, 2*len(fields))
	for i := range fields {
		f := &fields[i]
		m[f.Name] = Spelling{Field: f, Unit: f.Unit}
		for _, a := range f.Aliases {
			m[a] = Spelling{Field: f, Unit: f.Unit}
		}
		for _, r := range f.Rescaled {
			m[r.Name] = Spelling{Field: f, Unit: r.Unit, BaseUnits: r.Unit == Byte || r.Unit == Second}
		}
	}
	return m
}()

// Lookup returns what an exposed metric name means. It reports false for names
// that no signal is made of.
func Lookup(name string) (Spelling, bool) {
	s, ok := spellings[name]
	return s, ok
}

// Fields returns the catalogue in its order. The fields are shared and must
// not be changed.
func Fields() []*Field {
	out := make([]*Field, len(fields))
	for i := range fields {
		out[i] = &fields[i]
	}
	return out
}

// Owns reports whether a metric name belongs to dcgm-exporter, known to the
// catalogue or not: DCGM_FI_… and DCGM_EXP_….
func Owns(name string) bool {
	if strings.HasPrefix(name, "DCGM_") {
		return true
	}
	_, ok := spellings[name]
	return ok
}
