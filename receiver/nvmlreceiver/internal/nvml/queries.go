package nvml

// Query is a value of a device that a single call returns as a number. It is an index into queries.
// The zero Query means that there is no query.
type Query int

// queries are the functions with the signature f(device, args…, pointer to the value). Each element
// contains the names of the function, newest first. Some functions have a second pointer parameter
// for a value that is not used. Every call passes this second pointer, because a C function ignores
// additional register arguments.
var queries = make([]function, 1)

type function struct {
	result result
	names  []string
	args   []uintptr
}

// result defines where the function of a query stores the value.
type result uint8

const (
	uint32Result result = iota
	uint64Result
	secondResult // the second of two 64-bit numbers
)

func query(r result, names []string, args ...uintptr) Query {
	queries = append(queries, function{r, names, args})
	return Query(len(queries) - 1)
}

var (
	// MinorNumber is the number N in /dev/nvidiaN.
	MinorNumber = query(uint32Result, []string{"nvmlDeviceGetMinorNumber"})
	// MIGMode is 1 while the board is in MIG mode.
	MIGMode = query(uint32Result, []string{"nvmlDeviceGetMigMode"})
	// MaxMIGDevices is the number of possible indexes of MIG devices.
	MaxMIGDevices = query(uint32Result, []string{"nvmlDeviceGetMaxMigDeviceCount"})
	// GPUInstanceID is the ID of the GPU instance to which a MIG device belongs.
	GPUInstanceID = query(uint32Result, []string{"nvmlDeviceGetGpuInstanceId"})
	// GPUUtilization is the fraction of time during which kernels ran, in percent.
	GPUUtilization = query(uint32Result, []string{"nvmlDeviceGetUtilizationRates"})
	// EncoderUtilization is in percent.
	EncoderUtilization = query(uint32Result, []string{"nvmlDeviceGetEncoderUtilization"})
	// DecoderUtilization is in percent.
	DecoderUtilization = query(uint32Result, []string{"nvmlDeviceGetDecoderUtilization"})
	// PowerUsage is in milliwatts.
	PowerUsage = query(uint32Result, []string{"nvmlDeviceGetPowerUsage"})
	// EnforcedPowerLimit is in milliwatts.
	EnforcedPowerLimit = query(uint32Result, []string{"nvmlDeviceGetEnforcedPowerLimit"})
	// Temperature is the temperature of the die in degrees Celsius.
	Temperature = query(uint32Result, []string{"nvmlDeviceGetTemperature"}, 0)
	// SMClock is in MHz.
	SMClock = query(uint32Result, []string{"nvmlDeviceGetClockInfo"}, 1)
	// MemoryClock is in MHz.
	MemoryClock = query(uint32Result, []string{"nvmlDeviceGetClockInfo"}, 2)
	// ClockEventReasons is a bit mask.
	ClockEventReasons = query(uint64Result, []string{"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"})
	// PCIeTransmit is in KB/s (1000 bytes), measured over 20 ms. The call takes that long.
	PCIeTransmit = query(uint32Result, []string{"nvmlDeviceGetPcieThroughput"}, 0)
	// PCIeReceive is in KB/s (1000 bytes), measured over 20 ms. The call takes that long.
	PCIeReceive = query(uint32Result, []string{"nvmlDeviceGetPcieThroughput"}, 1)
	// MaxPCIeLinkGeneration is the highest generation that both the GPU and the system support.
	MaxPCIeLinkGeneration = query(uint32Result, []string{"nvmlDeviceGetMaxPcieLinkGeneration"})
	// MaxPCIeLinkWidth is the number of lanes.
	MaxPCIeLinkWidth = query(uint32Result, []string{"nvmlDeviceGetMaxPcieLinkWidth"})
	// PCIeLinkWidth is the number of lanes that the link currently uses.
	PCIeLinkWidth = query(uint32Result, []string{"nvmlDeviceGetCurrPcieLinkWidth"})
	// TotalEnergy is in millijoules since the driver was loaded.
	TotalEnergy = query(uint64Result, []string{"nvmlDeviceGetTotalEnergyConsumption"})
	// PowerViolation is how long power limits throttled the board, in nanoseconds.
	PowerViolation = query(secondResult, []string{"nvmlDeviceGetViolationStatus"}, 0)
	// ThermalViolation is how long heat throttled the board, in nanoseconds.
	ThermalViolation = query(secondResult, []string{"nvmlDeviceGetViolationStatus"}, 1)
	// SyncBoostViolation is how long the sync boost group throttled the board, in nanoseconds.
	SyncBoostViolation = query(secondResult, []string{"nvmlDeviceGetViolationStatus"}, 2)
	// BoardLimitViolation is how long the board's limits throttled it, in nanoseconds.
	BoardLimitViolation = query(secondResult, []string{"nvmlDeviceGetViolationStatus"}, 3)
	// CorrectedECC counts single bit errors since the driver was loaded.
	CorrectedECC = query(uint64Result, []string{"nvmlDeviceGetTotalEccErrors"}, 0, 0)
	// UncorrectedECC counts double bit errors since the driver was loaded.
	UncorrectedECC = query(uint64Result, []string{"nvmlDeviceGetTotalEccErrors"}, 1, 0)
	// PCIeReplays counts PCIe replays.
	PCIeReplays = query(uint32Result, []string{"nvmlDeviceGetPcieReplayCounter"})
	// FabricHealth is the health mask of the NVLink fabric. Only boards that have joined a fabric
	// have a mask.
	FabricHealth = query(uint32Result, []string{"nvmlDeviceGetGpuFabricInfoV"})
)
