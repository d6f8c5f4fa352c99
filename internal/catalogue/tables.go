package catalogue

import (
	"fmt"
	"strings"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// What tables are written with.

// Names are names of fields, or values of a label.
func Names(s ...string) []string { return s }

// Sets are sets of names of fields, the preferred one first.
type Sets [][]string

// First returns the preferred set.
func First(names ...string) Sets { return Sets{names} }

// Or adds the set that comes next.
func (s Sets) Or(names ...string) Sets { return append(s, names) }

// Gives is what a field makes alone; part is the value of the metric's own attribute, if it has one.
func Gives(m *signal.Metric, part ...string) []Signal {
	return []Signal{{Metric: m, Part: strings.Join(part, "")}}
}

// Made is what the first set of fields makes that has all values.
func Made(m *signal.Metric, part string, from Sets) []Signal {
	return []Signal{{Metric: m, Part: part, From: from}}
}

// Share makes used over total.
func Share(_ int, v []float64) (float64, bool) { return v[0] / v[1], v[1] > 0 }

// Size makes the whole size, else the sum of used, free and reserved memory. A memory without any
// size is none.
func Size(_ int, v []float64) (total float64, ok bool) {
	for _, part := range v {
		total += part
	}
	return total, len(v) == 1 || v[0]+v[1] > 0
}

// Gaps are metrics that an exporter does not give, by the reason.
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
