package gpuwindowprocessor

import (
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor/internal/window"
)

// defaultRules are the windows of GPU saturation: the output contract as data.
// The threshold is that of memory pressure.
func defaultRules(threshold float64) []window.Rule {
	general := window.Filter{Attribute: signal.GPUTask, Values: []string{signal.TaskGeneral}}
	// Points without error.type say that XID errors are watched for and none has
	// come; other error types are no XID errors.
	xid := window.Filter{Attribute: signal.ErrorType, Values: []string{signal.ErrorTypeXIDPrefix + "*"}, Absent: true}
	return []window.Rule{
		rule(signal.GPUClockThrottleTime, "time_ratio", signal.ThrottleViolationRatio),
		rule(signal.GPUClockEventActive, "mean", signal.ThrottleReasonRatio),
		rule(signal.GPUClockEventTime, "time_ratio", signal.ThrottleTimeRatio),
		rule(signal.HwGPUMemoryUtilization, "mean", signal.MemoryUtilizationAvg),
		rule(signal.HwGPUMemoryUtilization, "max", signal.MemoryUtilizationMax),
		atLeast(threshold, rule(signal.HwGPUMemoryUtilization, window.ShareAtLeast, signal.MemoryPressureRatio)),
		where(xid, rule(signal.HwErrors, "increase", signal.XIDErrors)),
		rule(signal.GPUDRAMActive, "mean", signal.DRAMActiveAvg),
		rule(signal.GPUDRAMActive, "max", signal.DRAMActiveMax),
		rule(signal.GPUSMActive, "mean", signal.SMActiveAvg),
		rule(signal.GPUSMOccupancy, "mean", signal.SMOccupancyAvg),
		rule(signal.GPUPCIeThroughput, "mean", signal.PCIeThroughputAvg),
		rule(signal.GPUNVLinkThroughput, "mean", signal.NVLinkThroughputAvg),
		rule(signal.GPUPCIeUtilization, "mean", signal.PCIeUtilizationAvg),
		rule(signal.GPUNVLinkUtilization, "mean", signal.NVLinkUtilizationAvg),
		where(general, rule(signal.HwGPUUtilization, "mean", signal.UtilizationAvg)),
		where(general, rule(signal.HwGPUUtilization, "max", signal.UtilizationMax)),
	}
}

// rule returns the rule that makes one metric of the contract from another.
func rule(source *signal.Metric, function string, out *signal.Metric) window.Rule {
	return window.Rule{
		Source: source.Name, Function: function, Metric: out.Name, Unit: out.Unit, Description: out.Description,
		Integer: out.Int, Attributes: out.Attributes,
	}
}

func atLeast(threshold float64, r window.Rule) window.Rule {
	r.Threshold = &threshold
	return r
}

func where(filter window.Filter, r window.Rule) window.Rule {
	r.Where = []window.Filter{filter}
	return r
}

// annotations are point attributes that describe the samples of one series alone.
var annotations = []string{signal.HolderSource, signal.PowerSource, signal.PowerEstimated, signal.BudgetSource}

// defaultIdentity tells GPU series apart as the output contract does.
func defaultIdentity() window.Identity {
	return window.Identity{
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
	}
}
