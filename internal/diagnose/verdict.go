package diagnose

import (
	"math"
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/dcgm"
)

// Verdict states whether a device provides a signal and, if it does not, the reason.
type Verdict struct {
	Signal *Signal
	// Available is true if the scrape contains the fields or labels from which the signal is
	// computed.
	Available bool
	// Elsewhere is true if the device is a MIG instance and the signal is measured on the
	// instance's board, or if the device is a board and the signal is measured on the board's MIG
	// instances.
	Elsewhere bool
	// cause specifies why the signal is missing.
	cause cause
	// Likely is true if the scrape does not prove the reason.
	Likely bool
	// Missing lists the missing fields that would enable the signal.
	Missing []catalogue.ID
}

// CanTurnOn reports whether the signal is missing and users can enable it.
func (v *Verdict) CanTurnOn() bool {
	return !v.Available && !v.Elsewhere && !v.cause.lasting() && (v.cause != causeCapacity || len(v.Missing) > 0)
}

// Reason returns why the signal is missing.
func (v *Verdict) Reason() Reason { return causes[v.cause].reason }

// Verdicts returns one verdict for each signal of the device's exporter.
func (d *Device) Verdicts() []Verdict {
	d.scrape.aggregate()
	d.known = dcgm.LookupModel(d.Model)
	signals := signalsByExporter[d.scrape.exporter()]
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
		d.checkHolder(&v)
		return v
	case catalogue.ByProcesses:
		d.checkProcesses(&v)
		return v
	}
	if d.Kind() == Instance && s.scope() == catalogue.Board {
		v.Elsewhere = true // the instance's rows repeat the board's value
		return v
	}
	if s.By == catalogue.ByHealth && slices.ContainsFunc(d.instances, func(in *Device) bool { return in.hasAnySet(s) }) {
		v.Available = true // an error on an instance is also an error on the board
		return v
	}
	if d.hasAnySet(s) {
		v.Available = true
		d.checkCapacity(&v)
		return v
	}
	if d.Kind() == Board && s.scope() == catalogue.Instance {
		v.Elsewhere = true
		return v
	}
	// Usually, the verdict contains the cause for the signal's first source. The verdict contains
	// the cause for another source if the first source is a counter of a different NVLink
	// generation, or if users cannot enable the first source but can add the other source to the
	// exporter's CSV file.
	for i, set := range s.Sources {
		missing, cause, likely := d.why(set)
		if i == 0 || v.cause == causeNoCounter || cause == causeNotInCSV && v.cause.replaceable() && canBeListed(missing) {
			v.Missing, v.cause, v.Likely = missing, cause, likely
		}
	}
	return v
}

// checkCapacity marks a signal that is divided by a capacity as missing if the capacity is unknown.
func (d *Device) checkCapacity(v *Verdict) {
	sg := v.Signal
	if sg.Capacity == nil || len(sg.Inputs) > 0 && !slices.ContainsFunc(sg.Inputs, func(id catalogue.ID) bool { return !d.hasValue(id) }) {
		return
	}
	unknown := slices.Repeat([]float64{math.NaN()}, len(sg.Inputs))
	capacities := d.scrape.exporter().Capacities(d.Model)
	if sg.Capacity(&capacities, unknown) > 0 {
		return
	}
	v.Missing = sg.Inputs
	v.Available, v.cause = false, causeCapacity
}

// checkHolder uses the labels that name pods to determine whether the holder signal is available.
func (d *Device) checkHolder(v *Verdict) {
	switch {
	case d.unread:
		v.cause = causeUnread
	case d.hasHolder:
		v.Available = true
	case d.Kind() == Board:
		v.Elsewhere = true
	case d.ambiguous:
		v.cause = causeCopied
	case d.reserved:
		v.cause = causeReserved
	case d.scrape.hostsWithHolders[d.Host] || d.scrape.Clues.emptyPod:
		v.cause, v.Likely = causeFree, true
	default:
		v.cause, v.Likely = causeNoPodLabels, true
	}
}

// checkProcesses determines whether a signal about processes is available. A signal about processes
// requires that pods have rows in addition to the device's own row.
func (d *Device) checkProcesses(v *Verdict) {
	id := v.Signal.Sources[0][0]
	switch {
	case d.unread:
		v.cause = causeUnread
	case d.processRows(id) && (!d.ambiguous || d.hasContainer):
		v.Available = true
	case d.Kind() == Board:
		v.Elsewhere = true
	case d.Kind() == Instance && catalogue.ByID(id).Scope == catalogue.BoardWithoutInstances:
		v.cause = causeMIG
	case d.reserved:
		v.cause = causeReserved
	case !d.hasHolder && d.scrape.hasProcessRows[id]:
		v.cause, v.Likely = causeFree, true
	default:
		v.cause = causeNoProcessRows
	}
}

// processRows reports whether the field has rows for pods in addition to the device's own row.
func (d *Device) processRows(id catalogue.ID) bool {
	return d.hasHolder && d.withoutHolder[id] != Unseen && d.withHolder[id] >= Zero
}
