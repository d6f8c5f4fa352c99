package synth

import "slices"

// tellApart finds the devices of rows whose identity several devices of their exporter share. It
// removes rows that cannot be assigned, because the values of two devices would be mixed.
func (s *Synthesizer) tellApart(rows []observation) []observation {
	shared := sharedDevices(rows)
	if len(shared) == 0 {
		return rows
	}
	for i := range rows {
		r := rows[i].row
		if !shared[r.device] || r.is.Apart == nil {
			continue
		}
		if other := s.about(r, r.is.Apart); other.device != nil {
			rows[i].row = other
		}
	}
	shared = sharedDevices(rows)
	return slices.DeleteFunc(rows, func(o observation) bool {
		if shared[o.row.device] {
			s.stats.Dropped[DropAmbiguousDevice]++
		}
		return shared[o.row.device]
	})
}

// sharedDevices returns the devices that rows of several indices are about.
func sharedDevices(rows []observation) map[*Device]bool {
	shared, first := map[*Device]bool{}, map[*Device]string{}
	for i := range rows {
		r := rows[i].row
		if index, known := first[r.device]; !known {
			first[r.device] = r.is.Index
		} else if index != r.is.Index {
			shared[r.device] = true
		}
	}
	return shared
}
