//go:build linux && !otelcol_gpu_no_nvml

package nvml

// symbol identifies a function of the library. A symbol is an index into symbolNames.
type symbol int

// symbolNames contains the alternative names of each function, starting with the newest name.
// Functions can be alternatives only if they have the same parameters and the same result layout,
// or if the binding can determine the layout of the result, as is the case for process lists.
var symbolNames [][]string

// The named function adds a symbol with the given names.
func named(names ...string) symbol {
	symbolNames = append(symbolNames, names)
	return symbol(len(symbolNames) - 1)
}

var (
	symInit             = named("nvmlInit_v2", "nvmlInit")
	symShutdown         = named("nvmlShutdown")
	symDriverVersion    = named("nvmlSystemGetDriverVersion")
	symDeviceCount      = named("nvmlDeviceGetCount_v2", "nvmlDeviceGetCount")
	symDeviceByIndex    = named("nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex")
	symMIGDeviceByIndex = named("nvmlDeviceGetMigDeviceHandleByIndex")
	symUUID             = named("nvmlDeviceGetUUID")
	symName             = named("nvmlDeviceGetName")
	symSerial           = named("nvmlDeviceGetSerial")
	symTemperatureV     = named("nvmlDeviceGetTemperatureV")
	symMemoryV2         = named("nvmlDeviceGetMemoryInfo_v2")
	symMemory           = named("nvmlDeviceGetMemoryInfo")
	symFieldValues      = named("nvmlDeviceGetFieldValues")
	symProcesses        = [NumProcessKinds]symbol{
		Compute: named("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2",
			"nvmlDeviceGetComputeRunningProcesses"),
		Graphics: named("nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2",
			"nvmlDeviceGetGraphicsRunningProcesses"),
		MPSCompute: named("nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v2",
			"nvmlDeviceGetMPSComputeRunningProcesses"),
	}
	symProcessUtilization = named("nvmlDeviceGetProcessUtilization")
	symGPMSupport         = named("nvmlGpmQueryDeviceSupport")
	symGPMSampleAlloc     = named("nvmlGpmSampleAlloc")
	symGPMSampleFree      = named("nvmlGpmSampleFree")
	symGPMSample          = named("nvmlGpmSampleGet")
	symGPMInstanceSample  = named("nvmlGpmMigSampleGet")
	symGPMMetrics         = named("nvmlGpmMetricsGet")
	symEventSetCreate     = named("nvmlEventSetCreate")
	symEventSetFree       = named("nvmlEventSetFree")
	symRegisterEvents     = named("nvmlDeviceRegisterEvents")
	symEventSetWait       = named("nvmlEventSetWait_v2") // version 2 also returns the GPU instance
)

// These types correspond to structures in nvml.h, including the padding that C compilers add.
type (
	// memoryV1 is nvmlMemory_t.
	memoryV1 struct {
		total, free, used uint64
	}

	// memoryV2 is nvmlMemory_v2_t.
	memoryV2 struct {
		version  uint32
		_        uint32
		total    uint64
		reserved uint64
		free     uint64
		used     uint64
	}

	// fieldValue is nvmlFieldValue_t. The value field is a union, and the valueType field defines
	// how to interpret the union.
	fieldValue struct {
		fieldID    uint32
		scopeID    uint32
		timestamp  int64
		latency    int64
		valueType  uint32
		nvmlReturn uint32
		value      [8]byte
	}

	// temperatureV1 is nvmlTemperature_v1_t.
	temperatureV1 struct {
		version, sensor uint32
		celsius         int32
	}

	// fabricInfo is nvmlGpuFabricInfo_v3_t. Version 2 of the structure ends after the health field.
	fabricInfo struct {
		version    uint32
		_          [16]byte
		nvmlReturn uint32
		_          uint32
		state      uint8
		health     uint32
		_          uint8
	}

	// processSample is nvmlProcessUtilizationSample_t.
	processSample struct {
		pid       uint32
		_         uint32
		timestamp uint64
		sm        uint32
		memory    uint32
		encoder   uint32
		decoder   uint32
	}
)

// These constants are sizes and field offsets in three structures: nvmlProcessInfo_v1_t,
// nvmlProcessInfo_v2_t (which also contains instance IDs), and nvmlProcessInfo_t in R535 versions
// before 535.98 (which contains yet another field).
const (
	processInfoV1Size      = 16
	processInfoV2Size      = 24
	processInfoMaxSize     = 32
	processInfoMemory      = 8
	processInfoGPUInstance = 16
)

// These constants are the values of the NVML_STRUCT_VERSION macro for Memory (version 2),
// Temperature (version 1), and GpuFabricInfo (versions 3 and 2). Each value contains the version in
// the highest byte and the size of the structure in the other bytes.
const (
	memoryV2Version      = 40 | 2<<24
	temperatureV1Version = 12 | 1<<24
	fabricInfoV3Version  = 40 | 3<<24
	fabricInfoV2Version  = 36 | 2<<24
)
