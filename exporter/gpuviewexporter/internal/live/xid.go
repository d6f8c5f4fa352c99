package live

import "github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/dcgm"

// xidText returns what an XID code means and what NVIDIA's catalogue wants done about it.
func xidText(code int) (meaning, action string) {
	x, known := dcgm.XIDByCode(code)
	if !known {
		return "not in NVIDIA's catalogue of " + dcgm.XIDCatalogueDate, "see the runbook"
	}
	return x.Meaning, x.Action.Advice()
}

// xidRank orders codes by urgency: those that end the work of a board come first.
func xidRank(code int) int {
	if x, known := dcgm.XIDByCode(code); known && x.Fatal {
		return 0
	}
	return 1
}
