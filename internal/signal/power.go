package signal

// These metrics report how a board's power is divided among its MIG instances, containers, and
// processes.
var (
	// GPUPowerIdle is the power that a board draws while it is idle.
	GPUPowerIdle = add(Metric{
		Name: "gpu.power.idle", Unit: "W", Stage: StageWorkload,
		Description: "Part of the board's measured power that the board draws without work. Absent while the baseline is unknown.",
		Source:      "configured, or the lowest hw.power while nothing ran, limited by hw.power",
	})
	// GPUPowerActive is a board's power minus the board's idle power.
	GPUPowerActive = add(Metric{
		Name: "gpu.power.active", Unit: "W", Stage: StageWorkload,
		Description: "Measured power of the board minus its idle power.",
		Source:      "hw.power - gpu.power.idle",
	})
	// GPUInstancePower is a MIG instance's share of the board's active power.
	GPUInstancePower = add(Metric{
		Name: "gpu.instance.power", Unit: "W", Stage: StageWorkload,
		Description: "Share of the board's active power that is charged to the MIG instance.",
		Source:      "gpu.power.active by activity and compute slices",
	})
	// K8sContainerGPUPower is a container's share of a device's active power.
	K8sContainerGPUPower = add(Metric{
		Name: "k8s.container.gpu.power", Unit: "W", Stage: StageWorkload,
		Description: "Active power of the device that is charged to the container.",
		Source:      "gpu.power.active, gpu.instance.power by holder",
	})
	// K8sContainerGPUEnergy is the integral of K8sContainerGPUPower over time.
	K8sContainerGPUEnergy = add(Metric{
		Name: "k8s.container.gpu.energy", Unit: "J", Kind: Counter, Stage: StageWorkload,
		Description: "Energy that is charged to the container since it was first seen on the device.",
		Source:      "k8s.container.gpu.power over the sample times",
	})
	// ProcessGPUPower is a process's share of a device's active power.
	ProcessGPUPower = add(Metric{
		Name: "process.gpu.power", Unit: "W", Stage: StageWorkload,
		Description: "Active power of the device that is charged to the process.",
		Source:      "the device's share, split by process.gpu.utilization",
		Attributes:  []string{ProcessPID},
	})
	// GPUPowerUnattributed is the part of a board's active power that is not attributed to any
	// holder.
	GPUPowerUnattributed = add(Metric{
		Name: "gpu.power.unattributed", Unit: "W", Stage: StageWorkload,
		Description: "Active power of the board that is not charged to any container.",
		Source:      "gpu.power.active - sum of k8s.container.gpu.power",
	})
)
