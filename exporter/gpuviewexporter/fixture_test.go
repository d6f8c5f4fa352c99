package gpuviewexporter

import (
	"fmt"
	"math"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/diagnose"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// A batch builds metrics in the format that the gpu_window processor sends.
type batch struct {
	md         pmetric.Metrics
	rm         pmetric.ResourceMetrics
	start, end time.Time
	point      map[string]string
	// The kind and workload fields identify the owner of the pods that are added afterward.
	kind, workload string
}

func newBatch(end time.Time, length time.Duration) *batch {
	return &batch{md: pmetric.NewMetrics(), start: end.Add(-length), end: end}
}

// ownedBy sets the owner of all pods that are added afterward.
func (b *batch) ownedBy(kind, workload string) *batch {
	b.kind, b.workload = kind, workload
	return b
}

// onNode starts a new Resource. The workload parameter is either empty or contains the names of the
// namespace, the pod and the container.
func (b *batch) onNode(node string, workload ...string) *batch {
	b.rm = b.md.ResourceMetrics().AppendEmpty()
	attributes := b.rm.Resource().Attributes()
	attributes.PutStr(signal.HostName, node)
	if len(workload) > 0 {
		attributes.PutStr(signal.K8sNamespaceName, workload[0])
		attributes.PutStr(signal.K8sPodName, workload[1])
		attributes.PutStr(signal.K8sPodUID, "uid-"+workload[1])
		attributes.PutStr(signal.K8sContainerName, workload[2])
		if b.workload != "" {
			attributes.PutStr(signal.K8sWorkloadKind, b.kind)
			attributes.PutStr(signal.K8sWorkloadName, b.workload)
		}
	}
	b.rm.ScopeMetrics().AppendEmpty()
	return b
}

// The device method sets the device of all points that are added afterward. The pairs parameter
// contains the keys and values of additional attributes.
func (b *batch) device(id string, pairs ...string) *batch {
	b.point = map[string]string{signal.HardwareID: id, signal.HardwareVendor: signal.VendorNVIDIA}
	for i := 0; i < len(pairs); i += 2 {
		b.point[pairs[i]] = pairs[i+1]
	}
	return b
}

// addPoint adds a data point. The attributes parameter contains the values of the metric's own
// attributes.
func (b *batch) addPoint(m *signal.Metric, value float64, attributes ...string) *batch {
	out := b.rm.ScopeMetrics().At(0).Metrics().AppendEmpty()
	out.SetName(m.Name)
	dp := out.SetEmptyGauge().DataPoints().AppendEmpty()
	for k, v := range b.point {
		dp.Attributes().PutStr(k, v)
	}
	for i, value := range attributes {
		dp.Attributes().PutStr(m.Attributes[i], value)
	}
	if m.Stage == signal.StageWindow {
		dp.SetStartTimestamp(pcommon.NewTimestampFromTime(b.start))
	}
	dp.SetTimestamp(pcommon.NewTimestampFromTime(b.end))
	if m.Int {
		dp.SetIntValue(int64(value))
	} else {
		dp.SetDoubleValue(value)
	}
	return b
}

var reasons = []string{"sw_power_cap", "hw_slowdown", "sync_boost", "sw_thermal", "hw_thermal", "hw_power_brake"}

// The load method adds one window of a busy device that supports profiling.
func (b *batch) load(busy, memory, throttle float64) *batch {
	b.addPoint(signal.WindowCoverage, 1).addPoint(signal.WindowSamples, 4)
	b.addPoint(signal.UtilizationAvg, busy).addPoint(signal.UtilizationMax, min(1, busy*1.1))
	b.memory(memory)
	b.addPoint(signal.DRAMActiveAvg, busy*0.8).addPoint(signal.DRAMActiveMax, min(1, busy*0.9))
	b.addPoint(signal.SMActiveAvg, busy*0.9).addPoint(signal.SMOccupancyAvg, busy*0.5)
	b.addPoint(signal.XIDErrors, 0)
	return b.board(busy, throttle)
}

func (b *batch) memory(memory float64) *batch {
	pressure := 0.0
	if memory > 0.9 {
		pressure = (memory - 0.9) * 10
	}
	return b.addPoint(signal.MemoryUtilizationAvg, memory).addPoint(signal.MemoryUtilizationMax, min(1, memory+0.03)).addPoint(signal.MemoryPressureRatio, pressure)
}

// The board method adds the metrics that are measured only for whole boards.
func (b *batch) board(busy, throttle float64) *batch {
	for i, r := range []string{"power", "thermal", "sync_boost", "board_limit"} {
		b.addPoint(signal.ThrottleViolationRatio, throttle*float64(3-i)/3, r)
	}
	for i, r := range reasons {
		b.addPoint(signal.ThrottleReasonRatio, throttle*float64(5-i)/5, r)
	}
	for _, way := range []string{signal.DirectionTransmit, signal.DirectionReceive} {
		b.addPoint(signal.PCIeThroughputAvg, busy*9e9, way).addPoint(signal.PCIeUtilizationAvg, busy*0.14, way)
		b.addPoint(signal.NVLinkThroughputAvg, busy*2.1e11, way).addPoint(signal.NVLinkUtilizationAvg, busy*0.46, way)
	}
	return b.addPoint(signal.HwPower, 90+busy*560).addPoint(signal.HwTemperature, 35+busy*40, signal.LocationGPU)
}

// The wave function returns a number between 0 and 1 that varies smoothly over time and differs
// between devices.
func wave(device int, at time.Time) float64 {
	t := float64(at.Unix()) / 60
	return 0.5 + 0.32*math.Sin(t/9+float64(device)*1.7) + 0.18*math.Sin(t/2.3+float64(device)*0.9)
}

const gib = 1 << 30

// The fleet function returns one window for each of n boards, with eight boards per node and one
// holder per board. If variety is true, the fleet includes every kind of device and every kind of
// missing data.
func fleet(end time.Time, length time.Duration, n int, variety bool) pmetric.Metrics {
	b := newBatch(end, length)
	for i := range n {
		node, name := fmt.Sprintf("gpu-node-%02d", i/8), fmt.Sprintf("nvidia%d", i%8)
		id := fmt.Sprintf("GPU-%08x-7d1c-4c5e-9f7a-2b8c1d3e5f60", i+1)
		board := []string{signal.HardwareName, name, signal.HardwareModel, "NVIDIA H100 80GB HBM3"}
		busy := wave(i, end)
		throttle := max(0, busy-0.7)
		container := []string{[]string{"training", "inference", "research"}[i%3], fmt.Sprintf("worker-%d", i), "main"}
		switch {
		case variety && i%8 == 3:
			// This board does not have profiling metrics, clocks event reasons, or a holder.
			b.onNode(node).device(id, signal.HardwareName, name, signal.HardwareModel, "Tesla T4").
				addPoint(signal.WindowCoverage, 0.5).addPoint(signal.WindowSamples, 2).addPoint(signal.UtilizationAvg, busy*0.3).memory(busy*0.4).addPoint(signal.HwPower, 40)
			for _, lacks := range []string{"gpu.sm.active", "gpu.sm.occupancy", "gpu.dram.active", "gpu.pcie.throughput{transmit}", "gpu.pcie.throughput{receive}"} {
				b.addPoint(signal.GPUSignalAvailable, 0, lacks, diagnose.NoProfiling.String())
			}
			for _, lacks := range []string{"gpu.clock.throttle.time{power}", "gpu.clock.throttle.time{thermal}", "gpu.clock.event.active"} {
				b.addPoint(signal.GPUSignalAvailable, 0, lacks, diagnose.NotInCSV.String())
			}
			b.addPoint(signal.GPUSignalAvailable, 0, "gpu.nvlink.throughput{transmit}", diagnose.Hardware.String())
			b.addPoint(signal.GPUSignalAvailable, 1, "hw.power")
			continue
		case variety && i%8 == 5:
			b.onNode(node).device(id, board...).addPoint(signal.WindowCoverage, 1).addPoint(signal.WindowSamples, 4).board(busy, throttle).
				addPoint(signal.GPUPowerIdle, 70).addPoint(signal.GPUPowerActive, 20+busy*560)
			for gi, profile := range map[int]string{7: "1g.10gb", 9: "1g.10gb", 2: "3g.40gb"} {
				instance := append([]string{signal.HardwareParent, id, signal.MIGProfile, profile}, board...)
				share := busy * float64(gi) / 9
				b.onNode(node).device(fmt.Sprintf("%s/gi%d", id, gi), instance...).
					addPoint(signal.WindowCoverage, 1).addPoint(signal.WindowSamples, 4).addPoint(signal.UtilizationAvg, share).memory(0.2+share*0.7).
					addPoint(signal.SMActiveAvg, share).addPoint(signal.SMOccupancyAvg, share/2).addPoint(signal.DRAMActiveAvg, share*0.6).
					addPoint(signal.XIDErrors, 0).addPoint(signal.GPUInstancePower, share*300)
				b.onNode(node, "inference", fmt.Sprintf("ranker-%d-%d", i, gi), "server").
					device(fmt.Sprintf("%s/gi%d", id, gi), append([]string{signal.SharingStrategy, signal.SharingNone, signal.ResourceClaimName, "ranker-gpu"}, instance...)...).
					addPoint(signal.WindowCoverage, 1).addPoint(signal.UtilizationAvg, share)
			}
			continue
		}
		b.onNode(node).device(id, board...).load(busy, min(1, 0.3+busy*0.75), throttle).
			addPoint(signal.HwGPUMemoryLimit, 80*gib).addPoint(signal.HwGPUMemoryUsage, busy*80*gib)
		if variety {
			b.addPoint(signal.GPUSignalAvailable, 1, "gpu.sm.active")
			b.addPoint(signal.GPUClockFrequency, 1.98e9-throttle*0.6e9, signal.DomainSM).
				addPoint(signal.GPUPowerIdle, 70).addPoint(signal.GPUPowerActive, 20+busy*560).addPoint(signal.GPUPowerUnattributed, 12).
				addPoint(signal.GPUMemoryBudgetDeclared, 60*gib).addPoint(signal.GPUMemoryHeadroom, (1-busy)*80*gib)
			if i%8 == 6 {
				b.addPoint(signal.XIDErrors, 2)
			}
		}
		b.onNode(node, container...).device(id, append([]string{signal.SharingStrategy, signal.SharingNone}, board...)...).
			load(busy, min(1, 0.3+busy*0.75), throttle)
		if variety {
			b.addPoint(signal.K8sContainerGPUPower, 8+busy*560).addPoint(signal.K8sContainerGPUMemoryUsage, busy*79*gib).addPoint(signal.K8sContainerGPUMemoryBudget, 60*gib)
			if i%8 == 1 {
				b.onNode(node, "research", fmt.Sprintf("notebook-%d", i), "jupyter").
					device(id, append([]string{signal.SharingStrategy, signal.SharingTimeSlicing}, board...)...).addPoint(signal.WindowCoverage, 1).addPoint(signal.UtilizationAvg, busy)
			}
		}
	}
	if variety {
		b.onNode("cluster").device("")
		b.point = nil
		b.addPoint(signal.ClusterPendingPodCount, 3, "nvidia.com/gpu").addPoint(signal.ClusterPendingRequestTotal, 12, "nvidia.com/gpu").
			addPoint(signal.ClusterRequestedAllocatableRatio, 1.19, "nvidia.com/gpu").addPoint(signal.K8sGPUPendingOldestAge, 754, "nvidia.com/gpu")
		b.addPoint(signal.ClusterPendingPodCount, 0, "nvidia.com/mig-1g.10gb").addPoint(signal.ClusterRequestedAllocatableRatio, 0.75, "nvidia.com/mig-1g.10gb")
	}
	return b.md
}
