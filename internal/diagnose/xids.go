package diagnose

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/dcgm"
)

// XIDReport contains an XID code that occurs in the exposition and the information about the code
// from NVIDIA's catalog.
type XIDReport struct {
	Code int `json:"code"`
	// Meaning, Action, and Advice are empty if the catalog does not contain the code.
	Meaning string `json:"meaning,omitempty"`
	Action  string `json:"action,omitempty"`
	Advice  string `json:"advice,omitempty"`
	// Fatal is true if only a reset or a reboot clears the error.
	Fatal bool `json:"fatal"`
	// Devices lists the IDs of the devices on which the error occurred. The exposition does not
	// show when the error occurred.
	Devices []string `json:"devices"`
}

// xidCode returns the XID code in a row, or 0 if the row shows no error.
func xidCode(sp catalogue.Spelling, exposed float64, label string) int {
	switch sp.Field.Kind {
	case catalogue.Code:
		if st, _ := stateOf(sp, exposed, catalogue.ScaleUnknown); st == Positive {
			return int(exposed)
		}
	case catalogue.EventCount, catalogue.EventTotal:
		code, err := strconv.Atoi(label)
		if st, _ := stateOf(sp, exposed, catalogue.ScaleUnknown); err == nil && code > 0 && code <= catalogue.MaxCode && st == Positive {
			return code
		}
	}
	return 0
}

// xids returns a report for each XID code in the rows, with fatal codes first.
func (e *Exposition) xids() []XIDReport {
	var out []XIDReport
	for _, d := range e.order {
		for _, code := range d.xids {
			i := slices.IndexFunc(out, func(x XIDReport) bool { return x.Code == code })
			if i < 0 {
				x := XIDReport{Code: code}
				if known, ok := dcgm.XIDByCode(code); ok {
					x.Meaning, x.Action, x.Advice, x.Fatal = known.Meaning, known.Action.String(), known.Advice(), known.Fatal
				}
				i, out = len(out), append(out, x)
			}
			out[i].Devices = append(out[i].Devices, d.id())
		}
	}
	slices.SortFunc(out, func(a, b XIDReport) int {
		return cmp.Or(cmp.Compare(fatalFirst(a), fatalFirst(b)), cmp.Compare(a.Code, b.Code))
	})
	return out
}

func fatalFirst(x XIDReport) int {
	if x.Fatal {
		return 0
	}
	return 1
}
