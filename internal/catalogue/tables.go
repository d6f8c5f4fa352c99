package catalogue

import (
	"fmt"
	"strings"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Helpers with which tables are written.

// Names is a list of field names or label values.
func Names(s ...string) []string { return s }

// Sets are sets of field names, the preferred one first.
type Sets [][]string

// First returns the preferred set.
func First(names ...string) Sets { return Sets{names} }

// Or adds the next set.
func (s Sets) Or(names ...string) Sets { return append(s, names) }

// Gives is the signal that a field makes alone; part is the value of the metric's own attribute, if
// it has one.
func Gives(m *signal.Metric, part ...string) []Signal {
	return []Signal{{Metric: m, Part: strings.Join(part, "")}}
}

// Made is a signal from the first set of fields that all have values.
func Made(m *signal.Metric, part string, from Sets) []Signal {
	return []Signal{{Metric: m, Part: part, From: from}}
}

// Share is used / total.
func Share(_ int, v []float64) (float64, bool) { return v[0] / v[1], v[1] > 0 }

// Size is the exposed size, else used + free + reserved memory. It does not exist if it is 0.
func Size(_ int, v []float64) (total float64, ok bool) {
	for _, part := range v {
		total += part
	}
	return total, len(v) == 1 || v[0]+v[1] > 0
}

// Gaps are the metrics that an exporter does not provide, by reason.
func Gaps(because map[string][]*signal.Metric) map[*signal.Metric]string {
	out := map[*signal.Metric]string{}
	for reason, metrics := range because {
		for _, m := range metrics {
			if out[m] != "" {
				panic(fmt.Sprintf("catalogue: %s is absent for two reasons", m.Name))
			}
			out[m] = reason
		}
	}
	return out
}
