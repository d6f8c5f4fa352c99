package catalogue

import (
	"strings"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// ID is the number of a field, of whichever exporter. The zero value is no field.
type ID uint16

// MaxFields is more than the highest ID of all tables.
const MaxFields = 256

// Kind says how a field's value behaves over time. It decides how rows that
// repeat one value are folded into one.
type Kind uint8

const (
	// Level is a value at one moment: sizes, rates, temperatures, activities.
	Level Kind = iota
	// Counter only grows, but for resets.
	Counter
	// Bits is a bit mask.
	Bits
	// Code is the last of a kind of events.
	Code
	// EventCount counts the events of the last minutes, by a label of its own.
	EventCount
	// EventTotal counts events since the exporter started, by the same label.
	EventTotal
)

// Scope says what a field measures when the board is cut into instances.
type Scope uint8

const (
	// Instance fields measure the instance named by the row.
	Instance Scope = iota
	// Board fields measure the board and repeat on every instance's row.
	Board
	// Whole fields measure a board that is not cut; of another one they say nothing.
	Whole
)

// Parts says how rows of one field and device that differ by a label, or by the name where
// the field has several, make the field's value.
type Parts uint8

const (
	// Highest rows are repeated readings of one value.
	Highest Parts = iota
	// Mean rows are of parts of the device that count alike.
	Mean
	// Sum rows are parts of the device. For a counter, a part without a row keeps its last
	// value, and a part that appears later counts from then on. There is no rate while one is
	// missing.
	Sum
)

// Absence is a set of places where exporters do not have a field that they list.
type Absence uint8

const (
	// UnderMIG is a board that is cut into instances.
	UnderMIG Absence = 1 << iota
	// InGuests is the guest of a virtual GPU.
	InGuests
	// OldExporters do not know the field: those of dcgm-exporter before 4.x.
	OldExporters
)

// Field is one field that an exporter exposes, and the line that a list of counters has
// for it.
type Field struct {
	ID   ID
	Name string // canonical name
	Unit Unit   // unit of the canonical spelling

	Kind  Kind
	Scope Scope
	// Aliases are the other names under which exporters expose the field in
	// the same unit.
	Aliases []string
	// Cut are the values of the label of RoleCut by which rows are the field's, where
	// several fields share a name. The name is then followed by a value in braces.
	Cut []string
	// Parts says how rows of parts of the device make the value.
	Parts Parts
	// Renumbered fields have rows whose labels number the devices in another way than those
	// of the other fields, which is the device's own: both count upwards alike.
	Renumbered bool
	// Copied fields have each device's row for every holder of a group of devices, so that
	// the row tells the device's holder only where the group has no other one. It is of
	// exporters that have Renumbered fields.
	Copied bool
	// Rescaled are names under which it is exposed in another unit.
	Rescaled []Rescaled
	// ZeroIsNone says that a 0 is no observation: there is no such sensor or size.
	ZeroIsNone bool
	// Health returns the board's health for a value, and false where the value does not tell it.
	// It is nil for a field that never does.
	Health func(v float64) (Health, bool)
	// Gives are signals that are made of this field alone, where they do not say otherwise.
	Gives []Signal

	// Help is the help text of its line in a list of counters; empty where advice asks
	// for another field instead.
	Help string
	// Listed is its name in that list, where it is not Name: exporters differ in which
	// names they take.
	Listed string
	// Offered lines are commented out in the list that users are handed, Unlisted ones are not
	// in it. Note stands above the line and says why to enable it or not.
	Offered, Unlisted bool
	Note              string
	// Beside is a field that goes with this one when advice asks for it.
	Beside string

	// Absent is where the field is known to be missing.
	Absent Absence
	// Profiling fields come from the vendor's profiling, NVLink ones exist on boards with
	// NVLink, and NVLinkGeneration is the generation that counts in the field; 0 is any.
	Profiling, NVLink bool
	NVLinkGeneration  int

	// What New finds out: the signal that rows of holders beside the device's own make,
	// and the position in Exporter.Rates, counted from 1; 0 is none.
	Process *Signal
	Rate    int
}

// MaxCode bounds the codes of events: NVIDIA's have stayed far below it. Larger
// numbers are not codes.
const MaxCode = 999

// Rescaled is a spelling with a unit of its own.
type Rescaled struct {
	Name string
	Unit Unit
}

// Spelling is what an exposed metric name means.
type Spelling struct {
	Field *Field
	Unit  Unit
	// BaseUnits says that the spelling came with DCGM 4.7, in which ratios are 0
	// to 1: that settles Scale for the whole scrape. The …_HERTZ and …_JOULES
	// fields are older (4.6.1) and settle nothing.
	BaseUnits bool
	// Alias is the position of the name in the field's aliases, counted from 1.
	Alias uint8
	// Cut are the fields of the name by the value of the label of RoleCut; Field is any
	// of them.
	Cut map[string]*Field
	// Prefixed says that a prefix which users chose precedes the name.
	Prefixed bool
}

// Exposed is the name under which the field is exposed.
func (f *Field) Exposed() string {
	name, _, _ := strings.Cut(f.Name, "{")
	return name
}

// ListedName is the field's name in a list of counters, empty where it has no line.
func (f *Field) ListedName() string {
	switch {
	case f.Help == "":
		return ""
	case f.Listed != "":
		return f.Listed
	}
	return f.Name
}

// Line is the field's line in a list of counters, by one of its names.
func (f *Field) Line(name string) string {
	kind := "gauge"
	if f.Kind == Counter || f.Kind == EventTotal {
		kind = "counter"
	}
	return name + ", " + kind + ", " + f.Help
}

// By is what a signal is made of.
type By uint8

const (
	// ByFields signals are made of the values of fields.
	ByFields By = iota
	// ByHealth signals are the worst known state of the board's health.
	ByHealth
	// ByEvents signals count events, one series for each code.
	ByEvents
	// ByHolders signals are made of the labels that name holders.
	ByHolders
	// ByResidency signals are times in a state, from two counters: the first of a set grows
	// while the state holds, the second always. Their ratio is the share.
	ByResidency
	// ByProcesses signals are made of rows of holders beside the device's own row.
	ByProcesses
)

// Health is a state of hw.status, the better ones first.
type Health uint8

// The states of hw.status.
const (
	HealthOK Health = iota
	HealthPredictedFailure
	HealthDegraded
	HealthFailed
)

// String returns the state as hw.state has it.
func (h Health) String() string {
	return [...]string{signal.StatusOK, signal.StatusPredictedFailure, signal.StatusDegraded, signal.StatusFailed}[h]
}

// Flagged returns the health that a flag tells, 0 or 1, of which 1 means h.
func Flagged(h Health) func(float64) (Health, bool) {
	return func(v float64) (Health, bool) {
		if v == 0 {
			return HealthOK, true
		}
		return h, v == 1
	}
}

// Bit is one bit of a mask and the value of the own attribute that it stands for.
type Bit struct {
	Mask uint64
	Part string
}

// Signal says how an exporter's fields make one metric of the signal table, or the part of
// it with one value of its own attribute.
type Signal struct {
	Metric *signal.Metric
	Part   string
	// From are sets of names of fields, the preferred one first: the first set whose fields all
	// have a value is used. A gauge takes the rate of its counters.
	From [][]string
	// Usual is the position of the set that most exporters have, which advice asks for.
	Usual int
	// Make makes the value of those of a set, which is given by its position; without it
	// they are added up.
	Make func(set int, values []float64) (v float64, ok bool)
	// Lasting signals come from no later set where the last field of an earlier one ever had a
	// value: its fields are missing for a moment, and the later set measures something else.
	// Counters come from no earlier one either.
	Lasting bool
	// Bits make one sample for each of them of a mask.
	Bits []Bit
	// States make one sample each: 1 for the state whose index is the value, 0 for the others.
	States []string
	// Capacity makes the signal a share of the capacity that it returns for the model and the
	// values of With (NaN where there is none); 0 is unknown.
	Capacity func(m *Model, with []float64) float64
	With     []string
	// Whole signals are that capacity itself, where the fields have a value.
	Whole bool
	By    By
	// Optional signals are rarely wanted, or cost more than they tell.
	Optional bool

	// Sets and Inputs are From and With by number.
	Sets   [][]ID
	Inputs []ID
}

// Name returns the metric's name, followed by the part in braces.
func (s *Signal) Name() string {
	if s.Part == "" {
		return s.Metric.Name
	}
	return s.Metric.Name + "{" + s.Part + "}"
}

// Feeds returns the window metrics that are made of the signal.
func (s *Signal) Feeds() []*signal.Metric {
	var out []*signal.Metric
	for i := range s.Metric.Windows {
		if w := &s.Metric.Windows[i]; w.Reads(s.Part) && !w.Off {
			out = append(out, w.Metric)
		}
	}
	return out
}

// PartXID stands for every error.type that begins with xid_, and for the point without
// error.type that reports no XID so far.
const PartXID = "xid"
