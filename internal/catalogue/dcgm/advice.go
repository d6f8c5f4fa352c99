package dcgm

import (
	"strings"

	cat "github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
)

// Absence is a set of environments in which an exporter does not expose a field, even though the
// field is in the exporter's list of counters.
type Absence uint8

const (
	// UnderMIG means a board with MIG instances.
	UnderMIG Absence = 1 << iota
	// InGuests means a virtual machine with a virtual GPU.
	InGuests
	// OldExporters means versions of dcgm-exporter before 4.x.
	OldExporters
)

// Advice describes how to enable a field, and the known reasons why the field may be missing. The
// advice applies only to dcgm-exporter, the only exporter with a list of counters.
type Advice struct {
	// Help is the help text of the field's line in a list of counters. Help is empty if the advice
	// is to enable another field instead.
	Help string
	// Listed is the field's name in the list of counters if it differs from Name. Listed is needed
	// because some exporter versions do not accept Name.
	Listed string
	// Offered is true if the field's line is commented out in the generated list of counters.
	// Unlisted is true if the generated list of counters does not contain the field. Note explains
	// when to enable the field and is printed above the field's line.
	Offered, Unlisted bool
	Note              string
	// Companion is another field that should be enabled together with this field.
	Companion string

	// Absent is the set of environments in which the field is known to be missing.
	Absent Absence
	// NVLinkGeneration is the only NVLink generation that has the field. The value 3 means
	// generation 3 and all earlier generations. The value 0 means that all generations have the
	// field.
	NVLinkGeneration int

	// Profiling and NVLink are derived from the DCGM field name. Profiling fields need DCGM's
	// profiler. NVLink fields exist only on boards with NVLink.
	Profiling, NVLink bool
}

// group is a list of table rows under one title.
type group struct {
	title string
	rows  []tableRow
}

// tableRow contains a field and the advice for the field.
type tableRow struct {
	cat.Field
	Advice
}

// fieldsOf returns the fields in the table rows.
func fieldsOf(groups []group) []cat.Group {
	out := make([]cat.Group, len(groups))
	for i, g := range groups {
		out[i].Title = g.title
		for _, r := range g.rows {
			out[i].Fields = append(out[i].Fields, r.Field)
		}
	}
	return out
}

// advice contains the advice for each field of Exporter, in the order of Exporter's fields.
var advice = adviceOf(groups)

// adviceOf returns the advice in the table rows. Profiling fields and NVLink fields are marked as
// missing in guests, because virtual GPUs have neither profiling nor NVLink.
func adviceOf(groups []group) (out []Advice) {
	for _, g := range groups {
		for _, r := range g.rows {
			a := r.Advice
			a.Profiling, a.NVLink = isProfiling(r.Name), strings.Contains(r.Name, "_NVLINK_")
			if a.Profiling || a.NVLink {
				a.Absent |= InGuests
			}
			out = append(out, a)
		}
	}
	return out
}

func isProfiling(field string) bool { return strings.HasPrefix(field, "DCGM_FI_PROF_") }

var noAdvice Advice

// AdviceFor returns the advice for a field. The advice is empty for fields of other exporters.
// Callers must not modify the advice.
func AdviceFor(id cat.ID) *Advice {
	if id < Exporter.First || int(id-Exporter.First) >= len(advice) {
		return &noAdvice
	}
	return &advice[id-Exporter.First]
}

// ListedName returns the field's name in a list of counters, or "" if the list has no line for the
// field.
func ListedName(f *cat.Field) string {
	switch a := AdviceFor(f.ID); {
	case a.Help == "":
		return ""
	case a.Listed != "":
		return a.Listed
	}
	return f.Name
}

// Line returns the line that adds a field, under the given name, to a list of counters.
func Line(f *cat.Field, name string) string {
	kind := "gauge"
	if f.Kind == cat.Counter || f.Kind == cat.EventTotal {
		kind = "counter"
	}
	return name + ", " + kind + ", " + AdviceFor(f.ID).Help
}
