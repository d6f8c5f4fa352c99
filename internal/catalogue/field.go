package catalogue

import (
	"strings"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// ID is the number of a field across all exporters. 0 is not a field.
type ID uint16

// MaxFields is greater than the highest ID of all tables.
const MaxFields = 256

// Kind describes how a field's value changes over time. It determines how repeated rows are merged.
type Kind uint8

const (
	// Level is a value at one point in time: sizes, rates, temperatures, activities.
	Level Kind = iota
	// Counter only grows, except at resets.
	Counter
	// Bits is a bit mask.
	Bits
	// Code is the code of the last event.
	Code
	// EventCount counts the events of the last minutes, per code in a label.
	EventCount
	// EventTotal counts events since the exporter started, per code in a label.
	EventTotal
)

// Scope describes what a field measures on a board with instances.
type Scope uint8

const (
	// Instance fields measure the instance named by the row.
	Instance Scope = iota
	// Board fields measure the board and repeat on every instance's row.
	Board
	// Whole fields measure a board without instances. They are meaningless on a board with
	// instances.
	Whole
)

// Parts describes how several rows of one field and device are combined. The rows differ in a
// label, or in the name if the field has several.
type Parts uint8

const (
	// Highest rows are repeated readings of the same value.
	Highest Parts = iota
	// Mean rows are about parts of the device with equal weight.
	Mean
	// Sum rows are about parts of the device, and their values are added. For a counter, a part
	// without a row keeps its last value, and a part that appears later is counted from that time.
	// There is no rate while a part is missing.
	Sum
)

// Field is one field of an exporter.
type Field struct {
	ID   ID
	Name string // canonical name
	Unit Unit   // unit of the canonical spelling

	Kind  Kind
	Scope Scope
	// Aliases are other names of the field with the same unit.
	Aliases []string
	// Cut contains the values of the label of RoleCut that select the field's rows, if several
	// fields share a name. Name then ends with a value in braces.
	Cut []string
	// Parts describes how rows about parts of the device are combined.
	Parts Parts
	// Rescaled are names of the field in another unit.
	Rescaled []Rescaled
	// ZeroIsNone is true if 0 means that the sensor or size does not exist, so that 0 is not an
	// observation.
	ZeroIsNone bool
	// Health returns the board's health for a value, or false if the value does not determine it.
	// It is nil for fields that are not about health.
	Health func(v float64) (Health, bool)
	// Gives lists the signals that are computed only from this field, unless they specify other
	// fields.
	Gives []Signal

	// New sets the following fields: the signal that is computed from the rows of holders, and the
	// position in Exporter.Rates, counted from 1; 0 means none.
	Process *Signal
	Rate    int
}

// MaxCode is the maximum code of an event. Larger numbers are not codes. NVIDIA's highest code is
// 172.
const MaxCode = 999

// Rescaled is a spelling with its own unit.
type Rescaled struct {
	Name string
	Unit Unit
}

// Spelling is the meaning of an exposed metric name.
type Spelling struct {
	Field *Field
	Unit  Unit
	// BaseUnits is true if the spelling exists since DCGM 4.7, in which ratios are 0 to 1. Such a
	// spelling determines Scale for the entire scrape. The …_HERTZ and …_JOULES fields are older
	// (4.6.1) and do not determine Scale.
	BaseUnits bool
	// Alias is the position of the name in the field's aliases, counted from 1.
	Alias uint8
	// Cut contains the fields that share the name, by the value of the label of RoleCut; Field is
	// any of them.
	Cut map[string]*Field
	// Prefixed is true if a user's prefix precedes the name.
	Prefixed bool
}

// Exposed is the name under which the field is exposed.
func (f *Field) Exposed() string {
	name, _, _ := strings.Cut(f.Name, "{")
	return name
}

// By is the kind of input of a signal.
type By uint8

const (
	// ByFields signals are computed from the values of fields.
	ByFields By = iota
	// ByHealth signals are the worst known state of the board's health.
	ByHealth
	// ByEvents signals count events, one series per code.
	ByEvents
	// ByHolders signals are computed from the labels that name holders.
	ByHolders
	// ByTracker signals are counters that a Tracker computes from the values of successive scrapes.
	ByTracker
	// ByProcesses signals are computed from rows of holders, which exist in addition to the
	// device's own row.
	ByProcesses
)

// Health is a state of hw.status, in order from good to bad.
type Health uint8

// The states of hw.status.
const (
	HealthOK Health = iota
	HealthPredictedFailure
	HealthDegraded
	HealthFailed
)

// String returns the state as a value of hw.state.
func (h Health) String() string {
	return [...]string{signal.StatusOK, signal.StatusPredictedFailure, signal.StatusDegraded, signal.StatusFailed}[h]
}

// Flagged returns a function that maps the flag value 1 to h, and 0 to a healthy state.
func Flagged(h Health) func(float64) (Health, bool) {
	return func(v float64) (Health, bool) {
		if v == 0 {
			return HealthOK, true
		}
		return h, v == 1
	}
}

// Bit is a bit of a mask and its value of the own attribute.
type Bit struct {
	Mask uint64
	Part string
}

// Signal describes how an exporter's fields are converted to one metric of the signal table, or to
// the part of it with one value of its own attribute.
type Signal struct {
	Metric *signal.Metric
	Part   string
	// From contains sets of field names, the preferred one first: the first set with a value for
	// every field is used. A gauge uses the rates of its counters.
	From [][]string
	// Usual is the position of the set that most exporters have. Advice recommends it.
	Usual int
	// Make computes the value from the fields of the set with the given position. If it is nil, the
	// values are summed.
	Make func(set int, values []float64) (v float64, ok bool)
	// Track returns a tracker for one device. It is set if By is ByTracker.
	Track func() Tracker
	// Lasting is true if the sets measure different things, so that the signal must not fall back.
	// After the last field of a set has had a value, the signal ignores later sets, even while
	// fields of the set are missing. A counter also ignores earlier sets.
	Lasting bool
	// Bits produces one sample for each of the bits of a mask.
	Bits []Bit
	// States produces one sample per state: 1 for the state whose index is the value, 0 for the
	// others.
	States []string
	// Capacity returns the capacity by which the value of a ratio signal is divided, or 0 if it is
	// unknown. It depends on the board's model and on the values of the fields in With (NaN for a
	// missing value). If the signal is not a ratio, the capacity replaces its value.
	Capacity func(of *Capacities, with []float64) float64
	With     []string
	By       By
	// Optional signals are rarely useful, or too expensive for their benefit.
	Optional bool

	// Sets and Inputs are From and With as IDs.
	Sets   [][]ID
	Inputs []ID
}

// Tracker computes a counter of one device from the values of successive scrapes.
type Tracker interface {
	// Add adds the values of a set of fields. The time is in nanoseconds since the epoch. Add
	// returns the counter and the time at which it was 0. It returns false if the values do not
	// yield the counter; the verdict is then Valid unless the values are impossible.
	Add(at int64, values []float64) (start int64, v float64, ok bool, verdict Verdict)
	// Rebase makes the next values the baseline. It is called if they may be from another source.
	Rebase()
}

// Name returns the metric's name, followed by the part in braces.
func (s *Signal) Name() string {
	if s.Part == "" {
		return s.Metric.Name
	}
	return s.Metric.Name + "{" + s.Part + "}"
}

// Feeds returns the window metrics that are computed from the signal.
func (s *Signal) Feeds() []*signal.Metric {
	var out []*signal.Metric
	for i := range s.Metric.Windows {
		if w := &s.Metric.Windows[i]; w.Reads(s.Part) && !w.Off {
			out = append(out, w.Metric)
		}
	}
	return out
}

// PartXID represents every error.type that starts with xid_, and the point without error.type that
// reports the absence of XIDs.
const PartXID = "xid"
