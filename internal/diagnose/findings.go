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
	// Missing lists the required signals that no device has. If a required signal is missing, the
	// rule cannot be evaluated. Missing does not list signals that only other stages add, such as
	// idle power.
	Missing []string `json:"missing,omitempty"`
}

// The findings method reports for each gpu_findings rule whether the rule can be evaluated.
func (r *Report) findings() []FindingReport {
	var out []FindingReport
	for _, rule := range signal.Findings() {
		f := FindingReport{Name: rule.Name, Condition: rule.Condition}
		for _, needed := range rule.Signals {
			is := func(s SignalReport) bool { return s.Signal == needed || s.Metric == needed }
			given := func(s SignalReport) bool { return is(s) && s.Given() }
			if slices.ContainsFunc(r.Signals, is) && !slices.ContainsFunc(r.Signals, given) {
				f.Missing = append(f.Missing, needed)
			}
		}
		out = append(out, f)
	}
	return out
}
