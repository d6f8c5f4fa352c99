package diagnose

import (
	"math"
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
)

// values contains the highest value of each field in rows without a holder, and the highest value
// in rows with a holder.
type values [catalogue.MaxFields]struct{ withoutHolder, withHolder float64 }

// value returns the value of a field whose state is Positive.
func (d *Device) value(id catalogue.ID) float64 {
	switch {
	case d.withoutHolder[id] != Unseen:
		return d.values[id].withoutHolder
	case d.withHolder[id] != Unseen:
		return d.values[id].withHolder
	}
	highest := 0.0
	for _, in := range d.instances {
		highest = max(highest, in.value(id))
	}
	return highest
}

// checkedDevice implements catalogue.Values, which an exporter's DropContradicted hook uses to
// check a device's values for contradictions.
type checkedDevice struct{ *Device }

// Value implements catalogue.Values. The rates of counters are never available, because they cannot
// be computed from a single scrape.
func (c checkedDevice) Value(id catalogue.ID, rate bool) (float64, bool) {
	if rate || !c.hasValue(id) {
		return 0, false
	}
	return c.value(id), true
}

// Capacity implements catalogue.Values.
func (c checkedDevice) Capacity(s *catalogue.Signal) float64 {
	inputs := slices.Repeat([]float64{math.NaN()}, len(s.Inputs))
	for i, id := range s.Inputs {
		if v, ok := c.Value(id, false); ok {
			inputs[i] = v
		}
	}
	capacities := c.scrape.exporter().Capacities(c.Model)
	return s.Capacity(&capacities, inputs)
}

// Drop implements catalogue.Values. Drop changes the state of the field to Stopped if the profiler
// has stopped, and to Blank otherwise.
func (d *Device) Drop(id catalogue.ID, why catalogue.Contradiction) {
	d.withoutHolder[id] = Blank
	if why == catalogue.Frozen {
		d.withoutHolder[id], d.frozen = Stopped, true
	}
}

// isUnread reports whether the driver cannot read the board, which is the case if all of the
// board's vital fields are 0. If the device is a MIG instance, isUnread returns false.
func (d *Device) isUnread() bool {
	vitals := d.scrape.exporter().VitalIDs
	return d.parent == nil && len(vitals) > 0 &&
		!slices.ContainsFunc(vitals, func(id catalogue.ID) bool { return d.state(id) != Zero })
}
