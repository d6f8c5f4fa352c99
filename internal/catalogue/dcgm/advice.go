package dcgm

import (
	"strings"

	cat "github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
)

// Absence is a set of environments in which exporters lack a field that they list.
type Absence uint8

const (
	// UnderMIG means a board with instances.
	UnderMIG Absence = 1 << iota
	// InGuests means a virtual machine with a virtual GPU.
	InGuests
	// OldExporters means versions of dcgm-exporter before 4.x.
	OldExporters
)

// Advice describes how to enable a field, and the known reasons why it may be missing. It is for
// dcgm-exporter, the only exporter with a list of counters.
type Advice struct {
	// Help is the help text of the field's line in a list of counters. It is empty if advice
	// recommends another field instead.
	Help string
	// Listed is the field's name in that list if it differs from Name: not every version accepts
	// Name.
	Listed string
	// Offered is true if the list contains the field's line as a comment. Unlisted is true if the
	// list does not contain the field. Note is printed above the line and explains when to enable
	// the field.
	Offered, Unlisted bool
	Note              string
	// Companion is a field that advice recommends in addition to this one.
	Companion string

	// Absent is the set of environments in which the field is known to be missing.
	Absent Absence
	// NVLinkGeneration is the only generation of NVLink with the field; 0 means all.
	NVLinkGeneration int

	// These two are derived from the name of the DCGM field. Profiling fields need DCGM's profiler.
	// NVLink fields only exist on boards with NVLink.
	Profiling, NVLink bool
}

// group is a list of rows under one title.
type group struct {
	title string
	rows  []tableRow
}

// tableRow is a row of the table: a field and its advice.
type tableRow struct {
	cat.Field
	Advice
}

// fieldsOf returns the fields of the rows.
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

// advice has the advice for the fields of Exporter, in their order.
var advice = adviceOf(groups)

// adviceOf returns the advice of the rows. Virtual GPUs are not profiled and have no NVLink.
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

// AdviceFor returns the advice for a field. It is empty for the fields of other exporters. It is
// shared and must not be modified.
func AdviceFor(id cat.ID) *Advice {
	if id < Exporter.First || int(id-Exporter.First) >= len(advice) {
		return &noAdvice
	}
	return &advice[id-Exporter.First]
}

// ListedName returns the field's name in a list of counters, or "" if it has no line.
func ListedName(f *cat.Field) string {
	switch a := AdviceFor(f.ID); {
	case a.Help == "":
		return ""
	case a.Listed != "":
		return a.Listed
	}
	return f.Name
}

// Line returns the field's line in a list of counters, with the given name.
func Line(f *cat.Field, name string) string {
	kind := "gauge"
	if f.Kind == cat.Counter || f.Kind == cat.EventTotal {
		kind = "counter"
	}
	return name + ", " + kind + ", " + AdviceFor(f.ID).Help
}
