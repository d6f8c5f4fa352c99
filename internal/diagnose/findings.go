package diagnose

import (
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/findings"
)

// FindingReport is the report on one rule of gpu_findings: whether the exporter has the signals that the
// rule needs.
type FindingReport struct {
	// Name is the value of gpu.finding, Condition what must hold.
	Name      string `json:"name"`
	Condition string `json:"condition"`
	// Missing are the signals that no device gives, so that the rule is silent. Holders and idle power,
	// which other stages add, are not among them.
	Missing []string `json:"missing,omitempty"`
}

// findings says which rules of gpu_findings can be judged.
func (r *Report) findings() []FindingReport {
	var out []FindingReport
	for _, rule := range findings.Table() {
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
