package live

import catalogue "github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/exporters"

// xidText returns the meaning of an XID code, and the action that NVIDIA's XID catalog recommends.
func xidText(code int) XIDText {
	x, known := catalogue.XID(code)
	if !known {
		return XIDText{code, "not in NVIDIA's catalogue of " + catalogue.XIDCatalogueDate, "see the runbook", "see the runbook"}
	}
	return XIDText{code, x.Meaning, x.ShortAdvice(), x.Advice()}
}

// xidRank returns the rank of an XID code for sorting. Codes that always end all work on a board
// have the lowest rank, followed by codes that may end all work on a board.
func xidRank(code int) int {
	switch x, _ := catalogue.XID(code); {
	case x.Fatal:
		return 0
	case x.Undecided:
		return 1
	}
	return 2
}
