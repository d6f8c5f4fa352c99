package catalogue

import (
	"fmt"
	"strings"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// The following functions are helpers for writing tables.

// Names returns the given field names or label values as a list.
func Names(s ...string) []string { return s }

// Sets contains sets of field names in order of preference.
type Sets [][]string

// First returns Sets with the given names as the only set.
func First(names ...string) Sets { return Sets{names} }

// Or adds a set that is less preferred than all previous sets.
func (s Sets) Or(names ...string) Sets { return append(s, names) }

// Provides returns the signal of a single field. The part argument is the value of the metric's own
// attribute, if the metric has one.
func Provides(m *signal.Metric, part ...string) []Signal {
	return []Signal{{Metric: m, Part: strings.Join(part, "")}}
}

// Made returns a signal that is computed from the first set that has a value for every field.
func Made(m *signal.Metric, part string, from Sets) []Signal {
	return []Signal{{Metric: m, Part: part, From: from}}
}

// Share returns the ratio of the first value to the second value, such as used / total.
func Share(_ int, v []float64) (float64, bool) { return v[0] / v[1], v[1] > 0 }

// Size returns the exposed size, or the sum of used, free, and reserved memory if no size is
// exposed. If no size is exposed and used + free is 0, Size returns false.
func Size(_ int, v []float64) (total float64, ok bool) {
	for _, part := range v {
		total += part
	}
	return total, len(v) == 1 || v[0]+v[1] > 0
}

// Gaps converts a map from reasons to missing metrics into a map from each metric to its reason.
func Gaps(because map[string][]*signal.Metric) map[*signal.Metric]string {
	out := map[*signal.Metric]string{}
	for reason, metrics := range because {
		for _, m := range metrics {
			if out[m] != "" {
				panic(fmt.Sprintf("catalogue: %s has two reasons in the gaps", m.Name))
			}
			out[m] = reason
		}
	}
	return out
}
