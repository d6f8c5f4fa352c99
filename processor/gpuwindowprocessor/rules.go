package gpuwindowprocessor

import (
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor/internal/window"
)

// defaultRules returns the rules for the windows in the signal table. The threshold parameter is
// the threshold for memory pressure.
func defaultRules(threshold float64) []window.Rule {
	var out []window.Rule
	for _, samples := range signal.All() {
		for i := range samples.Windows {
			w := &samples.Windows[i]
			r := window.Rule{
				Source: samples.Name, Function: w.Function, Metric: w.Name, Unit: w.Unit, Description: w.Description,
				Integer: w.Int, Attributes: w.Attributes,
			}
			switch w.Function {
			case signal.ShareAtLeast:
				r.Threshold = &threshold
			case signal.Quantile:
				r.Quantile = &w.Quantile
			}
			if w.Only != "" {
				r.Where = []window.Filter{{Attribute: samples.Attributes[0], Values: []string{w.Only}, Absent: w.Absent}}
			}
			out = append(out, r)
		}
	}
	return out
}
