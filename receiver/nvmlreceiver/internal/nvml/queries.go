package nvml

// Query identifies a value of a device that a single call returns as a number. A Query is an index
// into the queries slice. The zero Query means that there is no query.
type Query int

// The queries slice contains the functions with the signature f(device, args…, pointer to the
// value). Each element contains the names of a function, starting with the newest name. Some
// functions have a second pointer parameter for a value that is not used. The package passes a
// second pointer in every call, because the other C functions ignore additional register arguments.
var queries = make([]function, 1)

type function struct {
	result result
	names  []string
	args   []uintptr
}

// The result type defines how the function of a query stores the value.
type result uint8

const (
	uint32Result result = iota
	uint64Result
	secondResult // the value is the second of two 64-bit numbers
)

func query(r result, names []string, args ...uintptr) Query {
	queries = append(queries, function{r, names, args})
	return Query(len(queries) - 1)
}

var (
	// MinorNumber is the number N in /dev/nvidiaN.
	MinorNumber = query(uint32Result, []string{"nvmlDeviceGetMinorNumber"})
	// MIGMode is 1 if the board is in MIG mode.
	MIGMode = query(uint32Result, []string{"nvmlDeviceGetMigMode"})
	// MaxMIGDevices is the maximum number of MIG devices on the board. The indexes of MIG devices
	// are less than this number.
	MaxMIGDevices = query(uint32Result, []string{"nvmlDeviceGetMaxMigDeviceCount"})
	// GPUInstanceID is the ID of the GPU instance to which a MIG device belongs.
	GPUInstanceID = query(uint32Result, []string{"nvmlDeviceGetGpuInstanceId"})
	// GPUUtilization is the percentage of time during which kernels were running.
	GPUUtilization = query(uint32Result, []string{"nvmlDeviceGetUtilizationRates"})
	// EncoderUtilization is in percent.
	EncoderUtilization = query(uint32Result, []string{"nvmlDeviceGetEncoderUtilization"})
	// DecoderUtilization is in percent.
	DecoderUtilization = query(uint32Result, []string{"nvmlDeviceGetDecoderUtilization"})
	// PowerUsage is in milliwatts.
	PowerUsage = query(uint32Result, []string{"nvmlDeviceGetPowerUsage"})
	// EnforcedPowerLimit is in milliwatts.
	EnforcedPowerLimit = query(uint32Result, []string{"nvmlDeviceGetEnforcedPowerLimit"})
	// Temperature is the temperature of the GPU die, in degrees Celsius.
	Temperature = query(uint32Result, []string{"nvmlDeviceGetTemperature"}, 0)
	// SMClock is in MHz.
	SMClock = query(uint32Result, []string{"nvmlDeviceGetClockInfo"}, 1)
	// MemoryClock is in MHz.
	MemoryClock = query(uint32Result, []string{"nvmlDeviceGetClockInfo"}, 2)
	// ClockEventReasons is a bit mask.
	ClockEventReasons = query(uint64Result, []string{"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"})
	// PCIeTransmit is in KB/s (1 KB is 1000 bytes). The call blocks for 20 ms to measure the
	// throughput.
	PCIeTransmit = query(uint32Result, []string{"nvmlDeviceGetPcieThroughput"}, 0)
	// PCIeReceive is in KB/s (1 KB is 1000 bytes). The call blocks for 20 ms to measure the
	// throughput.
	PCIeReceive = query(uint32Result, []string{"nvmlDeviceGetPcieThroughput"}, 1)
	// MaxPCIeLinkGeneration is the highest PCIe generation that both the GPU and the system
	// support.
	MaxPCIeLinkGeneration = query(uint32Result, []string{"nvmlDeviceGetMaxPcieLinkGeneration"})
	// MaxPCIeLinkWidth is the maximum number of lanes of the PCIe link.
	MaxPCIeLinkWidth = query(uint32Result, []string{"nvmlDeviceGetMaxPcieLinkWidth"})
	// PCIeLinkWidth is the number of lanes that the PCIe link currently uses.
	PCIeLinkWidth = query(uint32Result, []string{"nvmlDeviceGetCurrPcieLinkWidth"})
	// TotalEnergy is the energy that has been consumed since the driver was loaded, in millijoules.
	TotalEnergy = query(uint64Result, []string{"nvmlDeviceGetTotalEnergyConsumption"})
	// PowerViolation is the time during which power limits throttled the board, in nanoseconds.
	PowerViolation = query(secondResult, []string{"nvmlDeviceGetViolationStatus"}, 0)
	// ThermalViolation is the time during which thermal limits throttled the board, in nanoseconds.
	ThermalViolation = query(secondResult, []string{"nvmlDeviceGetViolationStatus"}, 1)
	// SyncBoostViolation is the time during which the sync boost group throttled the board, in
	// nanoseconds.
	SyncBoostViolation = query(secondResult, []string{"nvmlDeviceGetViolationStatus"}, 2)
	// BoardLimitViolation is the time during which board limits throttled the board, in
	// nanoseconds.
	BoardLimitViolation = query(secondResult, []string{"nvmlDeviceGetViolationStatus"}, 3)
	// CorrectedECC is the number of single-bit errors since the driver was loaded.
	CorrectedECC = query(uint64Result, []string{"nvmlDeviceGetTotalEccErrors"}, 0, 0)
	// UncorrectedECC is the number of double-bit errors since the driver was loaded.
	UncorrectedECC = query(uint64Result, []string{"nvmlDeviceGetTotalEccErrors"}, 1, 0)
	// PCIeReplays is the number of PCIe replays.
	PCIeReplays = query(uint32Result, []string{"nvmlDeviceGetPcieReplayCounter"})
	// FabricHealth is the health mask of the NVLink fabric. Only boards that have joined a fabric
	// have a health mask.
	FabricHealth = query(uint32Result, []string{"nvmlDeviceGetGpuFabricInfoV"})
)
