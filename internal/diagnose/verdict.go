package diagnose

import (
	"math"
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
)

// Verdict says whether one device gives one signal.
type Verdict struct {
	Signal *Signal
	// Available says that the scrape shows what the signal is made of.
	Available bool
	// Elsewhere signals are measured on the board of this instance, or on the
	// instances of this board.
	Elsewhere bool
	// cause says why the signal is missing.
	cause cause
	// Likely says that the scrape alone does not prove the reason.
	Likely bool
	// Missing are the fields that would turn the signal on.
	Missing []catalogue.ID
}

// CanTurnOn reports whether the signal is missing for a reason that somebody can
// do something about.
func (v *Verdict) CanTurnOn() bool {
	return !v.Available && !v.Elsewhere && !v.cause.lasting() && (v.cause != causeCapacity || len(v.Missing) > 0)
}

// Reason says why the signal is missing.
func (v *Verdict) Reason() Reason { return causes[v.cause].reason }

// Verdicts returns what the device gives of each signal of its exporter.
func (d *Device) Verdicts() []Verdict {
	d.scrape.compare()
	d.known = d.scrape.of().Model(d.Model)
	signals := made[d.scrape.of()]
	out := make([]Verdict, len(signals))
	for i, s := range signals {
		out[i] = d.verdict(s)
	}
	return out
}

func (d *Device) verdict(s *Signal) Verdict {
	v := Verdict{Signal: s}
	if s.Gap {
		v.Elsewhere, v.cause = d.Kind() == Instance && s.scope() == catalogue.Board, causeVendor
		return v
	}
	switch s.By {
	case catalogue.ByHolders:
		d.judgeHolder(&v)
		return v
	case catalogue.ByProcesses:
		d.judgeProcesses(&v)
		return v
	}
	if d.Kind() == Instance && s.scope() == catalogue.Board {
		v.Elsewhere = true // its rows repeat the board's value
		return v
	}
	if s.By == catalogue.ByHealth && slices.ContainsFunc(d.instances, func(in *Device) bool { return in.showsAny(s) }) {
		v.Available = true // an error of an instance is one of the board
		return v
	}
	if d.showsAny(s) {
		v.Available = true
		d.judgeCapacity(&v)
		return v
	}
	if d.Kind() == Board && s.scope() == catalogue.Instance {
		v.Elsewhere = true
		return v
	}
	// The usual source of the model explains most; another one only when the usual one
	// is out of reach and the other is not.
	for i, set := range s.Sources {
		missing, cause, likely := d.why(set)
		if i == 0 || v.cause == causeNoCounter || cause == causeNotInCSV && v.cause.replaceable() && canBeListed(missing) {
			v.Missing, v.cause, v.Likely = missing, cause, likely
		}
	}
	return v
}

// judgeCapacity makes a link's utilization missing while the link's capacity is
// unknown.
func (d *Device) judgeCapacity(v *Verdict) {
	sg := v.Signal
	if sg.Capacity == nil || len(sg.Inputs) > 0 && !slices.ContainsFunc(sg.Inputs, func(id catalogue.ID) bool { return !d.shows(id) }) {
		return
	}
	unknown := slices.Repeat([]float64{math.NaN()}, len(sg.Inputs))
	if sg.Capacity(&d.known, unknown) > 0 {
		return
	}
	v.Missing = sg.Inputs
	v.Available, v.cause = false, causeCapacity
}

// judgeHolder decides on the labels that name pods.
func (d *Device) judgeHolder(v *Verdict) {
	switch {
	case d.unread:
		v.cause = causeUnread
	case d.held:
		v.Available = true
	case d.Kind() == Board:
		v.Elsewhere = true
	case d.ambiguous:
		v.cause = causeCopied
	case d.reserved:
		v.cause = causeReserved
	case d.scrape.held[d.Host] || d.scrape.Clues.emptyPod:
		v.cause, v.Likely = causeFree, true
	default:
		v.cause, v.Likely = causeNoPodLabels, true
	}
}

// judgeProcesses decides on rows of pods beside the device's own row.
func (d *Device) judgeProcesses(v *Verdict) {
	id := v.Signal.Sources[0][0]
	switch {
	case d.unread:
		v.cause = causeUnread
	case d.processRows(id) && (!d.ambiguous || d.container):
		v.Available = true
	case d.Kind() == Board:
		v.Elsewhere = true
	case d.Kind() == Instance && catalogue.ByID(id).Scope == catalogue.Whole:
		v.cause = causeMIG
	case d.reserved:
		v.cause = causeReserved
	case !d.held && d.scrape.processes[id]:
		v.cause, v.Likely = causeFree, true
	default:
		v.cause = causeNoProcessRows
	}
}

// processRows reports whether pods have rows of a field beside the device's own.
func (d *Device) processRows(id catalogue.ID) bool {
	return d.held && d.bare[id] != Unseen && d.with[id] >= Zero
}
