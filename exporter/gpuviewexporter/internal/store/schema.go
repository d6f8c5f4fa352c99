package store

import (
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/diagnose"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Field is a column of a series: one windowed metric with one value of its own
// attribute.
type Field uint8

// The fields, in the order in which they are shown.
const (
	Coverage Field = iota
	Samples
	UtilizationAvg
	UtilizationMax
	MemoryAvg
	MemoryMax
	MemoryPressure
	XIDErrors
	DRAMActiveAvg
	DRAMActiveMax
	SMActiveAvg
	SMOccupancyAvg
	PCIeTx
	PCIeRx
	NVLinkTx
	NVLinkRx
	PCIeTxUtilization
	PCIeRxUtilization
	NVLinkTxUtilization
	NVLinkRxUtilization
	ViolationPower
	ViolationThermal
	ViolationSyncBoost
	ViolationBoardLimit
	ReasonSWPowerCap
	ReasonHWSlowdown
	ReasonSyncBoost
	ReasonSWThermal
	ReasonHWThermal
	ReasonHWPowerBrake
	TimeSWPowerCap
	TimeHWSlowdown
	TimeSyncBoost
	TimeSWThermal
	TimeHWThermal
	TimeHWPowerBrake
	// NumFields is the number of fields.
	NumFields
)

// fold is how the values of several windows become one.
type fold uint8

const (
	// mean weighs by observed time.
	mean fold = iota
	// maximum is the maximum of maxima.
	maximum
	// sum adds counts.
	sum
)

// source is where a field comes from.
type source struct {
	metric *signal.Metric
	// value of the metric's own attribute; empty where it has none.
	value string
	fold  fold
}

var fields = [NumFields]source{
	Coverage:            {signal.WindowCoverage, "", mean},
	Samples:             {signal.WindowSamples, "", sum},
	UtilizationAvg:      {signal.UtilizationAvg, "", mean},
	UtilizationMax:      {signal.UtilizationMax, "", maximum},
	MemoryAvg:           {signal.MemoryUtilizationAvg, "", mean},
	MemoryMax:           {signal.MemoryUtilizationMax, "", maximum},
	MemoryPressure:      {signal.MemoryPressureRatio, "", mean},
	XIDErrors:           {signal.XIDErrors, "", sum},
	DRAMActiveAvg:       {signal.DRAMActiveAvg, "", mean},
	DRAMActiveMax:       {signal.DRAMActiveMax, "", maximum},
	SMActiveAvg:         {signal.SMActiveAvg, "", mean},
	SMOccupancyAvg:      {signal.SMOccupancyAvg, "", mean},
	PCIeTx:              {signal.PCIeThroughputAvg, signal.DirectionTransmit, mean},
	PCIeRx:              {signal.PCIeThroughputAvg, signal.DirectionReceive, mean},
	NVLinkTx:            {signal.NVLinkThroughputAvg, signal.DirectionTransmit, mean},
	NVLinkRx:            {signal.NVLinkThroughputAvg, signal.DirectionReceive, mean},
	PCIeTxUtilization:   {signal.PCIeUtilizationAvg, signal.DirectionTransmit, mean},
	PCIeRxUtilization:   {signal.PCIeUtilizationAvg, signal.DirectionReceive, mean},
	NVLinkTxUtilization: {signal.NVLinkUtilizationAvg, signal.DirectionTransmit, mean},
	NVLinkRxUtilization: {signal.NVLinkUtilizationAvg, signal.DirectionReceive, mean},
	ViolationPower:      {signal.ThrottleViolationRatio, "power", mean},
	ViolationThermal:    {signal.ThrottleViolationRatio, "thermal", mean},
	ViolationSyncBoost:  {signal.ThrottleViolationRatio, "sync_boost", mean},
	ViolationBoardLimit: {signal.ThrottleViolationRatio, "board_limit", mean},
	ReasonSWPowerCap:    {signal.ThrottleReasonRatio, "sw_power_cap", mean},
	ReasonHWSlowdown:    {signal.ThrottleReasonRatio, "hw_slowdown", mean},
	ReasonSyncBoost:     {signal.ThrottleReasonRatio, "sync_boost", mean},
	ReasonSWThermal:     {signal.ThrottleReasonRatio, "sw_thermal", mean},
	ReasonHWThermal:     {signal.ThrottleReasonRatio, "hw_thermal", mean},
	ReasonHWPowerBrake:  {signal.ThrottleReasonRatio, "hw_power_brake", mean},
	TimeSWPowerCap:      {signal.ThrottleTimeRatio, "sw_power_cap", mean},
	TimeHWSlowdown:      {signal.ThrottleTimeRatio, "hw_slowdown", mean},
	TimeSyncBoost:       {signal.ThrottleTimeRatio, "sync_boost", mean},
	TimeSWThermal:       {signal.ThrottleTimeRatio, "sw_thermal", mean},
	TimeHWThermal:       {signal.ThrottleTimeRatio, "hw_thermal", mean},
	TimeHWPowerBrake:    {signal.ThrottleTimeRatio, "hw_power_brake", mean},
}

// Metric returns the name of the field's metric.
func (f Field) Metric() string { return fields[f].metric.Name }

// Value returns the value of the metric's own attribute, "" where it has none.
func (f Field) Value() string { return fields[f].value }

// Gauge is a metric of which the last value is kept.
type Gauge uint8

// The gauges. Those from ContainerMemoryUsage on belong to a container.
const (
	Power Gauge = iota
	Temperature
	MemoryUsage
	MemoryLimit
	PowerIdle
	PowerActive
	PowerUnattributed
	InstancePower
	SharingClients
	BudgetDeclared
	Headroom
	UsageUnbudgeted
	ContainerMemoryUsage
	ContainerMemoryBudget
	ContainerBudgetUtilization
	ContainerPower
	ContainerUtilization
	// NumGauges is the number of gauges.
	NumGauges
)

var gauges = [NumGauges]source{
	Power:                      {metric: signal.HwPower},
	Temperature:                {metric: signal.HwTemperature, value: signal.LocationGPU},
	MemoryUsage:                {metric: signal.HwGPUMemoryUsage},
	MemoryLimit:                {metric: signal.HwGPUMemoryLimit},
	PowerIdle:                  {metric: signal.GPUPowerIdle},
	PowerActive:                {metric: signal.GPUPowerActive},
	PowerUnattributed:          {metric: signal.GPUPowerUnattributed},
	InstancePower:              {metric: signal.GPUInstancePower},
	SharingClients:             {metric: signal.GPUSharingClients},
	BudgetDeclared:             {metric: signal.GPUMemoryBudgetDeclared},
	Headroom:                   {metric: signal.GPUMemoryHeadroom},
	UsageUnbudgeted:            {metric: signal.GPUMemoryUsageUnbudgeted},
	ContainerMemoryUsage:       {metric: signal.K8sContainerGPUMemoryUsage},
	ContainerMemoryBudget:      {metric: signal.K8sContainerGPUMemoryBudget},
	ContainerBudgetUtilization: {metric: signal.K8sContainerGPUMemoryBudgetUtilization},
	ContainerPower:             {metric: signal.K8sContainerGPUPower},
	ContainerUtilization:       {metric: signal.K8sContainerGPUUtilization},
}

// Metric returns the name of the gauge's metric.
func (g Gauge) Metric() string { return gauges[g].metric.Name }

// Demand is a metric of the scheduler's view, of which the last value is kept
// for each Kubernetes resource name.
type Demand uint8

// The scheduler's view.
const (
	PendingPods Demand = iota
	PendingUnits
	RequestedRatio
	OldestAge
	// NumDemands is the number of them.
	NumDemands
)

var demands = [NumDemands]*signal.Metric{
	PendingPods:    signal.ClusterPendingPodCount,
	PendingUnits:   signal.ClusterPendingRequestTotal,
	RequestedRatio: signal.ClusterRequestedAllocatableRatio,
	OldestAge:      signal.K8sGPUPendingOldestAge,
}

// Verdict is what gpu.signal.available says of one signal of a device. Verdicts
// from Missing on are Missing plus the reason's number.
type Verdict uint8

// The verdicts.
const (
	// Unknown signals have no point: nobody asked, or the signal is measured on
	// the device's board or on its instances.
	Unknown Verdict = iota
	// Given signals are there.
	Given
	// Missing signals are not there, for a reason that is not known.
	Missing
)

// diagnosed are the signals of which verdicts are kept: those that are worth
// asking for.
var diagnosed = slices.DeleteFunc(diagnose.Signals(), func(s *diagnose.Signal) bool { return s.Optional })

// Diagnosed returns the signals of which verdicts are kept, in the order of
// [View.Verdicts]. They are shared and must not be changed.
func Diagnosed() []*diagnose.Signal { return diagnosed }

// Metric says what the points of a metric are to the store.
type Metric struct {
	// Attribute is the key of the metric's own attribute, "" where it has none.
	Attribute string
	kind      kind
	byValue   map[string]uint8
	demand    Demand
}

type kind uint8

const (
	windowed kind = iota
	gauged
	demanded
	// held says who holds a device and nothing else.
	held
	// judged says whether a signal is there.
	judged
	// reported says whether an exporter answers.
	reported
	// erred counts errors of a device by their type.
	erred
)

// Lookup returns what the points of a metric are to the store; false when it
// keeps nothing of them.
func Lookup(name string) (*Metric, bool) {
	m, ok := metrics[name]
	return m, ok
}

var metrics = makeMetrics()

func makeMetrics() map[string]*Metric {
	out := map[string]*Metric{signal.GPUDeviceHolder.Name: {kind: held}}
	add := func(s source, k kind, index uint8) {
		m := out[s.metric.Name]
		if m == nil {
			m = &Metric{kind: k, byValue: map[string]uint8{}}
			if len(s.metric.Attributes) > 0 {
				m.Attribute = s.metric.Attributes[0]
			}
			out[s.metric.Name] = m
		}
		m.byValue[s.value] = index
	}
	for f, s := range &fields {
		add(s, windowed, uint8(f))
	}
	for g, s := range &gauges {
		add(s, gauged, uint8(g))
	}
	judge := &Metric{Attribute: signal.Signal, kind: judged, byValue: map[string]uint8{}}
	for i, d := range diagnosed {
		judge.byValue[d.Name()] = uint8(i)
	}
	out[signal.GPUSignalAvailable.Name] = judge
	out[signal.GPUExporterUp.Name] = &Metric{Attribute: signal.URLFull, kind: reported}
	out[signal.HwErrors.Name] = &Metric{Attribute: signal.ErrorType, kind: erred}
	for d, m := range demands {
		out[m.Name] = &Metric{Attribute: signal.Resource, kind: demanded, demand: Demand(d)}
	}
	return out
}
