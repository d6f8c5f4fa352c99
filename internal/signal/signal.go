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

// String returns the kind's name as in the documentation.
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
	// StageSample metrics are computed from a single scrape.
	StageSample Stage = iota
	// StageWindow metrics are computed from the samples in a window.
	StageWindow
	// StageWorkload metrics attribute samples to containers and processes.
	StageWorkload
	// StageCluster metrics describe the cluster's scheduling. They are computed from API objects.
	StageCluster
)

// Metric describes one metric that the distribution emits.
type Metric struct {
	// Name is the OpenTelemetry metric name.
	Name string
	// Unit is a UCUM unit. For counts and flags, it is an annotation in braces.
	Unit string
	// Kind is the data type.
	Kind Kind
	// Int is true if the data points are integers instead of doubles.
	Int bool
	// MayExceed1 is true if a metric with the unit 1 can exceed 1 by definition.
	MayExceed1 bool
	// Stage is the stage that produces the metric.
	Stage Stage
	// Description is a sentence for users.
	Description string
	// Source lists the canonical fields or samples from which the metric is computed.
	Source string
	// OpenCost is the field with the same meaning in OpenCost's GPUSaturation or GPUAllocation, or
	// "" if there is none.
	OpenCost string
	// Attributes contains the keys of the metric's own attributes. These attributes distinguish the
	// metric's series for one device.
	Attributes []string
	// Off is true if the metric is disabled by default.
	Off bool
	// Windows are the metrics that gpu_window computes from this metric.
	Windows []Window

	index int
}

// Index returns the metric's position in the table, from 1 to the length of [All]. It returns 0 if
// the table does not contain the metric. Code that reads many samples can use the position as a
// slice index, which is faster than a map.
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

// All returns every metric in the order of the documentation. The caller owns the slice but must
// not modify the metrics.
func All() []*Metric {
	return slices.Clone(all)
}

var (
	all    []*Metric
	byName = map[string]*Metric{}
)

// add registers a metric and its windows during package initialization.
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

// Names returns the names of the metrics in order, or nil if there are no metrics.
func Names(metrics []*Metric) []string {
	var names []string
	for _, m := range metrics {
		names = append(names, m.Name)
	}
	return names
}
