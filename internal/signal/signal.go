package signal

import "slices"

// Kind is the OpenTelemetry data type of a metric.
type Kind uint8

const (
	// Gauge is a value at one point in time.
	Gauge Kind = iota
	// Counter is a cumulative monotonic Sum.
	Counter
	// UpDownCounter is a cumulative non-monotonic Sum.
	UpDownCounter
)

// String returns the kind's name in the documentation.
func (k Kind) String() string {
	switch k {
	case Counter:
		return "Sum, cumulative, monotonic"
	case UpDownCounter:
		return "Sum, cumulative, non-monotonic"
	default:
		return "Gauge"
	}
}

// Stage is the pipeline stage that produces a metric.
type Stage uint8

const (
	// StageSample is the stage that computes metrics from a single scrape.
	StageSample Stage = iota
	// StageWindow is the stage that computes metrics from the samples in a window.
	StageWindow
	// StageWorkload is the stage that attributes samples to containers and processes.
	StageWorkload
	// StageCluster is the stage that computes metrics about scheduling in the cluster from API
	// objects.
	StageCluster
)

// Metric describes one metric that the distribution emits.
type Metric struct {
	// Name is the OpenTelemetry metric name.
	Name string
	// Unit is the metric's unit in UCUM notation. For counts and flags, the unit is an annotation
	// in braces.
	Unit string
	// Kind is the data type of the metric.
	Kind Kind
	// Int is true if the data points are integers instead of doubles.
	Int bool
	// MayExceed1 is true if a metric with the unit 1 can exceed 1 by definition.
	MayExceed1 bool
	// Stage is the pipeline stage that produces the metric.
	Stage Stage
	// Description describes the metric for users in one or more sentences.
	Description string
	// Source lists the canonical fields or samples from which the metric is computed.
	Source string
	// OpenCost is the name of the field in OpenCost's GPUSaturation or GPUAllocation that has the
	// same meaning as the metric, or "" if there is no such field.
	OpenCost string
	// Attributes contains the keys of the metric's own attributes. The own attributes distinguish
	// the metric's series for the same device.
	Attributes []string
	// Off is true if the metric is disabled by default.
	Off bool
	// Windows contains the window metrics that gpu_window computes from this metric.
	Windows []Window

	index int
}

// Index returns the metric's position in the table, from 1 to the length of [All]. If the table
// does not contain the metric, Index returns 0. Code that reads many samples can use the position
// as the index into a slice, because slices are faster than maps.
func (m *Metric) Index() int { return m.index }

// Lookup returns the metric with the given name.
func Lookup(name string) (*Metric, bool) {
	m, ok := byName[name]
	return m, ok
}

// IsOff reports whether the metric with the given name is disabled by default.
func IsOff(name string) bool {
	m, ok := Lookup(name)
	return ok && m.Off
}

// All returns every metric in the order of the documentation. Callers may modify the returned slice
// but must not modify the metrics.
func All() []*Metric {
	return slices.Clone(all)
}

var (
	all    []*Metric
	byName = map[string]*Metric{}
)

// add adds a metric and its window metrics to the table during package initialization.
func add(m Metric) *Metric {
	register(&m)
	for i := range m.Windows {
		m.Windows[i].readFrom(&m)
		register(m.Windows[i].Metric)
	}
	return &m
}

func register(m *Metric) {
	if _, dup := byName[m.Name]; dup {
		panic("signal: metric declared twice: " + m.Name)
	}
	all = append(all, m)
	m.index = len(all)
	byName[m.Name] = m
}

// Names returns the names of the given metrics in the same order, or nil if the list is empty.
func Names(metrics []*Metric) []string {
	var names []string
	for _, m := range metrics {
		names = append(names, m.Name)
	}
	return names
}
