package diagnose

import (
	"math"
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
)

// values has the highest values of a field's rows without a holder, and of those with one.
type values [catalogue.MaxFields]struct{ bare, with float64 }

// value returns the value of a field whose state shows that it has one.
func (d *Device) value(id catalogue.ID) float64 {
	switch {
	case d.bare[id] != Unseen:
		return d.values[id].bare
	case d.with[id] != Unseen:
		return d.values[id].with
	}
	highest := 0.0
	for _, in := range d.instances {
		highest = max(highest, in.value(id))
	}
	return highest
}

// checked is a device whose values are checked for contradictions.
type checked struct{ *Device }

// Value implements catalogue.Values. One scrape does not show the rates of counters.
func (c checked) Value(id catalogue.ID, rate bool) (float64, bool) {
	if rate || !c.shows(id) {
		return 0, false
	}
	return c.value(id), true
}

// Capacity implements catalogue.Values.
func (c checked) Capacity(s *catalogue.Signal) float64 {
	with := slices.Repeat([]float64{math.NaN()}, len(s.Inputs))
	for i, id := range s.Inputs {
		if v, ok := c.Value(id, false); ok {
			with[i] = v
		}
	}
	model := c.scrape.of().Model(c.Model)
	return s.Capacity(&model, with)
}

// Drop implements catalogue.Values. It marks the field's value as not observed.
func (d *Device) Drop(id catalogue.ID, why catalogue.Contradiction) {
	d.bare[id] = Blank
	if why == catalogue.Frozen {
		d.bare[id], d.frozen = Stopped, true
	}
}

// isUnread reports whether all vital fields of a board are exposed and 0.
func (d *Device) isUnread() bool {
	vitals := d.scrape.of().VitalIDs
	return d.parent == nil && len(vitals) > 0 &&
		!slices.ContainsFunc(vitals, func(id catalogue.ID) bool { return d.state(id) != Zero })
}
