package synth

import (
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
)

// numbered are devices of one exporter that are numbered together.
type numbered struct {
	of    *catalogue.Exporter
	place Place
	group string
}

// renumber finds the devices of rows whose exporter numbers them in two ways. A device's
// own number and the other one have the same rank, where a scrape has as many of both.
// Rows of the other numbers are left out where it does not.
func (s *Synthesizer) renumber(rows []observation) []observation {
	own, other := map[numbered][]catalogue.Identity{}, map[numbered][]int{}
	for i := range rows {
		r := rows[i].row
		if !r.of.Renumbers {
			continue
		}
		k := numbered{r.of, r.place, r.is.Group}
		if rows[i].field.Renumbered {
			if at, known := slices.BinarySearch(other[k], r.is.Number); !known {
				other[k] = slices.Insert(other[k], at, r.is.Number)
			}
		} else if at, known := slices.BinarySearchFunc(own[k], r.is.Number, byNumber); !known {
			own[k] = slices.Insert(own[k], at, r.is)
		}
	}
	kept := rows[:0]
	for _, o := range rows {
		r := o.row
		if !r.of.Renumbers {
			kept = append(kept, o)
			continue
		}
		is := r.is
		if o.field.Renumbered {
			k := numbered{r.of, r.place, is.Group}
			if len(own[k]) != len(other[k]) {
				s.stats.Dropped[DropAmbiguousDevice]++
				continue
			}
			rank, _ := slices.BinarySearch(other[k], is.Number)
			is = own[k][rank]
		}
		if o.row = r.about(s.device(r.of, r.place, is)); o.row == nil {
			s.stats.Dropped[DropDeviceLimit]++
			continue
		}
		kept = append(kept, o)
	}
	return kept
}

// about returns the row as one about a device, nil where there is none.
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

func byNumber(is catalogue.Identity, number int) int { return is.Number - number }
