package signal

// Windows: what the window processor makes of the samples in one window.
var (
	// ThrottleViolationRatio is the throttled share of the observed time by policy.
	ThrottleViolationRatio = add(Metric{
		Name: "gpu.saturation.throttle.violation.ratio", Unit: "1", Stage: StageWindow,
		Description: "Fraction of the observed time for which the device was throttled by the policy named by gpu.clock.violation.",
		Source:      "increase of gpu.clock.throttle.time / observed time",
		OpenCost:    "throttleViolationRatios",
		Attributes:  []string{ClockViolation},
	})
	// ThrottleReasonRatio is the share of samples with a clock event reason set.
	ThrottleReasonRatio = add(Metric{
		Name: "gpu.saturation.throttle.reason.ratio", Unit: "1", Stage: StageWindow,
		Description: "Fraction of the samples in which the clocks were lowered for the reason named by gpu.clock.event.reason.",
		Source:      "mean of gpu.clock.event.active",
		OpenCost:    "throttleReasonRatios",
		Attributes:  []string{ClockEventReason},
	})
	// ThrottleTimeRatio is the exact share of the observed time by reason.
	ThrottleTimeRatio = add(Metric{
		Name: "gpu.saturation.throttle.time.ratio", Unit: "1", Stage: StageWindow,
		Description: "Fraction of the observed time for which the clocks were lowered for the reason named by gpu.clock.event.reason, without sampling error.",
		Source:      "increase of gpu.clock.event.time / observed time",
		Attributes:  []string{ClockEventReason},
	})
	// MemoryUtilizationAvg is the mean memory occupancy.
	MemoryUtilizationAvg = add(Metric{
		Name: "gpu.saturation.memory.utilization.avg", Unit: "1", Stage: StageWindow,
		Description: "Mean of the per-sample memory occupancy.",
		Source:      "mean of hw.gpu.memory.utilization",
		OpenCost:    "memoryUsedRatioAvg",
	})
	// MemoryUtilizationMax is the highest memory occupancy.
	MemoryUtilizationMax = add(Metric{
		Name: "gpu.saturation.memory.utilization.max", Unit: "1", Stage: StageWindow,
		Description: "Highest per-sample memory occupancy.",
		Source:      "maximum of hw.gpu.memory.utilization",
		OpenCost:    "memoryUsedRatioMax",
	})
	// MemoryPressureRatio is the share of samples under memory pressure.
	MemoryPressureRatio = add(Metric{
		Name: "gpu.saturation.memory.pressure.ratio", Unit: "1", Stage: StageWindow,
		Description: "Fraction of the samples with a memory occupancy at or above the pressure threshold.",
		Source:      "share of hw.gpu.memory.utilization >= memory_pressure_threshold",
		OpenCost:    "memoryPressureRatio",
	})
	// XIDErrors is the number of XID events.
	XIDErrors = add(Metric{
		Name: "gpu.saturation.xid.errors", Unit: "{error}", Int: true, Stage: StageWindow,
		Description: "XID error events in the window, all codes summed; 0 when observed and none came.",
		Source:      "increase of hw.errors with error.type xid_*",
		OpenCost:    "xidErrorCount",
	})
	// DRAMActiveAvg is the mean memory interface activity.
	DRAMActiveAvg = add(Metric{
		Name: "gpu.saturation.dram.active.avg", Unit: "1", Stage: StageWindow,
		Description: "Mean activity of the device memory interface.",
		Source:      "mean of gpu.dram.active",
		OpenCost:    "dramActiveAvg",
	})
	// DRAMActiveMax is the highest memory interface activity.
	DRAMActiveMax = add(Metric{
		Name: "gpu.saturation.dram.active.max", Unit: "1", Stage: StageWindow,
		Description: "Highest activity of the device memory interface.",
		Source:      "maximum of gpu.dram.active",
		OpenCost:    "dramActiveMax",
	})
	// SMActiveAvg is the mean streaming multiprocessor activity.
	SMActiveAvg = add(Metric{
		Name: "gpu.saturation.sm.active.avg", Unit: "1", Stage: StageWindow,
		Description: "Mean activity of the streaming multiprocessors.",
		Source:      "mean of gpu.sm.active",
		OpenCost:    "smActiveAvg",
	})
	// SMOccupancyAvg is the mean streaming multiprocessor occupancy.
	SMOccupancyAvg = add(Metric{
		Name: "gpu.saturation.sm.occupancy.avg", Unit: "1", Stage: StageWindow,
		Description: "Mean warp occupancy of the streaming multiprocessors.",
		Source:      "mean of gpu.sm.occupancy",
		OpenCost:    "smOccupancyAvg",
	})
	// PCIeThroughputAvg is the mean PCIe transfer rate.
	PCIeThroughputAvg = add(Metric{
		Name: "gpu.saturation.pcie.throughput.avg", Unit: "By/s", Stage: StageWindow,
		Description: "Mean bytes per second over PCIe in one direction.",
		Source:      "mean of gpu.pcie.throughput",
		OpenCost:    "pcieTxBytesAvg, pcieRxBytesAvg",
		Attributes:  []string{IODirection},
	})
	// NVLinkThroughputAvg is the mean NVLink transfer rate.
	NVLinkThroughputAvg = add(Metric{
		Name: "gpu.saturation.nvlink.throughput.avg", Unit: "By/s", Stage: StageWindow,
		Description: "Mean bytes per second over NVLink in one direction.",
		Source:      "mean of gpu.nvlink.throughput",
		OpenCost:    "nvlinkTxBytesAvg, nvlinkRxBytesAvg",
		Attributes:  []string{IODirection},
	})
	// PCIeUtilizationAvg is the mean PCIe utilization.
	PCIeUtilizationAvg = add(Metric{
		Name: "gpu.saturation.pcie.utilization.avg", Unit: "1", Stage: StageWindow,
		Description: "Mean PCIe throughput as a fraction of the link's capacity in that direction.",
		Source:      "mean of gpu.pcie.utilization",
		Attributes:  []string{IODirection},
	})
	// NVLinkUtilizationAvg is the mean NVLink utilization.
	NVLinkUtilizationAvg = add(Metric{
		Name: "gpu.saturation.nvlink.utilization.avg", Unit: "1", Stage: StageWindow,
		Description: "Mean NVLink throughput as a fraction of the links' capacity in that direction.",
		Source:      "mean of gpu.nvlink.utilization",
		Attributes:  []string{IODirection},
	})
	// UtilizationAvg is the mean utilization: the U of USE.
	UtilizationAvg = add(Metric{
		Name: "gpu.utilization.avg", Unit: "1", Stage: StageWindow,
		Description: "Mean utilization of the device.",
		Source:      "mean of hw.gpu.utilization with hw.gpu.task general",
		OpenCost:    "gpuUsageAverage",
	})
	// UtilizationMax is the highest utilization.
	UtilizationMax = add(Metric{
		Name: "gpu.utilization.max", Unit: "1", Stage: StageWindow,
		Description: "Highest utilization of the device.",
		Source:      "maximum of hw.gpu.utilization with hw.gpu.task general",
	})
	// WindowCoverage is the share of the window that was observed.
	WindowCoverage = add(Metric{
		Name: "gpu.window.coverage", Unit: "1", Stage: StageWindow,
		Description: "Fraction of the window that lies between samples of the device no more than max_gap apart.",
		Source:      "sample times of the device",
	})
	// WindowSamples is the number of distinct sample times in the window.
	WindowSamples = add(Metric{
		Name: "gpu.window.samples", Unit: "{sample}", Int: true, Stage: StageWindow,
		Description: "Distinct times at which the device was sampled in the window.",
		Source:      "sample times of the device",
	})
)
