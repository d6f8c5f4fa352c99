package nvml

import (
	"errors"
	"fmt"
)

// ErrNoLibrary is returned if no library could be loaded.
var ErrNoLibrary = errors.New("libnvidia-ml.so.1 cannot be loaded")

// ErrCrashed is returned if a library's initialization crashed the child process that tried it.
var ErrCrashed = errors.New("libnvidia-ml crashed during its initialization")

// ErrNoBinding is returned by builds without the binding.
var ErrNoBinding = errors.New("this build cannot call NVML: it was built with the tag otelcol_gpu_no_nvml or for a system other than Linux")

// ResultError is an NVML return code (nvmlReturn_t) other than success.
type ResultError uint32

// These are the codes that callers distinguish.
const (
	ErrUninitialized    ResultError = 1
	ErrInvalidArgument  ResultError = 2
	ErrNotSupported     ResultError = 3
	ErrNoPermission     ResultError = 4
	ErrNotFound         ResultError = 6
	ErrInsufficientSize ResultError = 7
	ErrDriverNotLoaded  ResultError = 9
	ErrTimeout          ResultError = 10
	ErrFunctionNotFound ResultError = 13
	ErrGPULost          ResultError = 15
	ErrResetRequired    ResultError = 16
	ErrVersionMismatch  ResultError = 18
	ErrArgumentVersion  ResultError = 25
	ErrDeprecated       ResultError = 26
	ErrUnknown          ResultError = 999
)

var resultTexts = map[ResultError]string{
	ErrUninitialized:    "not initialized",
	ErrInvalidArgument:  "invalid argument",
	ErrNotSupported:     "not supported",
	ErrNoPermission:     "no permission",
	ErrNotFound:         "not found",
	ErrInsufficientSize: "insufficient size",
	ErrDriverNotLoaded:  "driver not loaded",
	ErrTimeout:          "timeout",
	ErrFunctionNotFound: "function not found",
	ErrGPULost:          "the GPU is lost",
	ErrResetRequired:    "the GPU needs a reset",
	ErrVersionMismatch:  "the library's version does not match the driver's",
	ErrArgumentVersion:  "unknown version of a structure",
	ErrDeprecated:       "function no longer supported by the driver",
	ErrUnknown:          "unknown error",
}

// Error implements error.
func (e ResultError) Error() string {
	if text, ok := resultTexts[e]; ok {
		return "nvml: " + text
	}
	return fmt.Sprintf("nvml: error %d", uint32(e))
}

// Device is the handle of a board or a MIG device. It is valid while the Library that returned it
// is open.
type Device uintptr

// FieldID identifies a field of nvmlDeviceGetFieldValues (NVML_FI_DEV_…). It is the number of the
// field in nvml.h. If the number depends on the driver, it is one of the constants below.
type FieldID uint32

// These are the fields that are read. Durations are in nanoseconds, energies in millijoules, and
// temperatures in degrees Celsius.
const (
	FieldECCSingleBitVolatile FieldID = 3
	FieldECCDoubleBitVolatile FieldID = 4
	FieldNVLinkCRCFlit        FieldID = 38
	FieldNVLinkCRCData        FieldID = 45
	FieldNVLinkReplay         FieldID = 52
	FieldNVLinkRecovery       FieldID = 59
	FieldPolicyPower          FieldID = 74
	FieldPolicyThermal        FieldID = 75
	FieldPolicySyncBoost      FieldID = 76
	FieldPolicyBoardLimit     FieldID = 77
	FieldMemoryTemperature    FieldID = 82
	FieldTotalEnergy          FieldID = 83
	FieldNVLinkCount          FieldID = 91
	FieldPCIeReplays          FieldID = 94
	FieldRemappedCorrectable  FieldID = 142
	FieldRemappedUncorrected  FieldID = 143
	FieldRemapPending         FieldID = 144
	FieldRemapFailure         FieldID = 145
	FieldRecoveryAction       FieldID = 230
)

// These are the error counters for each NVLink. They have no value unless the driver is known to
// support reading them for a single link. The first three counters exist on Hopper. The last
// counter exists on Blackwell, and counts the recoveries of a link.
const (
	FieldNVLinkErrorReplay    FieldID = 161
	FieldNVLinkErrorRecovery  FieldID = 162
	FieldNVLinkErrorCRC       FieldID = 163
	FieldNVLinkRecoveryEvents FieldID = 215
)

// These are the slowdown counters (NVML_FI_DEV_CLOCKS_EVENT_REASON_…), in nanoseconds. Their field
// numbers depend on the driver. If the numbers are unknown, the counters have no value.
const (
	FieldReasonSWThermal FieldID = 1<<31 + iota
	FieldReasonHWThermal
	FieldReasonHWPowerBrake
)

// FieldValue is a field's value, if there is one.
type FieldValue struct {
	ID    FieldID
	Value float64
	OK    bool
	// Link is the number of the NVLink. It is used for fields that exist for each link.
	Link uint32
}

// Memory is the memory of a device in bytes. Used does not include the memory that the driver and
// the firmware reserve. On drivers older than R510, Used includes the reserved memory, because
// nvmlMemory_t counts it as used, and only nvmlMemory_v2_t has a separate field for it.
type Memory struct {
	Total, Free, Used uint64
}

// ProcessKind is one of NVML's process lists.
type ProcessKind uint8

const (
	// Compute processes have a compute context.
	Compute ProcessKind = iota
	// Graphics processes have a graphics context.
	Graphics
	// MPSCompute processes use an MPS server.
	MPSCompute
	// NumProcessKinds is one more than the highest ProcessKind.
	NumProcessKinds
)

// NoValue is NVML's value for memory that is not available ("N/A").
const NoValue = ^uint64(0)

// NoInstance is the GPU instance ID of a process that does not use MIG. It is also the ID if this
// version of the library does not return the instance of a process.
const NoInstance = ^uint32(0)

// Process is a process with a context on a device.
type Process struct {
	PID         uint32
	Memory      uint64 // bytes, or NoValue
	GPUInstance uint32 // or NoInstance
}

// ProcessSample is a process's utilization during one sample period of the driver. Idle processes
// have no samples.
type ProcessSample struct {
	PID  uint32
	Time uint64 // microseconds of the driver's clock
	SM   uint32 // percent
}

// GPMSample is a copy of a device's performance counters in the library's memory.
type GPMSample uintptr

// GPMValue is the value of a GPM metric, if there is one. ID is the number of the metric in nvml.h
// (NVML_GPM_METRIC_…).
type GPMValue struct {
	ID    uint32
	Value float64
	OK    bool
}

// EventSet is a set of events in the library's memory.
type EventSet uintptr

// XIDEvent is an XID error of a board.
type XIDEvent struct {
	Device   Device
	Instance uint32 // the GPU instance, or NoInstance
	Code     uint64
}
