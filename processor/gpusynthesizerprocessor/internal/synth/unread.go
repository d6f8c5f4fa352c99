package synth

import (
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// isUnread reports whether the rows belong to a board that the driver cannot read: its vital fields
// are all exposed, and all of them are 0 on the board and its instances.
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

// unread adds a sample to a device that the driver cannot read. Without it, components that receive
// metrics could not tell that the device still exists. With the diagnosis of all signals the device
// has such a sample anyway.
func (e *emitter) unread() {
	e.to.Samples.Add(gpudata.Sample{
		Metric: signal.GPUSignalAvailable, Own: signal.HwPower.Name,
		More: []gpudata.Attr{{Key: signal.Reason, Value: signal.ReasonUnread}},
	})
}

// forget discards all observations of the device except that it existed at the sample time. The
// next scrape continues from the previous one.
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
