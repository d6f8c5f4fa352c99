package synth

import "github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"

// resolve finds the devices of rows whose exporter has the hook Resolve. It removes rows whose
// device is unknown.
func (s *Synthesizer) resolve(rows []observation) []observation {
	readings := make([]catalogue.Reading, len(rows))
	groups := map[exporterAt][]*catalogue.Reading{}
	for i := range rows {
		o, r := &rows[i], &readings[i]
		if o.row.of.Resolve == nil {
			continue
		}
		r.Field, r.Identity = o.field, &o.row.is
		if s.holds(o) {
			r.Holder = &o.row.holder
		}
		at := exporterAt{o.row.of, o.row.place}
		groups[at] = append(groups[at], r)
	}
	for at, group := range groups {
		at.of.Resolve(group)
	}
	kept := rows[:0]
	for i, o := range rows {
		r := &readings[i]
		if o.row.of.Resolve != nil {
			if r.Unresolved {
				s.stats.Dropped[DropAmbiguousDevice]++
				continue
			}
			if o.row = s.about(o.row, r.Identity); o.row.device == nil {
				s.stats.Dropped[DropDeviceLimit]++
				continue
			}
			o.ambiguous = r.AmbiguousHolder
		}
		kept = append(kept, o)
	}
	return kept
}

// about returns a row with the same labels about the device with that identity. The row has no
// device if the limit is reached.
func (s *Synthesizer) about(r *Row, is *catalogue.Identity) *Row {
	if is != &r.is && (is.Board != r.is.Board || is.Instance != r.is.Instance) {
		if r.other == nil || r.other.is.Board != is.Board || r.other.is.Instance != is.Instance {
			other := *r
			other.is, other.device = *is, nil
			r.other = &other
		}
		r = r.other
	}
	if r.device == nil {
		r.device = s.device(r.of, r.place, r.is)
	}
	return r
}
