package store

import (
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/diagnose"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Field identifies a column of a series. A column contains the values of a windowed metric for one
// value of the metric's own attribute.
type Field uint8

// A fold defines how the values of several windows are combined.
type fold uint8

const (
	// The mean fold computes the average, weighted by observed time.
	mean fold = iota
	// The maximum fold selects the highest value.
	maximum
	// The sum fold adds the values together.
	sum
)

// fieldSource contains the metric that a field or gauge gets its values from.
type fieldSource struct {
	metric *signal.Metric
	// The value field is a value of the metric's own attribute, or "" if the metric has no such
	// attribute.
	value string
	fold  fold
}

// The fields slice lists the fields of a window. The first two fields are the coverage and the
// number of samples. The remaining fields are the windowed metrics in the signal table, in the
// order of the table, with one field for each value of a metric's own attribute.
var fields = func() []fieldSource {
	out := []fieldSource{{signal.WindowCoverage, "", mean}, {signal.WindowSamples, "", sum}}
	for _, samples := range signal.All() {
		for _, w := range samples.Windows {
			if w.Off {
				continue
			}
			how := mean
			switch w.Function {
			case signal.Max:
				how = maximum
			case signal.Increase:
				how = sum
			}
			values := []string{""}
			if len(w.Attributes) > 0 {
				values = signal.Values(w.Attributes[0])
			}
			for _, v := range values {
				out = append(out, fieldSource{w.Metric, v, how})
			}
		}
	}
	return out
}()

// NumFields is the number of fields.
var NumFields = Field(len(fields))

// FieldOf returns the field for a windowed metric and a value of the metric's own attribute.
func FieldOf(m *signal.Metric, value string) Field {
	i := slices.IndexFunc(fields, func(s fieldSource) bool { return s.metric == m && s.value == value })
	if i < 0 {
		panic("store: no field of " + m.Name + " with " + value)
	}
	return Field(i)
}

// The following fields are used in calculations.
var (
	Coverage       = FieldOf(signal.WindowCoverage, "")
	Samples        = FieldOf(signal.WindowSamples, "")
	UtilizationAvg = FieldOf(signal.UtilizationAvg, "")
	MemoryAvg      = FieldOf(signal.MemoryUtilizationAvg, "")
)

// FieldsOf returns all fields of a windowed metric, one for each value of the metric's own
// attribute.
func FieldsOf(m *signal.Metric) []Field {
	var out []Field
	for i := range fields {
		if fields[i].metric == m {
			out = append(out, Field(i))
		}
	}
	return out
}

// Value returns the value of the metric's own attribute, or "" if the metric has no such attribute.
func (f Field) Value() string { return fields[f].value }

// Gauge identifies a metric without windows, for one value of the metric's own attribute. The store
// keeps the last value of each gauge.
type Gauge uint8

// The gauges array lists the gauges of a device, followed by the gauges of a container. For the
// first numTracked gauges, the store also keeps a history.
var gauges = [...]fieldSource{
	{metric: signal.HwPower},
	{metric: signal.HwTemperature, value: signal.LocationGPU},
	{metric: signal.HwGPUMemoryUsage},
	{metric: signal.HwGPUMemoryLimit},
	{metric: signal.GPUPowerIdle},
	{metric: signal.GPUPowerActive},
	{metric: signal.GPUPowerUnattributed},
	{metric: signal.GPUInstancePower},
	{metric: signal.HwStatus, value: signal.StatusOK},
	{metric: signal.HwStatus, value: signal.StatusDegraded},
	{metric: signal.HwStatus, value: signal.StatusPredictedFailure},
	{metric: signal.HwStatus, value: signal.StatusFailed},
	{metric: signal.GPUClockFrequency, value: signal.DomainSM},
	{metric: signal.GPUSharingClients},
	{metric: signal.GPUMemoryBudgetDeclared},
	{metric: signal.GPUMemoryHeadroom},
	{metric: signal.GPUMemoryUsageUnbudgeted},
	{metric: signal.GPUFinding, value: "frozen_telemetry"},
	{metric: signal.GPUFinding, value: "spinning"},
	{metric: signal.GPUFinding, value: signal.FindingLatched},
	{metric: signal.GPUFinding, value: "slow_device"},
	{metric: signal.GPUFinding, value: "memory_degrading"},
	{metric: signal.K8sContainerGPUMemoryUsage},
	{metric: signal.K8sContainerGPUMemoryBudget},
	{metric: signal.K8sContainerGPUMemoryBudgetUtilization},
	{metric: signal.K8sContainerGPUPower},
	{metric: signal.K8sContainerGPUUtilization},
}

// numTracked is the number of gauges for which the store keeps a history. Gauges with a history
// must be the first elements of the gauges array.
const numTracked = 2

// NumGauges is the number of gauges.
const NumGauges = Gauge(len(gauges))

// The following gauges are used in calculations. ContainerMemoryUsage is the first of the gauges
// that describe a container.
var (
	MemoryUsage          = GaugeOf(signal.HwGPUMemoryUsage, "")
	MemoryLimit          = GaugeOf(signal.HwGPUMemoryLimit, "")
	SharingClients       = GaugeOf(signal.GPUSharingClients, "")
	ContainerMemoryUsage = GaugeOf(signal.K8sContainerGPUMemoryUsage, "")
)

// GaugeOf returns the gauge for a metric and a value of the metric's own attribute.
func GaugeOf(m *signal.Metric, value string) Gauge {
	i := slices.IndexFunc(gauges[:], func(s fieldSource) bool { return s.metric == m && s.value == value })
	if i < 0 {
		panic("store: no gauge of " + m.Name + " with " + value)
	}
	return Gauge(i)
}

// Demand identifies a metric that describes the scheduler's view. For each Kubernetes resource
// name, the store keeps the last value of the metric.
type Demand uint8

// These metrics describe the scheduler's view.
const (
	PendingPods Demand = iota
	PendingUnits
	RequestedRatio
	OldestAge
	// NumDemands is the number of Demand constants.
	NumDemands
)

var demands = [NumDemands]*signal.Metric{
	PendingPods:    signal.ClusterPendingPodCount,
	PendingUnits:   signal.ClusterPendingRequestTotal,
	RequestedRatio: signal.ClusterRequestedAllocatableRatio,
	OldestAge:      signal.K8sGPUPendingOldestAge,
}

// Verdict indicates whether a signal of a device is available, according to gpu.signal.available.
// If a signal is missing for a known reason, the verdict is Missing plus the number of the reason.
type Verdict uint8

// These are the possible verdicts.
const (
	// Unknown means that there is no verdict on the signal. Either the signals of the device are
	// not diagnosed, or the signal is measured at another level (for the board instead of its
	// instances, or vice versa).
	Unknown Verdict = iota
	// Available means that the signal is available.
	Available
	// Missing means that the signal is unavailable for an unknown reason.
	Missing
)

// The diagnosed slice lists the signals whose verdicts are stored. Optional signals are not
// included.
var diagnosed = slices.DeleteFunc(diagnose.Signals(), func(s *diagnose.Signal) bool { return s.Optional })

// Diagnosed returns the signals whose verdicts are stored, in the order of [View.Verdicts]. The
// slice is shared and must not be modified.
func Diagnosed() []*diagnose.Signal { return diagnosed }

// Metric describes how the data points of a metric are stored.
type Metric struct {
	// Attribute is the key of the metric's own attribute, or "" if the metric has no such
	// attribute.
	Attribute  string
	metricKind metricKind
	byValue    map[string]uint8
	demand     Demand
}

type metricKind uint8

const (
	windowKind metricKind = iota
	gaugeKind
	demandKind
	// holderKind metrics report only who holds a device.
	holderKind
	// verdictKind metrics report whether a signal is available.
	verdictKind
	// exporterKind metrics report whether an exporter answers.
	exporterKind
	// errorKind metrics count the errors of a device by type.
	errorKind
	// spendingKind metrics count the GPU time and the costs of a container.
	spendingKind
	// energyKind metrics count energy and are reset when the device's driver restarts.
	energyKind
	// claimKind metrics report the devices that are allocated to claims. Metrics of the kind
	// claimCountKind report the number of claims by state.
	claimKind
	claimCountKind
)

// Lookup returns the description of the metric with the given name, or false if data points of the
// metric are not stored.
func Lookup(name string) (*Metric, bool) {
	m, ok := metrics[name]
	return m, ok
}

var metrics = makeMetrics()

func makeMetrics() map[string]*Metric {
	out := map[string]*Metric{signal.GPUDeviceHolder.Name: {metricKind: holderKind}}
	add := func(s fieldSource, k metricKind, index uint8) {
		m := out[s.metric.Name]
		if m == nil {
			m = &Metric{metricKind: k, byValue: map[string]uint8{}}
			if len(s.metric.Attributes) > 0 {
				m.Attribute = s.metric.Attributes[0]
			}
			out[s.metric.Name] = m
		}
		m.byValue[s.value] = index
	}
	for f, s := range fields {
		add(s, windowKind, uint8(f))
	}
	for g, s := range &gauges {
		add(s, gaugeKind, uint8(g))
	}
	for i, m := range spendings {
		add(fieldSource{m, "true", sum}, spendingKind, uint8(i))
		add(fieldSource{m, "false", sum}, spendingKind, uint8(i))
	}
	judge := &Metric{Attribute: signal.Signal, metricKind: verdictKind, byValue: map[string]uint8{}}
	for i, d := range diagnosed {
		judge.byValue[d.Name()] = uint8(i)
	}
	out[signal.GPUSignalAvailable.Name] = judge
	out[signal.GPUExporterUp.Name] = &Metric{Attribute: signal.URLFull, metricKind: exporterKind}
	out[signal.K8sResourceClaimDevice.Name] = &Metric{Attribute: signal.ResourceClaimUID, metricKind: claimKind}
	out[signal.K8sResourceClaimCount.Name] = &Metric{Attribute: signal.DeviceClassName, metricKind: claimCountKind}
	out[signal.HwEnergy.Name] = &Metric{metricKind: energyKind}
	out[signal.HwErrors.Name] = &Metric{Attribute: signal.ErrorType, metricKind: errorKind}
	for d, m := range demands {
		out[m.Name] = &Metric{Attribute: signal.Resource, metricKind: demandKind, demand: Demand(d)}
	}
	return out
}
