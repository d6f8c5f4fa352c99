package live

import "github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/dcgm"

// xidText returns what an XID code means and what NVIDIA's catalogue wants done about it.
func xidText(code int) XIDText {
	x, known := dcgm.XIDByCode(code)
	if !known {
		return XIDText{code, "not in NVIDIA's catalogue of " + dcgm.XIDCatalogueDate, "see the runbook", "see the runbook"}
	}
	return XIDText{code, x.Meaning, shortAdvice(x), x.Advice()}
}

// shortAdvice says what to do in the width of a cell.
func shortAdvice(x dcgm.XID) string {
	switch {
	case x.Action != dcgm.ActionWorkflow:
		return x.Action.Advice()
	case x.Fatal:
		return dcgm.ActionResetGPU.Advice()
	}
	return "see the details"
}

// xidRank orders codes by urgency: those that end the work of a board come first, then
// those that may.
func xidRank(code int) int {
	switch x, _ := dcgm.XIDByCode(code); {
	case x.Fatal:
		return 0
	case x.Undecided:
		return 1
	}
	return 2
}
