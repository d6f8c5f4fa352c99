package signal

import "slices"

// Kind is the OpenTelemetry data type of a metric.
type Kind uint8

const (
	// Gauge is a value that was observed at one moment.
	Gauge Kind = iota
	// Counter is a cumulative monotonic Sum.
	Counter
	// UpDownCounter is a cumulative non-monotonic Sum.
	UpDownCounter
)

// String returns the kind as the documentation spells it.
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

// Stage is the place in the pipeline where a metric is made.
type Stage uint8

const (
	// StageSample metrics are made of one scrape.
	StageSample Stage = iota
	// StageWindow metrics are made of the samples of one window.
	StageWindow
	// StageWorkload metrics attribute samples to containers and processes.
	StageWorkload
	// StageCluster metrics are the scheduler's view, made of the API server's objects.
	StageCluster
)

// Metric describes one metric of the output contract.
type Metric struct {
	// Name is the OpenTelemetry metric name.
	Name string
	// Unit is a UCUM unit; counts and flags carry an annotation in braces.
	Unit string
	// Kind is the data type.
	Kind Kind
	// Int says that points are integers; otherwise they are doubles.
	Int bool
	// MayExceed1 says that a metric with the unit 1 is not bounded by 1, by its definition.
	MayExceed1 bool
	// Stage is the place where the metric is made.
	Stage Stage
	// Description is one sentence for users.
	Description string
	// Source says which canonical fields or samples the metric is made of.
	Source string
	// OpenCost is the field of OpenCost's GPUSaturation or GPUAllocation with
	// the same meaning; empty when OpenCost has none.
	OpenCost string
	// Attributes are the metric's own attribute keys: those that tell its
	// series on one device apart.
	Attributes []string
	// Off says that the metric is made only where it is switched on.
	Off bool
	// Windows are the metrics that gpu_window makes of it.
	Windows []Window

	index int
}

// Index returns the metric's place in the table, from 1 to the length of [All]; 0 is none of the table.
// It lets readers of many samples use a slice where a map by metric is too slow.
func (m *Metric) Index() int { return m.index }

// Lookup returns the metric with that name.
func Lookup(name string) (*Metric, bool) {
	m, ok := byName[name]
	return m, ok
}

// IsOff reports whether the metric of that name is made only where it is switched on.
func IsOff(name string) bool {
	m, ok := Lookup(name)
	return ok && m.Off
}

// All returns every metric in the order of the documentation. The slice is the
// caller's, the metrics are shared and must not be changed.
func All() []*Metric {
	return slices.Clone(all)
}

var (
	all    []*Metric
	byName = map[string]*Metric{}
)

// add registers a metric, and the windows that are made of it, at package initialisation.
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

// Names returns the metrics' names in their order, nil for none.
func Names(metrics []*Metric) []string {
	var names []string
	for _, m := range metrics {
		names = append(names, m.Name)
	}
	return names
}
