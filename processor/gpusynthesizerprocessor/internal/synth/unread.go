package synth

import "slices"

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

// isAll reports whether the device is a board and none of its instances was read. In that case, no
// other device shows that the board exists.
func (a *accumulator) isAll() bool {
	return a.device.Parent == nil && !slices.ContainsFunc(a.instances, func(in *accumulator) bool { return !in.unread })
}
