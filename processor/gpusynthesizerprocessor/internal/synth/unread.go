package synth

import (
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// isUnread reports whether the driver cannot read the board. A board is considered unread if all
// vital fields are exposed and have the value 0 on the board and on its instances.
func (a *accumulator) isUnread() bool {
	if a.device.Parent != nil || len(a.device.of.VitalIDs) == 0 {
		return false
	}
	for _, id := range a.device.of.VitalIDs {
		exposed, zero := false, true
		a.eachPart(func(part *accumulator) {
			if v, ok := part.cell(id).value(); ok {
				exposed, zero = true, zero && v == 0
			}
		})
		if !exposed || !zero {
			return false
		}
	}
	return true
}

// The forget method discards all values of the device in the current scrape, and records only that
// the device exists. The baselines from the previous scrape are kept.
func (a *accumulator) forget(at int64) {
	a.unread, a.device.unread = true, at
	for i := range a.fields {
		if c := &a.fields[i]; c.hasBare || c.hasHeld {
			a.dropped[DropUnread]++
		}
	}
	a.dropped[DropUnread] += int64(len(a.totals) + len(a.counts))
	clear(a.fields)
	clear(a.totals)
	clear(a.counts)
	a.hasTotals, a.hasCounts = false, false
	a.parts, a.usage, a.holders = a.parts[:0], a.usage[:0], a.holders[:0]
}

// showUnobserved marks a device without values as unread. If the device is a board and none of its
// instances has a value, no other sample shows that the board exists. For such a board,
// showUnobserved adds the Presence sample if the presence parameter is true.
func (a *accumulator) showUnobserved(presence bool) {
	alone := a.device.Parent == nil && !slices.ContainsFunc(a.instances, func(in *accumulator) bool { return in.frame.Observed })
	if alone || a.row != nil {
		a.frame.Unread = true
	}
	if !alone || !presence {
		return
	}
	reason := signal.ReasonNoValue
	if a.unread {
		reason = signal.ReasonUnread
	}
	a.frame.Samples.Add(gpudata.Presence(reason))
}
