package nvml

import (
	"errors"
	"fmt"
)

// ErrNoLibrary means that no library could be loaded.
var ErrNoLibrary = errors.New("libnvidia-ml.so.1 cannot be loaded")

// ErrCrashed means that the initialization of a library crashed the child process that tried the
// library.
var ErrCrashed = errors.New("libnvidia-ml crashed during its initialization")

// ErrNoBinding means that the build does not contain the NVML binding.
var ErrNoBinding = errors.New("this build cannot call NVML: it was built with the tag otelcol_gpu_no_nvml or for a system other than Linux")

// ResultError is an NVML return code (nvmlReturn_t) other than NVML_SUCCESS.
type ResultError uint32

// These are the return codes that callers distinguish.
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

// Device is the handle of a board or a MIG device. The handle is valid while the Library that
// returned it is open.
type Device uintptr

// FieldID identifies a field that nvmlDeviceGetFieldValues can read (NVML_FI_DEV_…). Usually, a
// FieldID is the number of the field in nvml.h. If the field number depends on the driver, the
// FieldID is one of the constants that start with FieldReason.
type FieldID uint32

// These are the fields that the collector reads. Durations are in nanoseconds, energies in
// millijoules, and temperatures in degrees Celsius.
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

// These fields are the error counters of a single NVLink. The error counters of a single NVLink
// have no value unless the driver is known to support reading them. Hopper boards have the first
// three counters. Blackwell boards have the last counter, which counts the recoveries of a link.
const (
	FieldNVLinkErrorReplay    FieldID = 161
	FieldNVLinkErrorRecovery  FieldID = 162
	FieldNVLinkErrorCRC       FieldID = 163
	FieldNVLinkRecoveryEvents FieldID = 215
)

// These fields are the slowdown counters (NVML_FI_DEV_CLOCKS_EVENT_REASON_…), in nanoseconds. The
// field numbers of the slowdown counters depend on the driver. If the field numbers are unknown,
// the counters have no value.
const (
	FieldReasonSWThermal FieldID = 1<<31 + iota
	FieldReasonHWThermal
	FieldReasonHWPowerBrake
)

// FieldValue is a field and its value. OK is true if the field has a value.
type FieldValue struct {
	ID    FieldID
	Value float64
	OK    bool
	// Link is the number of an NVLink. Link is used only for fields that cover a single link.
	Link uint32
}

// Memory contains the total, free, and used memory of a device in bytes. Since R510, Used does not
// include the memory that the driver and the firmware reserve. With older drivers, Used includes
// the reserved memory, because nvmlMemory_t does not contain a separate field for reserved memory.
type Memory struct {
	Total, Free, Used uint64
}

// ProcessKind identifies one of NVML's process lists.
type ProcessKind uint8

const (
	// Compute processes have a compute context on the device.
	Compute ProcessKind = iota
	// Graphics processes have a graphics context on the device.
	Graphics
	// MPSCompute processes use an MPS server.
	MPSCompute
	// NumProcessKinds is one more than the highest ProcessKind.
	NumProcessKinds
)

// NoValue is the value that NVML returns if an amount of memory is unknown ("N/A").
const NoValue = ^uint64(0)

// NoInstance means that there is no GPU instance, or that the library is too old to return the ID
// of the GPU instance.
const NoInstance = ^uint32(0)

// Process is a process that has a context on a device.
type Process struct {
	PID         uint32
	Memory      uint64 // In bytes, or NoValue if unknown.
	GPUInstance uint32 // The ID of the GPU instance, or NoInstance.
}

// ProcessSample is the utilization of a process during one sample period of the driver. The driver
// does not create samples for idle processes.
type ProcessSample struct {
	PID  uint32
	Time uint64 // In microseconds, according to the driver's clock.
	SM   uint32 // In percent.
}

// GPMSample is the handle of a copy of a device's performance counters. The library owns the memory
// of the copy.
type GPMSample uintptr

// GPMValue is a GPM metric and its value. ID is the number of the metric in nvml.h
// (NVML_GPM_METRIC_…). OK is true if the metric has a value.
type GPMValue struct {
	ID    uint32
	Value float64
	OK    bool
}

// EventSet is the handle of a set of events. The library owns the memory of the set.
type EventSet uintptr

// XIDEvent is an XID error that occurred on a board.
type XIDEvent struct {
	Device   Device
	Instance uint32 // the ID of the GPU instance, or NoInstance
	Code     uint64
}
