package signal

// Samples are the metrics that gpu_synthesizer and the receivers compute from a single scrape. In
// these definitions, Source lists canonical DCGM fields without the prefix DCGM_FI_DEV_ or
// DCGM_FI_PROF_. The field catalogue contains the aliases of these fields. The documentation and
// the window metrics have the same order as this list.
var (
	// GPUClockThrottleTime is the total time for which a policy throttled the device.
	GPUClockThrottleTime = add(Metric{
		Name: "gpu.clock.throttle.time", Unit: "s", Kind: Counter,
		Description: "Time for which the device was throttled by the policy named by gpu.clock.violation.",
		Source:      "POWER_VIOLATION, THERMAL_VIOLATION, SYNC_BOOST_VIOLATION, BOARD_LIMIT_VIOLATION (nanoseconds)",
		Attributes:  []string{ClockViolation},
		Windows: []Window{
			{Metric: made("gpu.saturation.throttle.violation.ratio", "throttleViolationRatios", "Fraction of the observed time for which the device was throttled by the policy named by gpu.clock.violation."), Function: TimeRatio},
		},
	})
	// GPUClockEventActive reports whether the clocks are currently lowered for a specific reason.
	GPUClockEventActive = add(Metric{
		Name: "gpu.clock.event.active", Unit: "{state}", Int: true,
		Description: "1 while the clocks are lowered for the reason named by gpu.clock.event.reason, otherwise 0.",
		Source:      "CLOCKS_EVENT_REASONS, one bit for each reason",
		Attributes:  []string{ClockEventReason},
		Windows: []Window{
			{Metric: made("gpu.saturation.throttle.reason.ratio", "throttleReasonRatios", "Fraction of the samples in which the clocks were lowered for the reason named by gpu.clock.event.reason."), Function: Mean},
		},
	})
	// GPUClockEventTime is the total time for which the clocks were lowered for a specific reason.
	GPUClockEventTime = add(Metric{
		Name: "gpu.clock.event.time", Unit: "s", Kind: Counter,
		Description: "Time for which the clocks were lowered for the reason named by gpu.clock.event.reason.",
		Source:      "CLOCKS_EVENT_REASON_*_NS",
		Attributes:  []string{ClockEventReason},
		Windows: []Window{
			{Metric: made("gpu.saturation.throttle.time.ratio", "", "Fraction of the observed time for which the clocks were lowered for the reason named by gpu.clock.event.reason, without sampling error."), Function: TimeRatio},
		},
	})
	// GPUClockFrequency is the frequency of a clock.
	GPUClockFrequency = add(Metric{
		Name: "gpu.clock.frequency", Unit: "Hz",
		Description: "Frequency of the clock named by gpu.clock.domain.",
		Source:      "sm: SM_CLOCK; memory: MEM_CLOCK",
		Attributes:  []string{ClockDomain},
	})
	// HwGPUMemoryUtilization is the fraction of the usable memory that is in use.
	HwGPUMemoryUtilization = add(Metric{
		Name: "hw.gpu.memory.utilization", Unit: "1",
		Description: "Fraction of the usable GPU memory that is in use, computed for each sample.",
		Source:      "FB_USED / (FB_USED + FB_FREE)",
		Windows: []Window{
			{Metric: made("gpu.saturation.memory.utilization.avg", "memoryUsedRatioAvg", "Mean of the per-sample memory occupancy."), Function: Mean, Label: "Memory occupancy, mean"},
			{Metric: made("gpu.saturation.memory.utilization.max", "memoryUsedRatioMax", "Highest per-sample memory occupancy."), Function: Max, Label: "Memory occupancy, highest"},
			{Metric: off(made("gpu.saturation.memory.utilization.p95", "", "95th percentile of the per-sample memory occupancy. Off by default.")), Function: Quantile, Quantile: 0.95},
			{Metric: made("gpu.saturation.memory.pressure.ratio", "memoryPressureRatio", "Fraction of the samples whose memory occupancy is at least the pressure threshold."), Function: ShareAtLeast, Label: "Memory pressure"},
		},
	})
	// HwGPUMemoryUsage is the amount of frame buffer memory that is in use.
	HwGPUMemoryUsage = add(Metric{
		Name: "hw.gpu.memory.usage", Unit: "By", Kind: UpDownCounter, Int: true,
		Description: "GPU memory in use.",
		Source:      "FB_USED",
	})
	// HwGPUMemoryLimit is the size of the frame buffer memory.
	HwGPUMemoryLimit = add(Metric{
		Name: "hw.gpu.memory.limit", Unit: "By", Kind: UpDownCounter, Int: true,
		Description: "Size of the GPU memory.",
		Source:      "FB_TOTAL, otherwise FB_USED + FB_FREE (+ FB_RESERVED)",
	})
	// HwErrors is the number of errors that occurred on the device.
	HwErrors = add(Metric{
		Name: "hw.errors", Unit: "{error}", Kind: Counter, Int: true,
		Description: "Errors of the device. A point of 0 without error.type means that XID errors are counted and none has occurred.",
		Source:      "xid_<code>: XID events; corrected: ECC_SBE_VOL_TOTAL; uncorrected: ECC_DBE_VOL_TOTAL; row_remap_uncorrectable, row_remap_correctable, row_remap_failure, pcie_replay, nvlink_crc, nvlink_replay, nvlink_recovery: the field with that name; for NVLink errors, the newest generation that has a value",
		Attributes:  []string{ErrorType},
		Windows: []Window{
			{Metric: made("gpu.saturation.xid.errors", "xidErrorCount", "XID error events in the window, for all codes. 0 if observed without errors."), Function: Increase, Only: ErrorTypeXIDPrefix + "*", Absent: true, Label: "XID errors"},
			{Metric: off(made("gpu.saturation.errors", "", "Errors of the kind named by error.type in the window. 0 if observed without errors. Off by default.")), Function: Increase},
		},
	})
	// HwStatus is the health of the board.
	HwStatus = add(Metric{
		Name: "hw.status", Unit: "1", Kind: UpDownCounter, Int: true,
		Description: "1 for the board's state that hw.state names, 0 for the other states. The state is the worst that was observed.",
		Source:      "GPU_RECOVERY_ACTION (reset and reboot: failed, drains: degraded), ROW_REMAP_FAILURE (failed), problems in FABRIC_HEALTH_MASK (degraded), ROW_REMAP_PENDING (predicted_failure); without GPU_RECOVERY_ACTION, an XID that needs a reset or reboot (failed, until energy decreases, the last code is 0, or the device was lost and found)",
		Attributes:  []string{HardwareState},
	})
	// GPURecoveryAction reports which action the driver recommends to recover from an error.
	GPURecoveryAction = add(Metric{
		Name: "gpu.recovery.action", Unit: "{state}", Int: true,
		Description: "1 for the recovery action that the driver names, 0 for the other actions.",
		Source:      "GPU_RECOVERY_ACTION",
		Attributes:  []string{RecoveryAction},
	})
	// GPUDRAMActive is the fraction of cycles in which the memory interface was active.
	GPUDRAMActive = add(Metric{
		Name: "gpu.dram.active", Unit: "1",
		Description: "Fraction of cycles in which the device memory interface was sending or receiving.",
		Source:      "DRAM_ACTIVE",
		Windows: []Window{
			{Metric: made("gpu.saturation.dram.active.avg", "dramActiveAvg", "Mean activity of the device memory interface."), Function: Mean, Label: "DRAM active, mean", Column: "DRAM", Explain: "Share of cycles in which the memory interface was active. Near 1 with low occupancy: bound by bandwidth.", Steps: []float64{0.4, 0.6, 0.75, 0.9}, Always: true},
			{Metric: made("gpu.saturation.dram.active.max", "dramActiveMax", "Highest activity of the device memory interface."), Function: Max, Label: "DRAM active, highest"},
		},
	})
	// GPUSMActive is the fraction of cycles with at least one resident warp.
	GPUSMActive = add(Metric{
		Name: "gpu.sm.active", Unit: "1",
		Description: "Fraction of cycles in which a streaming multiprocessor had at least one warp assigned, averaged over all multiprocessors.",
		Source:      "SM_ACTIVE",
		Windows: []Window{
			{Metric: made("gpu.saturation.sm.active.avg", "smActiveAvg", "Mean activity of the streaming multiprocessors."), Function: Mean, Label: "SM active", Column: "SM", Explain: "SM activity: the share of cycles with at least one warp on an SM.", Always: true},
		},
	})
	// GPUSMOccupancy is the number of resident warps divided by the maximum number of resident
	// warps.
	GPUSMOccupancy = add(Metric{
		Name: "gpu.sm.occupancy", Unit: "1",
		Description: "Resident warps as a fraction of the maximum that the streaming multiprocessors support.",
		Source:      "SM_OCCUPANCY",
		Windows: []Window{
			{Metric: made("gpu.saturation.sm.occupancy.avg", "smOccupancyAvg", "Mean warp occupancy of the streaming multiprocessors."), Function: Mean, Label: "SM occupancy", Column: "Occ.", Explain: "SM occupancy: resident warps as a share of the most that the SMs hold.", Always: true},
		},
	})
	// GPUEngineActive is the fraction of time during which any graphics or compute engine was
	// active.
	GPUEngineActive = add(Metric{
		Name: "gpu.engine.active", Unit: "1",
		Description: "Fraction of time in which the graphics or compute engine was active. For a MIG instance, relative to the instance.",
		Source:      "GR_ENGINE_ACTIVE",
	})
	// GPUPipeActive is the fraction of cycles in which an execution pipe was active.
	GPUPipeActive = add(Metric{
		Name: "gpu.pipe.active", Unit: "1",
		Description: "Fraction of cycles in which the execution pipe named by gpu.pipe was active.",
		Source:      "PIPE_TENSOR_ACTIVE, PIPE_FP64_ACTIVE, PIPE_FP32_ACTIVE, PIPE_FP16_ACTIVE, PIPE_INT_ACTIVE, PIPE_TENSOR_IMMA_ACTIVE, PIPE_TENSOR_HMMA_ACTIVE, PIPE_TENSOR_DFMA_ACTIVE",
		Attributes:  []string{Pipe},
	})
	// GPUPCIeThroughput is the PCIe transfer rate in one direction.
	GPUPCIeThroughput = add(Metric{
		Name: "gpu.pcie.throughput", Unit: "By/s",
		Description: "Bytes per second over PCIe in one direction, headers included, seen from the GPU.",
		Source:      "PROF_PCIE_TX_BYTES, PROF_PCIE_RX_BYTES (always rates), otherwise the rate of PROF_PCIE_*_BYTES_TOTAL",
		Attributes:  []string{IODirection},
		Windows: []Window{
			{Metric: made("gpu.saturation.pcie.throughput.avg", "pcieTxBytesAvg, pcieRxBytesAvg", "Mean bytes per second over PCIe in one direction."), Function: Mean, Label: "PCIe *"},
		},
	})
	// GPUNVLinkThroughput is the NVLink transfer rate in one direction.
	GPUNVLinkThroughput = add(Metric{
		Name: "gpu.nvlink.throughput", Unit: "By/s",
		Description: "Bytes per second over all NVLinks in one direction, seen from the GPU.",
		Source:      "PROF_NVLINK_TX_BYTES, PROF_NVLINK_RX_BYTES (rates), otherwise the rate of NVLINK_*_BYTES_TOTAL, otherwise NVLINK_TX_BANDWIDTH_TOTAL, NVLINK_RX_BANDWIDTH_TOTAL; never NVLINK_BANDWIDTH_TOTAL, which adds up both directions",
		Attributes:  []string{IODirection},
		Windows: []Window{
			{Metric: made("gpu.saturation.nvlink.throughput.avg", "nvlinkTxBytesAvg, nvlinkRxBytesAvg", "Mean bytes per second over NVLink in one direction."), Function: Mean, Label: "NVLink *"},
		},
	})
	// GPUXGMIThroughput is the transfer rate over AMD's xGMI links in one direction.
	GPUXGMIThroughput = add(Metric{
		Name: "gpu.xgmi.throughput", Unit: "By/s",
		Description: "Bytes per second over all xGMI links of an AMD GPU in one direction.",
		Source:      "rate of gpu_xgmi_link_tx and gpu_xgmi_link_rx, added up over the links, x 1000",
		Attributes:  []string{IODirection},
		Windows: []Window{
			{Metric: made("gpu.saturation.xgmi.throughput.avg", "", "Mean bytes per second over xGMI in one direction."), Function: Mean, Label: "xGMI *"},
		},
	})
	// GPUPCIeUtilization is the PCIe transfer rate as a fraction of the link's capacity.
	GPUPCIeUtilization = add(Metric{
		Name: "gpu.pcie.utilization", Unit: "1",
		Description: "PCIe throughput as a fraction of the link's capacity in that direction. Absent while the capacity is unknown.",
		Source:      "throughput / capacity of PCIE_MAX_LINK_GEN x PCIE_MAX_LINK_WIDTH, otherwise of the model",
		Attributes:  []string{IODirection},
		Windows: []Window{
			{Metric: made("gpu.saturation.pcie.utilization.avg", "", "Mean PCIe throughput as a fraction of the link's capacity in that direction."), Function: Mean, Label: "PCIe *, share of the link"},
		},
	})
	// GPUPCIeLinkWidth is the number of lanes that the PCIe link currently uses.
	GPUPCIeLinkWidth = add(Metric{
		Name: "gpu.pcie.link.width", Unit: "{lane}", Int: true,
		Description: "Lanes that the PCIe link currently uses. Some idle GPUs use fewer lanes.",
		Source:      "PCIE_LINK_WIDTH",
	})
	// GPUNVLinkUtilization is the NVLink transfer rate as a fraction of the links' capacity.
	GPUNVLinkUtilization = add(Metric{
		Name: "gpu.nvlink.utilization", Unit: "1",
		Description: "NVLink throughput as a fraction of the links' capacity in that direction. Absent while the capacity is unknown.",
		Source:      "throughput / capacity of the model",
		Attributes:  []string{IODirection},
		Windows: []Window{
			{Metric: made("gpu.saturation.nvlink.utilization.avg", "", "Mean NVLink throughput as a fraction of the links' capacity in that direction."), Function: Mean, Label: "NVLink *, share of the link"},
		},
	})
	// HwGPUIO is the number of bytes transferred over PCIe.
	HwGPUIO = add(Metric{
		Name: "hw.gpu.io", Unit: "By", Kind: Counter, Int: true,
		Description: "Bytes over PCIe in one direction, seen from the GPU, if the exporter counts them.",
		Source:      "PROF_PCIE_TX_BYTES_TOTAL, PROF_PCIE_RX_BYTES_TOTAL",
		Attributes:  []string{IODirection},
	})
	// HwGPUUtilization is the fraction of time during which an engine was busy.
	HwGPUUtilization = add(Metric{
		Name: "hw.gpu.utilization", Unit: "1",
		Description: "Fraction of time in which the engine named by hw.gpu.task was busy.",
		Source:      "general: GR_ENGINE_ACTIVE; GPU_UTIL if GR_ENGINE_ACTIVE is absent, or 0 while GPU_UTIL is not (never on MIG); encoder: ENC_UTIL; decoder: DEC_UTIL",
		Attributes:  []string{GPUTask},
		Windows: []Window{
			{Metric: made("gpu.utilization.avg", "gpuUsageAverage", "Mean utilization of the device."), Function: Mean, Only: TaskGeneral, Label: "Utilization, mean"},
			{Metric: made("gpu.utilization.max", "", "Highest utilization of the device."), Function: Max, Only: TaskGeneral, Label: "Utilization, highest"},
			{Metric: off(made("gpu.utilization.p95", "", "95th percentile of the utilization of the device. Off by default.")), Function: Quantile, Quantile: 0.95, Only: TaskGeneral},
		},
	})
	// HwPower is the power draw of the board.
	HwPower = add(Metric{
		Name: "hw.power", Unit: "W",
		Description: "Power drawn by the board.",
		Source:      "POWER_USAGE",
	})
	// GPUPowerLimit is the maximum power of the board.
	GPUPowerLimit = add(Metric{
		Name: "gpu.power.limit", Unit: "W",
		Description: "Power limit that the driver enforces on the board.",
		Source:      "ENFORCED_POWER_LIMIT",
	})
	// HwEnergy is the energy that the board has used.
	HwEnergy = add(Metric{
		Name: "hw.energy", Unit: "J", Kind: Counter,
		Description: "Energy used by the board since the driver was loaded.",
		Source:      "TOTAL_ENERGY_CONSUMPTION",
	})
	// HwTemperature is the temperature that a sensor measures.
	HwTemperature = add(Metric{
		Name: "hw.temperature", Unit: "Cel",
		Description: "Temperature at the sensor named by hw.sensor_location.",
		Source:      "gpu: GPU_TEMP (0 means that the board is not read); memory: MEMORY_TEMP (0 means that the board has no sensor)",
		Attributes:  []string{SensorLocation},
	})
	// GPUExporterUp reports whether the last scrape of an exporter succeeded.
	GPUExporterUp = add(Metric{
		Name: "gpu.exporter.up", Unit: "{state}", Int: true,
		Description: "1 if the last scrape of the exporter succeeded, 0 if it failed.",
		Source:      "the dcgm receiver, once per scrape",
		Attributes:  []string{URLFull},
	})
	// GPUDeviceHolder reports which container holds a device.
	GPUDeviceHolder = add(Metric{
		Name: "gpu.device.holder", Unit: "{holder}", Int: true,
		Description: "1 for each container that holds the device. The Resource is the container. gpu.holder.source names the source.",
		Source:      "pod labels of the exporter's rows; with gpu_k8s, PodResources, DRA allocations, schedulers' annotations or processes",
	})
	// K8sContainerGPUMemoryUsage is the GPU memory that a container uses.
	K8sContainerGPUMemoryUsage = add(Metric{
		Name: "k8s.container.gpu.memory.usage", Unit: "By", Kind: UpDownCounter, Int: true,
		Description: "GPU memory used by the container's processes on the device.",
		Source:      "FB_USED rows with pod labels if there is also a row without, otherwise HAMi's monitor; with the section budget, also an exclusive holder's device, or processes",
	})
	// K8sContainerGPUUtilization is the fraction of time for which a container keeps the device
	// busy.
	K8sContainerGPUUtilization = add(Metric{
		Name: "k8s.container.gpu.utilization", Unit: "1",
		Description: "Fraction of time in which the container's processes kept the device busy.",
		Source:      "GPU_UTIL rows with pod labels if there is also a row without, otherwise HAMi's monitor",
	})
)
