package catalogue

import (
	"strings"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// ID identifies a field among the fields of all exporters. No field has the ID 0.
type ID uint16

// MaxFields is greater than the highest ID in all tables.
const MaxFields = 256

// Kind describes how a field's value changes over time. Kind determines how repeated rows are
// merged.
type Kind uint8

const (
	// Level is a value at one point in time, such as a size, a rate, a temperature, or an activity.
	Level Kind = iota
	// Counter is a value that never decreases, except when it is reset.
	Counter
	// Bits is a bit mask.
	Bits
	// Code is the code of the last event.
	Code
	// EventCount counts the events in the last few minutes. A label contains the event code.
	EventCount
	// EventTotal counts the events since the exporter started. A label contains the event code.
	EventTotal
)

// Scope describes what a field measures on a board with instances.
type Scope uint8

const (
	// Instance fields measure the instance that the row names.
	Instance Scope = iota
	// Board fields measure the board. The row of every instance repeats the board's value.
	Board
	// BoardWithoutInstances fields measure a board without instances, and have no meaning on a board
	// with instances.
	BoardWithoutInstances
)

// Parts specifies how several rows of the same field and device are combined. The combined rows
// differ in a label, or in the metric name if the field has several names.
type Parts uint8

const (
	// Highest is for rows that are repeated readings of the same value. The highest value is used.
	Highest Parts = iota
	// Mean is for rows that measure parts of the device that have equal weight. The mean of the
	// values is used.
	Mean
	// Sum is for rows that measure parts of the device. The values of the rows are added. If a
	// counter has no row for a part, the part's last value is used. A part that appears later is
	// counted from the time at which it appears. For signals that are rates, no value is computed
	// in the first scrape in which a part is missing.
	Sum
)

// Field is one field of an exporter.
type Field struct {
	ID ID
	// Name is the canonical name.
	Name string
	// Unit is the unit of values that are exposed under the canonical name.
	Unit Unit

	Kind  Kind
	Scope Scope
	// Aliases contains other names under which the field is exposed in the same unit.
	Aliases []string
	// Cut is set if several fields share a metric name. Cut contains the values of the RoleCut
	// label that select this field's rows. If Cut is set, Name ends with a label value in braces.
	Cut []string
	// Parts describes how rows that measure parts of the device are combined.
	Parts Parts
	// Rescaled contains other names under which the field is exposed in a different unit.
	Rescaled []Rescaled
	// ZeroIsNone is true if a value of 0 is not an observation, but means that the measured
	// quantity is unavailable.
	ZeroIsNone bool
	// Health returns the board's health state for a value, or false if the value does not determine
	// the health state. Health is nil for fields that do not describe the board's health.
	Health func(v float64) (Health, bool)
	// Provides lists the signals that the field provides. Each signal is computed from the fields in
	// the signal's From, or only from this field if From is empty.
	Provides []Signal

	// New sets Process and Rate. Process is the signal that is computed from the rows of holders.
	// Rate is the position of the field in Exporter.Rates, starting at 1. A Rate of 0 means that
	// the field is not in Exporter.Rates.
	Process *Signal
	Rate    int
}

// MaxCode is the highest valid event code. NVIDIA's highest code is 172.
const MaxCode = 999

// Rescaled is a name under which a field is exposed in a different unit.
type Rescaled struct {
	Name string
	Unit Unit
}

// Spelling is the meaning of an exposed metric name.
type Spelling struct {
	Field *Field
	Unit  Unit
	// BaseUnits is true if the name was added in DCGM 4.7, in which ratios range from 0 to 1. A
	// name with BaseUnits shows that all RatioOrPercent values of the scrape are ratios, unless one
	// of these values is above 1. The …_HERTZ and …_JOULES names were added in DCGM 4.6.1 and
	// therefore do not determine the Scale.
	BaseUnits bool
	// Alias is the position of the name in the field's aliases, starting at 1.
	Alias uint8
	// Cut maps the values of the RoleCut label to the fields that share the name. If Cut is set,
	// Field is an arbitrary field from Cut.
	Cut map[string]*Field
	// Prefixed is true if the name starts with a user-defined prefix.
	Prefixed bool
}

// Exposed returns the metric name under which the field is exposed.
func (f *Field) Exposed() string {
	name, _, _ := strings.Cut(f.Name, "{")
	return name
}

// By specifies what a signal is computed from.
type By uint8

const (
	// ByFields signals are computed from the values of fields.
	ByFields By = iota
	// ByHealth signals contain the worst known health state of the board.
	ByHealth
	// ByEvents signals count events. Each event code has its own series.
	ByEvents
	// ByHolders signals are computed from the labels that name holders.
	ByHolders
	// ByTracker signals are counters that a Tracker computes from the values of consecutive
	// scrapes.
	ByTracker
	// ByProcesses signals are computed from rows of holders. Exporters of devices expose the rows
	// of holders in addition to the device's own row.
	ByProcesses
)

// Health is a value of the hw.state attribute of the hw.status metric. The values are ordered from
// best to worst.
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

// Flagged returns a function that maps a flag to a health state: 1 to h, and 0 to HealthOK.
func Flagged(h Health) func(float64) (Health, bool) {
	return func(v float64) (Health, bool) {
		if v == 0 {
			return HealthOK, true
		}
		return h, v == 1
	}
}

// Bit is one bit of a mask. Part is the value of the metric's own attribute for this bit.
type Bit struct {
	Mask uint64
	Part string
}

// Signal describes how one metric in the signal table is computed from an exporter's fields. If the
// metric has its own attribute, the Signal covers one value of the attribute.
type Signal struct {
	Metric *signal.Metric
	Part   string
	// From contains sets of field names in order of preference. The first set that has a value for
	// every field is used. If the metric is a gauge, the rates of counter fields are used.
	From [][]string
	// Usual is the index of the set that most exporters expose. The diagnosis recommends this set.
	Usual int
	// Make computes the value from the fields of the set with the given index. If Make is nil, the
	// values are summed.
	Make func(set int, values []float64) (v float64, ok bool)
	// Track returns a tracker for one device. Track is set if and only if By is ByTracker.
	Track func() Tracker
	// Lasting is true if the sets measure different things, so the signal must not fall back to
	// another set. Once the last field of a set has had a value, the signal ignores all later sets,
	// even while fields of the chosen set are missing. If the metric is a counter, the signal also
	// ignores all earlier sets.
	Lasting bool
	// Bits lists the bits of a mask. The signal has one sample for each bit.
	Bits []Bit
	// States lists the possible states. The signal has one sample per state: 1 for the state whose
	// index is the field's value, and 0 for the other states.
	States []string
	// Capacity returns the capacity by which the value of a ratio signal is divided, or 0 if the
	// capacity is unknown. The capacity depends on the board's model and on the values of the
	// fields in With. A missing value is passed as NaN. If the signal is not a ratio, the capacity
	// replaces the signal's value.
	Capacity func(of *Capacities, with []float64) float64
	With     []string
	By       By
	// Optional is true for signals that are rarely useful, or whose costs exceed their benefits.
	Optional bool

	// Sets contains the field IDs for the names in From. Inputs contains the field IDs for the
	// names in With.
	Sets   [][]ID
	Inputs []ID
}

// Tracker computes a counter of one device from the values of consecutive scrapes.
type Tracker interface {
	// Add adds the values of a set of fields. The at parameter is the time of the values, in
	// nanoseconds since the Unix epoch. Add returns the counter's value and the time at which the
	// counter was 0. Add returns false if the counter cannot be computed from the values. If Add
	// returns false, the verdict is Valid unless the values are impossible.
	Add(at int64, values []float64) (start int64, v float64, ok bool, verdict Verdict)
	// Rebase makes the next values the baseline. Rebase is called if the next values may come from
	// another source, or if the clock was set back.
	Rebase()
}

// Name returns the metric's name, followed by the part in braces if the signal has a part.
func (s *Signal) Name() string {
	if s.Part == "" {
		return s.Metric.Name
	}
	return s.Metric.Name + "{" + s.Part + "}"
}

// Feeds returns the window metrics that are computed from the signal, except for metrics that are
// disabled by default.
func (s *Signal) Feeds() []*signal.Metric {
	var out []*signal.Metric
	for i := range s.Metric.Windows {
		if w := &s.Metric.Windows[i]; w.Reads(s.Part) && !w.Off {
			out = append(out, w.Metric)
		}
	}
	return out
}

// PartXID represents every error.type value that starts with xid_. PartXID also represents the data
// point without error.type, which reports that there were no XIDs.
const PartXID = "xid"
