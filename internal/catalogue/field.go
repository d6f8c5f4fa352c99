package catalogue

import (
	"strings"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// ID is the number of a field across all exporters. 0 is not a field.
type ID uint16

// MaxFields is greater than the highest ID in all tables.
const MaxFields = 256

// Kind describes how a field's value changes over time. It determines how repeated rows are merged.
type Kind uint8

const (
	// Level is a value at one point in time, such as a size, a rate, a temperature, or an activity.
	Level Kind = iota
	// Counter is a value that only grows, except at resets.
	Counter
	// Bits is a bit mask.
	Bits
	// Code is the code of the last event.
	Code
	// EventCount counts the events of the last few minutes. A label contains the code.
	EventCount
	// EventTotal counts the events since the exporter started. A label contains the code.
	EventTotal
)

// Scope describes what a field measures on a board with instances.
type Scope uint8

const (
	// Instance fields measure the instance that the row names.
	Instance Scope = iota
	// Board fields measure the board. The row of every instance repeats the value.
	Board
	// Whole fields measure a board without instances. They have no meaning on a board with
	// instances.
	Whole
)

// Parts describes how several rows of one field and device are combined. The rows differ in a
// label, or in the name if the field has several names.
type Parts uint8

const (
	// Highest rows are repeated readings of the same value. The highest value is used.
	Highest Parts = iota
	// Mean rows are about parts of the device with equal weight. The mean is used.
	Mean
	// Sum rows are about parts of the device. Their values are added. If a part of a counter has no
	// row, its last value is used. A part that appears later is counted from that time. There is no
	// rate while a part is missing.
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
	// Cut is set if several fields share a metric name. It contains the values of the RoleCut label
	// that select this field's rows. Name then ends with a value in braces.
	Cut []string
	// Parts describes how rows about parts of the device are combined.
	Parts Parts
	// Rescaled are names of the field in another unit.
	Rescaled []Rescaled
	// ZeroIsNone is true if 0 is not an observation, because it means that the sensor or the size
	// does not exist.
	ZeroIsNone bool
	// Health returns the board's health for a value, or false if the value does not determine the
	// health. It is nil for fields that are not about health.
	Health func(v float64) (Health, bool)
	// Gives lists the signals that are computed from this field only, or from the fields that they
	// specify.
	Gives []Signal

	// New sets the following fields: the signal that is computed from the rows of holders, and the
	// position in Exporter.Rates, counted from 1. A position of 0 means that the field is not in
	// Rates.
	Process *Signal
	Rate    int
}

// MaxCode is the maximum code of an event. Higher numbers are not codes. NVIDIA's highest code is
// 172.
const MaxCode = 999

// Rescaled is a name of a field with its own unit.
type Rescaled struct {
	Name string
	Unit Unit
}

// Spelling is the meaning of an exposed metric name.
type Spelling struct {
	Field *Field
	Unit  Unit
	// BaseUnits is true if the name exists since DCGM 4.7, in which ratios are 0 to 1. Such a name
	// determines Scale for the entire scrape. The …_HERTZ and …_JOULES fields are older (4.6.1) and
	// do not determine Scale.
	BaseUnits bool
	// Alias is the position of the name in the field's aliases, counted from 1.
	Alias uint8
	// Cut maps the values of the RoleCut label to the fields that share the name. Field is any of
	// these fields.
	Cut map[string]*Field
	// Prefixed is true if the name starts with a user-defined prefix.
	Prefixed bool
}

// Exposed returns the metric name under which the field is exposed.
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
	// ByEvents signals count events. They have one series per code.
	ByEvents
	// ByHolders signals are computed from the labels that name holders.
	ByHolders
	// ByTracker signals are counters that a Tracker computes from the values of consecutive
	// scrapes.
	ByTracker
	// ByProcesses signals are computed from rows of holders. These rows exist in addition to the
	// device's own row.
	ByProcesses
)

// Health is a value of hw.state in hw.status, in order from good to bad.
type Health uint8

// The health states.
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

// Flagged returns a function that maps a flag to a health: 1 to h, and 0 to healthy.
func Flagged(h Health) func(float64) (Health, bool) {
	return func(v float64) (Health, bool) {
		if v == 0 {
			return HealthOK, true
		}
		return h, v == 1
	}
}

// Bit is a bit of a mask, with the value of the metric's own attribute for this bit.
type Bit struct {
	Mask uint64
	Part string
}

// Signal describes how an exporter's fields are converted to one metric in the signal table. If the
// metric has its own attribute, the Signal covers one value of the attribute.
type Signal struct {
	Metric *signal.Metric
	Part   string
	// From contains sets of field names in order of preference. The first set that has a value for
	// every field is used. A gauge uses the rates of counter fields.
	From [][]string
	// Usual is the index of the set that most exporters have. Advice recommends this set.
	Usual int
	// Make computes the value from the fields of the set with the given index. If it is nil, the
	// values are summed.
	Make func(set int, values []float64) (v float64, ok bool)
	// Track returns a tracker for one device. It is set if and only if By is ByTracker.
	Track func() Tracker
	// Lasting is true if the sets measure different things, so that the signal must not fall back
	// to another set. Once the last field of a set has had a value, the signal ignores later sets,
	// even while fields of the set are missing. A counter also ignores earlier sets.
	Lasting bool
	// Bits lists the bits of a mask. The signal has one sample for each bit.
	Bits []Bit
	// States lists the states. The signal has one sample per state: 1 for the state whose index is
	// the field's value, and 0 for the other states.
	States []string
	// Capacity returns the capacity by which the value of a ratio signal is divided, or 0 if the
	// capacity is unknown. The capacity depends on the board's model and on the values of the
	// fields in With (NaN for a missing value). If the signal is not a ratio, the capacity replaces
	// the signal's value.
	Capacity func(of *Capacities, with []float64) float64
	With     []string
	By       By
	// Optional is true for signals that are rarely useful, or that cost more than they are worth.
	Optional bool

	// Sets and Inputs are From and With as IDs.
	Sets   [][]ID
	Inputs []ID
}

// Tracker computes a counter of one device from the values of consecutive scrapes.
type Tracker interface {
	// Add adds the values of a set of fields. The time is in nanoseconds since the epoch. Add
	// returns the counter and the time at which the counter was 0. It returns false if the values
	// do not yield the counter. In this case, the verdict is Valid unless the values are
	// impossible.
	Add(at int64, values []float64) (start int64, v float64, ok bool, verdict Verdict)
	// Rebase makes the next values the baseline. It is called if the next values may be from
	// another source.
	Rebase()
}

// Name returns the metric's name, followed by the part in braces if there is one.
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

// PartXID represents every error.type that starts with xid_. It also represents the data point
// without error.type, which reports that there were no XIDs.
const PartXID = "xid"
