package componenthelper

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Metrics is the "metrics" section of a component's configuration. The section enables or disables
// individual metrics by name:
//
//	metrics:
//	  hw.energy:
//	    enabled: false
//
// If an entry is {} or empty, the metric's default applies.
type Metrics map[string]MetricSwitch

// MetricSwitch enables or disables a metric.
type MetricSwitch struct {
	// Enabled specifies whether the metric is emitted. If Enabled is nil, the metric's default
	// applies.
	Enabled *bool `mapstructure:"enabled"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// Check returns an error for each metric in m that is not one of the component's metrics, sorted by
// metric name. The names parameter lists the component's metrics and must not be empty.
func (m Metrics) Check(names []string) []error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if !slices.Contains(names, name) {
			errs = append(errs, fmt.Errorf("metrics has the key %q: must be one of %s; the nearest is %s",
				name, strings.Join(names, ", "), nearest(name, names)))
		}
	}
	return errs
}

// Enabled reports whether a metric is enabled. If m neither enables nor disables the metric,
// Enabled returns byDefault.
func (m Metrics) Enabled(name string, byDefault bool) bool {
	if enabled := m[name].Enabled; enabled != nil {
		return *enabled
	}
	return byDefault
}

// Disabled returns the given metrics that are disabled.
func (m Metrics) Disabled(metrics []*signal.Metric) map[*signal.Metric]bool {
	off := map[*signal.Metric]bool{}
	for _, metric := range metrics {
		if !m.Enabled(metric.Name, !metric.Off) {
			off[metric] = true
		}
	}
	return off
}
