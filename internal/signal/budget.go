package signal

// Metrics about memory budgets: how much GPU memory containers may use, and how much they actually
// use.
var (
	// K8sContainerGPUMemoryBudget is the GPU memory that is declared for a container.
	K8sContainerGPUMemoryBudget = add(Metric{
		Name: "k8s.container.gpu.memory.budget", Unit: "By", Int: true, Stage: StageWorkload,
		Description: "GPU memory that was declared for the container on the device.",
		Source:      "resource requests, annotations, DRA consumed capacity, MIG capacity",
	})
	// K8sContainerGPUMemoryBudgetUtilization is the GPU memory that a container uses, divided by
	// the container's declared budget.
	K8sContainerGPUMemoryBudgetUtilization = add(Metric{
		Name: "k8s.container.gpu.memory.budget.utilization", Unit: "1", MayExceed1: true, Stage: StageWorkload,
		Description: "GPU memory that the container uses, divided by its declared memory. Above 1, the container is over its budget.",
		Source:      "k8s.container.gpu.memory.usage / k8s.container.gpu.memory.budget",
	})
	// GPUMemoryBudgetDeclared is the sum of all memory budgets that are declared on a device.
	GPUMemoryBudgetDeclared = add(Metric{
		Name: "gpu.memory.budget.declared", Unit: "By", Int: true, Stage: StageWorkload,
		Description: "Sum of the memory budgets declared on the device.",
		Source:      "k8s.container.gpu.memory.budget",
	})
	// GPUMemoryHeadroom is the free memory of a device.
	GPUMemoryHeadroom = add(Metric{
		Name: "gpu.memory.headroom", Unit: "By", Int: true, Stage: StageWorkload,
		Description: "Free memory of the device.",
		Source:      "FB_FREE, otherwise hw.gpu.memory.limit - hw.gpu.memory.usage",
	})
	// GPUMemoryUsageUnbudgeted is the device memory that containers without a declared budget use.
	GPUMemoryUsageUnbudgeted = add(Metric{
		Name: "gpu.memory.usage.unbudgeted", Unit: "By", Int: true, Stage: StageWorkload,
		Description: "Memory of the device used by containers without a budget.",
		Source:      "k8s.container.gpu.memory.usage of holders without a budget",
	})
	// GPUMemoryAttributionState reports whether the memory usage of containers is reliable.
	GPUMemoryAttributionState = add(Metric{
		Name: "gpu.memory.attribution.state", Unit: "{state}", Int: true, Stage: StageWorkload,
		Description: "Whether the containers' memory adds up to the device's: 1 for the current state with its reason, 0 for the other states.",
		Source:      "sum of k8s.container.gpu.memory.usage compared with hw.gpu.memory.usage",
		Attributes:  []string{State, Reason},
	})
)
