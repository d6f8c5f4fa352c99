package signal

// K8sContainerGPUMemoryBudgetDriftRatio shows budgets that do not fit their
// container before anything acts on them.
var K8sContainerGPUMemoryBudgetDriftRatio = add(Metric{
	Name: "k8s.container.gpu.memory.budget.drift.ratio", Unit: "1", MayExceed1: true, Stage: StageWorkload,
	Description: "GPU memory that the container mostly stays below (the 95th percentile of a day) over what was declared for it.",
	Source:      "percentile of k8s.container.gpu.memory.usage / k8s.container.gpu.memory.budget",
})
