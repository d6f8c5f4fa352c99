package synth

import "github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"

// numbered identifies devices of one exporter that are numbered together.
type numbered struct {
	of    *catalogue.Exporter
	place Place
	group string
}

// renumber finds the devices of rows whose exporter numbers devices in two ways, and marks the rows
// that do not identify their device's holder. It removes rows whose numbers cannot be matched to a
// device.
func (s *Synthesizer) renumber(rows []observation) []observation {
	ranks := map[numbered]*catalogue.Ranks{}
	of := func(r *Row) *catalogue.Ranks {
		k := numbered{r.of, r.place, r.is.Group}
		if ranks[k] == nil {
			ranks[k] = &catalogue.Ranks{}
		}
		return ranks[k]
	}
	for i := range rows {
		r := rows[i].row
		if !r.of.Renumbers {
			continue
		}
		of(r).Add(r.is, rows[i].field.Renumbered)
		if s.holds(&rows[i]) {
			of(r).Hold(r.holder)
		}
	}
	kept := rows[:0]
	for _, o := range rows {
		r := o.row
		if !r.of.Renumbers {
			kept = append(kept, o)
			continue
		}
		o.ambiguous = of(r).Untold(o.field)
		is, joined := of(r).Own(r.is, o.field.Renumbered)
		if !joined {
			s.stats.Dropped[DropAmbiguousDevice]++
			continue
		}
		if o.row = r.about(s.device(r.of, r.place, is)); o.row == nil {
			s.stats.Dropped[DropDeviceLimit]++
			continue
		}
		kept = append(kept, o)
	}
	return kept
}

// about returns a copy of the row for device d, or nil if d is nil.
func (r *Row) about(d *Device) *Row {
	switch {
	case d == nil:
		return nil
	case r.device == nil:
		r.device = d
	case r.device != d:
		if r.other == nil || r.other.device != d {
			other := *r
			other.device = d
			r.other = &other
		}
		return r.other
	}
	return r
}
