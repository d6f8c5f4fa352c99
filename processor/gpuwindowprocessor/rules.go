package gpuwindowprocessor

import (
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// defaultRules are the windows of GPU saturation: the output contract as data.
// The threshold is that of memory pressure.
func defaultRules(threshold float64) []RuleConfig {
	general := []FilterConfig{{Attribute: signal.GPUTask, Values: []string{signal.TaskGeneral}}}
	// Points without error.type say that XID errors are watched for and none has
	// come; other error types are no XID errors.
	xid := []FilterConfig{{Attribute: signal.ErrorType, Values: []string{signal.ErrorTypeXIDPrefix + "*"}, Absent: true}}
	return []RuleConfig{
		rule(signal.GPUClockThrottleTime, "time_ratio", signal.ThrottleViolationRatio),
		rule(signal.GPUClockEventActive, "mean", signal.ThrottleReasonRatio),
		rule(signal.GPUClockEventTime, "time_ratio", signal.ThrottleTimeRatio),
		rule(signal.HwGPUMemoryUtilization, "mean", signal.MemoryUtilizationAvg),
		rule(signal.HwGPUMemoryUtilization, "max", signal.MemoryUtilizationMax),
		rule(signal.HwGPUMemoryUtilization, "share_at_least", signal.MemoryPressureRatio).atLeast(threshold),
		rule(signal.HwErrors, "increase", signal.XIDErrors).where(xid),
		rule(signal.GPUDRAMActive, "mean", signal.DRAMActiveAvg),
		rule(signal.GPUDRAMActive, "max", signal.DRAMActiveMax),
		rule(signal.GPUSMActive, "mean", signal.SMActiveAvg),
		rule(signal.GPUSMOccupancy, "mean", signal.SMOccupancyAvg),
		rule(signal.GPUPCIeThroughput, "mean", signal.PCIeThroughputAvg),
		rule(signal.GPUNVLinkThroughput, "mean", signal.NVLinkThroughputAvg),
		rule(signal.GPUPCIeUtilization, "mean", signal.PCIeUtilizationAvg),
		rule(signal.GPUNVLinkUtilization, "mean", signal.NVLinkUtilizationAvg),
		rule(signal.HwGPUUtilization, "mean", signal.UtilizationAvg).where(general),
		rule(signal.HwGPUUtilization, "max", signal.UtilizationMax).where(general),
	}
}

// rule returns the rule that makes one metric of the contract from another.
func rule(source *signal.Metric, function string, out *signal.Metric) RuleConfig {
	return RuleConfig{
		Source: source.Name, Function: function, Metric: out.Name, Unit: out.Unit, Description: out.Description,
		Integer: out.Int, Attributes: out.Attributes,
	}
}

func (c RuleConfig) atLeast(threshold float64) RuleConfig {
	c.Threshold = &threshold
	return c
}

func (c RuleConfig) where(filters []FilterConfig) RuleConfig {
	c.Where = filters
	return c
}

// defaultIdentity tells GPU series apart as the output contract does.
func defaultIdentity() IdentityConfig {
	return IdentityConfig{
		Device: signal.HardwareID,
		Resource: []string{
			signal.K8sNodeName + "|" + signal.HostName, signal.K8sClusterName, signal.K8sNamespaceName,
			signal.K8sPodName, signal.K8sPodUID, signal.K8sContainerName,
			signal.ContainerName + "|" + signal.ContainerID, signal.HPCJobID,
		},
		Descriptive: []string{
			signal.HardwareParent, signal.HardwareName, signal.HardwareModel, signal.HardwareVendor, signal.HardwareType,
			signal.HardwareSerialNumber, signal.HardwareDriverVersion,
			"gpu.mig.*", signal.SharingStrategy,
			"k8s.resourceclaim.*", signal.DeviceClassName, "dra.*",
		},
		Annotations: []string{signal.HolderSource, signal.PowerSource, signal.PowerEstimated, signal.BudgetSource},
	}
}
