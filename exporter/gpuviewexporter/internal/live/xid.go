package live

import catalogue "github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/exporters"

// xidText returns what an XID code means and what NVIDIA's catalogue wants done about it.
func xidText(code int) XIDText {
	x, known := catalogue.XID(code)
	if !known {
		return XIDText{code, "not in NVIDIA's catalogue of " + catalogue.XIDCatalogueDate, "see the runbook", "see the runbook"}
	}
	return XIDText{code, x.Meaning, x.ShortAdvice(), x.Advice()}
}

// xidRank orders codes by urgency: those that end the work of a board come first, then
// those that may.
func xidRank(code int) int {
	switch x, _ := catalogue.XID(code); {
	case x.Fatal:
		return 0
	case x.Undecided:
		return 1
	}
	return 2
}
