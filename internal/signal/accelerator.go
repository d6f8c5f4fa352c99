package signal

// Metrics about processes on a GPU, and cAdvisor's accelerator metrics. The cAdvisor metrics have
// the same values as other metrics but different names.
var (
	// ProcessGPUMemoryUsage is the GPU memory that a process uses.
	ProcessGPUMemoryUsage = add(Metric{
		Name: "process.gpu.memory.usage", Unit: "By", Int: true, Stage: StageWorkload,
		Description: "GPU memory used by the process on the device.",
		Source:      "NVML running processes; exporters of processes",
		Attributes:  []string{ProcessPID},
	})
	// ProcessGPUUtilization is the fraction of time for which a process keeps the device's SMs
	// busy.
	ProcessGPUUtilization = add(Metric{
		Name: "process.gpu.utilization", Unit: "1", Stage: StageWorkload,
		Description: "Fraction of time in which the process kept the device's multiprocessors busy.",
		Source:      "NVML process utilization",
		Attributes:  []string{ProcessPID},
	})
	// GPUProcessCount is the number of processes that use a device.
	GPUProcessCount = add(Metric{
		Name: "gpu.process.count", Unit: "{process}", Int: true, Stage: StageWorkload,
		Description: "Processes on the device. 0 if the complete list is empty, absent if the list is not complete.",
		Source:      "NVML running processes; exporters of processes",
	})
	// ContainerAcceleratorMemoryTotal is cAdvisor's metric for the total memory of an accelerator.
	ContainerAcceleratorMemoryTotal = add(Metric{
		Name: "container.accelerator.memory_total", Unit: "By", Int: true, Stage: StageWorkload, Off: true,
		Description: "Memory of the accelerator that the container holds. The value is for the whole device.",
		Source:      "hw.gpu.memory.limit of a device that the container holds",
		Attributes:  []string{AcceleratorMake, AcceleratorModel, AcceleratorID},
	})
	// ContainerAcceleratorMemoryUsed is cAdvisor's metric for the used memory of an accelerator.
	ContainerAcceleratorMemoryUsed = add(Metric{
		Name: "container.accelerator.memory_used", Unit: "By", Int: true, Stage: StageWorkload, Off: true,
		Description: "Memory of the accelerator that is in use. The value is for the whole device.",
		Source:      "hw.gpu.memory.usage of a device that the container holds",
		Attributes:  []string{AcceleratorMake, AcceleratorModel, AcceleratorID},
	})
	// ContainerAcceleratorDutyCycle is cAdvisor's metric for the duty cycle of an accelerator.
	ContainerAcceleratorDutyCycle = add(Metric{
		Name: "container.accelerator.duty_cycle", Unit: "{percent}", Stage: StageWorkload, Off: true,
		Description: "Percent of time in which the accelerator was busy. The value is for the whole device.",
		Source:      "hw.gpu.utilization (general) of a device that the container holds",
		Attributes:  []string{AcceleratorMake, AcceleratorModel, AcceleratorID},
	})
)
