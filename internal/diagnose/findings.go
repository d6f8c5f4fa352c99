package diagnose

import (
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// FindingReport reports whether the exporter provides the signals that a gpu_findings rule needs.
type FindingReport struct {
	// Name is the value of gpu.finding. Condition is the rule's condition.
	Name      string `json:"name"`
	Condition string `json:"condition"`
	// Missing lists the required signals that no device has and no alternative replaces. If a
	// required signal is missing, the rule cannot be evaluated. Missing does not list signals that
	// other stages can add, such as holders and idle power.
	Missing []string `json:"missing,omitempty"`
}

// The findings method reports for each gpu_findings rule whether the rule can be evaluated.
func (r *Report) findings() []FindingReport {
	var out []FindingReport
	for _, rule := range signal.Findings() {
		f := FindingReport{Name: rule.Name, Condition: rule.Condition}
		for _, needed := range rule.Signals {
			replaced := slices.ContainsFunc(rule.Alternatives[needed], func(set []string) bool {
				return !slices.ContainsFunc(set, func(name string) bool { return !r.provides(name) })
			})
			if needed != signal.GPUDeviceHolder.Name && r.lists(needed) && !r.provides(needed) && !replaced {
				f.Missing = append(f.Missing, needed)
			}
		}
		out = append(out, f)
	}
	return out
}

// lists reports whether the report contains a signal with the given name, or signals of a metric
// with that name.
func (r *Report) lists(name string) bool {
	return slices.ContainsFunc(r.Signals, func(s SignalReport) bool { return s.is(name) })
}

// provides reports whether any device provides a signal with the given name, or a signal of a
// metric with that name.
func (r *Report) provides(name string) bool {
	return slices.ContainsFunc(r.Signals, func(s SignalReport) bool { return s.is(name) && s.Provided() })
}

func (s *SignalReport) is(name string) bool { return s.Signal == name || s.Metric == name }
