//go:build linux && !otelcol_gpu_no_nvml

package nvml

// symbol is a function of the library: its place in symbolNames.
type symbol int

// symbolNames are the names of each function, the newest first. Names stand
// together only where their parameters are the same, or where the binding can
// tell what it got, as it does for process lists.
var symbolNames [][]string

// function adds one by its names.
func function(names ...string) symbol {
	symbolNames = append(symbolNames, names)
	return symbol(len(symbolNames) - 1)
}

var (
	symInit             = function("nvmlInit_v2", "nvmlInit")
	symShutdown         = function("nvmlShutdown")
	symDriverVersion    = function("nvmlSystemGetDriverVersion")
	symDeviceCount      = function("nvmlDeviceGetCount_v2", "nvmlDeviceGetCount")
	symDeviceByIndex    = function("nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex")
	symMIGDeviceByIndex = function("nvmlDeviceGetMigDeviceHandleByIndex")
	symUUID             = function("nvmlDeviceGetUUID")
	symName             = function("nvmlDeviceGetName")
	symSerial           = function("nvmlDeviceGetSerial")
	symTemperatureV     = function("nvmlDeviceGetTemperatureV")
	symMemoryV2         = function("nvmlDeviceGetMemoryInfo_v2")
	symMemory           = function("nvmlDeviceGetMemoryInfo")
	symFieldValues      = function("nvmlDeviceGetFieldValues")
	symProcesses        = [NumProcessKinds]symbol{
		Compute: function("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2",
			"nvmlDeviceGetComputeRunningProcesses"),
		Graphics: function("nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2",
			"nvmlDeviceGetGraphicsRunningProcesses"),
		MPSCompute: function("nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v2",
			"nvmlDeviceGetMPSComputeRunningProcesses"),
	}
	symProcessUtilization = function("nvmlDeviceGetProcessUtilization")
	symGPMSupport         = function("nvmlGpmQueryDeviceSupport")
	symGPMSampleAlloc     = function("nvmlGpmSampleAlloc")
	symGPMSampleFree      = function("nvmlGpmSampleFree")
	symGPMSample          = function("nvmlGpmSampleGet")
	symGPMInstanceSample  = function("nvmlGpmMigSampleGet")
	symGPMMetrics         = function("nvmlGpmMetricsGet")
	symEventSetCreate     = function("nvmlEventSetCreate")
	symEventSetFree       = function("nvmlEventSetFree")
	symRegisterEvents     = function("nvmlDeviceRegisterEvents")
	symEventSetWait       = function("nvmlEventSetWait_v2") // which tells the instance
)

// result says where a query's function leaves the value.
type result uint8

const (
	uint32Result result = iota
	uint64Result
	secondResult // the second of two 64-bit numbers
)

// queries are the functions of the form f(device, args…, pointer to the value).
// Some take a second pointer, for a value that is not read; the others ignore it,
// as any C function ignores a register that it does not know of.
var queries = [NumQueries]struct {
	names  []string
	args   []uintptr
	result result
}{
	MinorNumber:        {names: []string{"nvmlDeviceGetMinorNumber"}},
	MIGMode:            {names: []string{"nvmlDeviceGetMigMode"}},
	MaxMIGDevices:      {names: []string{"nvmlDeviceGetMaxMigDeviceCount"}},
	GPUInstanceID:      {names: []string{"nvmlDeviceGetGpuInstanceId"}},
	GPUUtilization:     {names: []string{"nvmlDeviceGetUtilizationRates"}},
	EncoderUtilization: {names: []string{"nvmlDeviceGetEncoderUtilization"}},
	DecoderUtilization: {names: []string{"nvmlDeviceGetDecoderUtilization"}},
	PowerUsage:         {names: []string{"nvmlDeviceGetPowerUsage"}},
	EnforcedPowerLimit: {names: []string{"nvmlDeviceGetEnforcedPowerLimit"}},
	Temperature:        {names: []string{"nvmlDeviceGetTemperature"}, args: []uintptr{0}},
	SMClock:            {names: []string{"nvmlDeviceGetClockInfo"}, args: []uintptr{1}},
	MemoryClock:        {names: []string{"nvmlDeviceGetClockInfo"}, args: []uintptr{2}},
	ClockEventReasons: {
		names:  []string{"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"},
		result: uint64Result,
	},
	PCIeTransmit:          {names: []string{"nvmlDeviceGetPcieThroughput"}, args: []uintptr{0}},
	PCIeReceive:           {names: []string{"nvmlDeviceGetPcieThroughput"}, args: []uintptr{1}},
	MaxPCIeLinkGeneration: {names: []string{"nvmlDeviceGetMaxPcieLinkGeneration"}},
	MaxPCIeLinkWidth:      {names: []string{"nvmlDeviceGetMaxPcieLinkWidth"}},
	TotalEnergy:           {names: []string{"nvmlDeviceGetTotalEnergyConsumption"}, result: uint64Result},
	PowerViolation:        {names: []string{"nvmlDeviceGetViolationStatus"}, args: []uintptr{0}, result: secondResult},
	ThermalViolation:      {names: []string{"nvmlDeviceGetViolationStatus"}, args: []uintptr{1}, result: secondResult},
	SyncBoostViolation:    {names: []string{"nvmlDeviceGetViolationStatus"}, args: []uintptr{2}, result: secondResult},
	BoardLimitViolation:   {names: []string{"nvmlDeviceGetViolationStatus"}, args: []uintptr{3}, result: secondResult},
	CorrectedECC:          {names: []string{"nvmlDeviceGetTotalEccErrors"}, args: []uintptr{0, 0}, result: uint64Result},
	UncorrectedECC:        {names: []string{"nvmlDeviceGetTotalEccErrors"}, args: []uintptr{1, 0}, result: uint64Result},
	FabricHealth:          {names: []string{"nvmlDeviceGetGpuFabricInfoV"}},
	PCIeReplays:           {names: []string{"nvmlDeviceGetPcieReplayCounter"}},
}

// Structures of nvml.h, with the padding that C gives them.
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

	// fieldValue is nvmlFieldValue_t. The value is a union, read as valueType says.
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

	// fabricInfo is nvmlGpuFabricInfo_v3_t; version 2 lacks what follows the health.
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

// Sizes and offsets of nvmlProcessInfo_v1_t, of _v2_t, which adds instances, and of
// nvmlProcessInfo_t as R535 had it before 535.98, with a field more.
const (
	processInfoV1Size      = 16
	processInfoV2Size      = 24
	processInfoMaxSize     = 32
	processInfoMemory      = 8
	processInfoGPUInstance = 16
)

// NVML_STRUCT_VERSION(Memory, 2), (Temperature, 1) and (GpuFabricInfo, 3 and 2): the size, and the version in
// the highest byte.
const (
	memoryV2Version      = 40 | 2<<24
	temperatureV1Version = 12 | 1<<24
	fabricInfoV3Version  = 40 | 3<<24
	fabricInfoV2Version  = 36 | 2<<24
)
