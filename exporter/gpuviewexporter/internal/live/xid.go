package live

import catalogue "github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/exporters"

// xidText returns the meaning of an XID code and the action that NVIDIA's catalog recommends.
func xidText(code int) XIDText {
	x, known := catalogue.XID(code)
	if !known {
		return XIDText{code, "not in NVIDIA's catalogue of " + catalogue.XIDCatalogueDate, "see the runbook", "see the runbook"}
	}
	return XIDText{code, x.Meaning, x.ShortAdvice(), x.Advice()}
}

// xidRank returns the rank by which codes are sorted. The codes that always end all work on a board
// come first, followed by the codes that may end all work.
func xidRank(code int) int {
	switch x, _ := catalogue.XID(code); {
	case x.Fatal:
		return 0
	case x.Undecided:
		return 1
	}
	return 2
}
