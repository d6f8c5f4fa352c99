package diagnose

import (
	"github.com/otelcol-gpu/otelcol-gpu/internal/dcgm"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Signal is a metric of the output contract, or the part of one that is made of
// fields of its own.
type Signal struct {
	// Metric is the sample metric.
	Metric *signal.Metric
	// Part is the value of the metric's own attribute; empty where the metric is
	// made as a whole.
	Part string
	// Sources are the sets of fields that the signal can be made of, the usual
	// one first. A signal without sources is made of labels.
	Sources [][]dcgm.ID
	// Feeds are the window metrics that are made of the signal.
	Feeds []*signal.Metric
	// Optional signals are rarely wanted, or cost more than they tell.
	Optional bool
}

// Name returns the metric's name, followed by the part in braces.
func (s *Signal) Name() string {
	if s.Part == "" {
		return s.Metric.Name
	}
	return s.Metric.Name + "{" + s.Part + "}"
}

// Fields returns the fields that the signal is usually made of, by the names that
// a csv of exporter 4.x has; none for one that is made of labels.
func (s *Signal) Fields() []string {
	if len(s.Sources) == 0 {
		return nil
	}
	var out []string
	for _, id := range s.Sources[0] {
		out = append(out, csv[id].name)
	}
	return out
}

// scope is what the signal measures when the board is cut into MIG instances.
func (s *Signal) scope() dcgm.Scope {
	if len(s.Sources) == 0 {
		return dcgm.Instance
	}
	return catalogue[s.Sources[0][0]].Scope
}

// catalogue holds the fields by ID.
var catalogue = func() (out [dcgm.NumFields]*dcgm.Field) {
	for _, f := range dcgm.Fields() {
		out[f.ID] = f
	}
	return out
}()

// Signals returns every signal that a dcgm-exporter can give, in the order in
// which they are best read. They are shared and must not be changed.
func Signals() []*Signal {
	out := make([]*Signal, len(signals))
	for i := range signals {
		out[i] = &signals[i]
	}
	return out
}

// fields is one set of fields that all are needed.
func fields(ids ...dcgm.ID) []dcgm.ID { return ids }

// from lists the sets that a signal can be made of.
func from(sets ...[]dcgm.ID) [][]dcgm.ID { return sets }

// windows lists what a signal feeds.
func windows(ms ...*signal.Metric) []*signal.Metric { return ms }

// signals mirrors what the synthesizer makes of a scrape; a test of the
// gpu_synthesizer processor holds the two together.
var signals = [...]Signal{
	{signal.HwGPUUtilization, signal.TaskGeneral, from(fields(dcgm.GREngineActive), fields(dcgm.GPUUtil)), windows(signal.UtilizationAvg, signal.UtilizationMax), false},
	{signal.HwGPUUtilization, signal.TaskEncoder, from(fields(dcgm.EncUtil)), nil, false},
	{signal.HwGPUUtilization, signal.TaskDecoder, from(fields(dcgm.DecUtil)), nil, false},

	{signal.HwGPUMemoryUtilization, "", from(fields(dcgm.FBUsed, dcgm.FBFree)), windows(signal.MemoryUtilizationAvg, signal.MemoryUtilizationMax, signal.MemoryPressureRatio), false},
	{signal.HwGPUMemoryUsage, "", from(fields(dcgm.FBUsed)), nil, false},
	{signal.HwGPUMemoryLimit, "", from(fields(dcgm.FBUsed, dcgm.FBFree), fields(dcgm.FBTotal)), nil, false},

	{signal.GPUClockThrottleTime, "power", from(fields(dcgm.PowerViolation)), windows(signal.ThrottleViolationRatio), false},
	{signal.GPUClockThrottleTime, "thermal", from(fields(dcgm.ThermalViolation)), windows(signal.ThrottleViolationRatio), false},
	{signal.GPUClockThrottleTime, "sync_boost", from(fields(dcgm.SyncBoostViolation)), windows(signal.ThrottleViolationRatio), false},
	{signal.GPUClockThrottleTime, "board_limit", from(fields(dcgm.BoardLimitViolation)), windows(signal.ThrottleViolationRatio), false},
	{signal.GPUClockEventTime, "sw_power_cap", from(fields(dcgm.EventTimeSWPowerCap)), windows(signal.ThrottleTimeRatio), false},
	{signal.GPUClockEventTime, "sync_boost", from(fields(dcgm.EventTimeSyncBoost)), windows(signal.ThrottleTimeRatio), false},
	{signal.GPUClockEventTime, "sw_thermal", from(fields(dcgm.EventTimeSWThermal)), windows(signal.ThrottleTimeRatio), false},
	{signal.GPUClockEventTime, "hw_thermal", from(fields(dcgm.EventTimeHWThermal)), windows(signal.ThrottleTimeRatio), false},
	{signal.GPUClockEventTime, "hw_power_brake", from(fields(dcgm.EventTimeHWPowerBrake)), windows(signal.ThrottleTimeRatio), false},
	{signal.GPUClockEventActive, "", from(fields(dcgm.ClocksEventReasons)), windows(signal.ThrottleReasonRatio), false},
	{signal.GPUClockFrequency, signal.DomainSM, from(fields(dcgm.SMClock)), nil, false},
	{signal.GPUClockFrequency, signal.DomainMemory, from(fields(dcgm.MemClock)), nil, false},

	{signal.HwErrors, partXID, from(fields(dcgm.XIDLast), fields(dcgm.XIDTotal), fields(dcgm.XIDCount)), windows(signal.XIDErrors), false},
	{signal.HwErrors, "ecc_sbe", from(fields(dcgm.ECCSBEVolatile)), nil, false},
	{signal.HwErrors, "ecc_dbe", from(fields(dcgm.ECCDBEVolatile)), nil, false},
	{signal.HwErrors, "row_remap_uncorrectable", from(fields(dcgm.RowRemapUncorrectable)), nil, false},
	{signal.HwErrors, "row_remap_correctable", from(fields(dcgm.RowRemapCorrectable)), nil, false},
	{signal.HwErrors, "pcie_replay", from(fields(dcgm.PCIeReplay)), nil, false},
	{signal.HwErrors, "nvlink_crc", from(fields(dcgm.NVLinkCRCFlit), fields(dcgm.NVLinkCRCData), fields(dcgm.NVLinkLinkCRC)), nil, false},
	{signal.HwErrors, "nvlink_replay", from(fields(dcgm.NVLinkReplay), fields(dcgm.NVLinkLinkReplay)), nil, false},
	{signal.HwErrors, "nvlink_recovery", from(fields(dcgm.NVLinkRecovery), fields(dcgm.NVLinkLinkRecovery), fields(dcgm.NVLinkRecoveryEvents), fields(dcgm.NVLinkRecoverySuccessful, dcgm.NVLinkRecoveryFailed)), nil, false},

	{signal.GPUEngineActive, "", from(fields(dcgm.GREngineActive)), nil, false},
	{signal.GPUSMActive, "", from(fields(dcgm.SMActive)), windows(signal.SMActiveAvg), false},
	{signal.GPUSMOccupancy, "", from(fields(dcgm.SMOccupancy)), windows(signal.SMOccupancyAvg), false},
	{signal.GPUDRAMActive, "", from(fields(dcgm.DRAMActive)), windows(signal.DRAMActiveAvg, signal.DRAMActiveMax), false},
	{signal.GPUPipeActive, "tensor", from(fields(dcgm.PipeTensorActive)), nil, false},
	{signal.GPUPipeActive, "fp64", from(fields(dcgm.PipeFP64Active)), nil, false},
	{signal.GPUPipeActive, "fp32", from(fields(dcgm.PipeFP32Active)), nil, false},
	{signal.GPUPipeActive, "fp16", from(fields(dcgm.PipeFP16Active)), nil, false},
	{signal.GPUPipeActive, "int", from(fields(dcgm.PipeIntActive)), nil, true},
	{signal.GPUPipeActive, "tensor_imma", from(fields(dcgm.PipeTensorIMMAActive)), nil, true},
	{signal.GPUPipeActive, "tensor_hmma", from(fields(dcgm.PipeTensorHMMAActive)), nil, true},
	{signal.GPUPipeActive, "tensor_dfma", from(fields(dcgm.PipeTensorDFMAActive)), nil, true},

	{signal.GPUPCIeThroughput, signal.DirectionTransmit, from(fields(dcgm.PCIeTXRate), fields(dcgm.PCIeTXTotal)), windows(signal.PCIeThroughputAvg), false},
	{signal.GPUPCIeThroughput, signal.DirectionReceive, from(fields(dcgm.PCIeRXRate), fields(dcgm.PCIeRXTotal)), windows(signal.PCIeThroughputAvg), false},
	{signal.GPUPCIeUtilization, signal.DirectionTransmit, from(fields(dcgm.PCIeTXRate), fields(dcgm.PCIeTXTotal)), windows(signal.PCIeUtilizationAvg), false},
	{signal.GPUPCIeUtilization, signal.DirectionReceive, from(fields(dcgm.PCIeRXRate), fields(dcgm.PCIeRXTotal)), windows(signal.PCIeUtilizationAvg), false},
	{signal.GPUNVLinkThroughput, signal.DirectionTransmit, from(fields(dcgm.NVLinkTXRate), fields(dcgm.NVLinkTXTotal), fields(dcgm.NVLinkTXBandwidth)), windows(signal.NVLinkThroughputAvg), false},
	{signal.GPUNVLinkThroughput, signal.DirectionReceive, from(fields(dcgm.NVLinkRXRate), fields(dcgm.NVLinkRXTotal), fields(dcgm.NVLinkRXBandwidth)), windows(signal.NVLinkThroughputAvg), false},
	{signal.GPUNVLinkUtilization, signal.DirectionTransmit, from(fields(dcgm.NVLinkTXRate), fields(dcgm.NVLinkTXTotal), fields(dcgm.NVLinkTXBandwidth)), windows(signal.NVLinkUtilizationAvg), false},
	{signal.GPUNVLinkUtilization, signal.DirectionReceive, from(fields(dcgm.NVLinkRXRate), fields(dcgm.NVLinkRXTotal), fields(dcgm.NVLinkRXBandwidth)), windows(signal.NVLinkUtilizationAvg), false},

	{signal.HwPower, "", from(fields(dcgm.PowerUsage)), nil, false},
	{signal.HwEnergy, "", from(fields(dcgm.EnergyConsumption)), nil, false},
	{signal.HwTemperature, signal.LocationGPU, from(fields(dcgm.GPUTemp)), nil, false},
	{signal.HwTemperature, signal.LocationMemory, from(fields(dcgm.MemoryTemp)), nil, false},

	{signal.GPUDeviceHolder, "", nil, nil, false},
	{signal.K8sContainerGPUMemoryUsage, "", from(fields(dcgm.FBUsed)), nil, true},
	{signal.K8sContainerGPUUtilization, "", from(fields(dcgm.GPUUtil)), nil, true},
}

// partXID stands for every error.type that begins with xid_, and for the point
// without one that says that none has come.
const partXID = "xid"
