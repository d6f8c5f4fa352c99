package catalogue

import "slices"

// Ranks joins the two ways in which an exporter numbers the devices of one group: a device's own
// number and the other one have the same rank, where there are as many of both. It also tells
// whether the group has several holders.
type Ranks struct {
	own    []Identity
	other  []int
	holder Holder
	shared bool
}

// Add takes the identity of a row over; renumbered says that it has the other number.
func (r *Ranks) Add(is Identity, renumbered bool) {
	if renumbered {
		if at, known := slices.BinarySearch(r.other, is.Number); !known {
			r.other = slices.Insert(r.other, at, is.Number)
		}
	} else if at, known := slices.BinarySearchFunc(r.own, is.Number, func(o Identity, number int) int { return o.Number - number }); !known {
		r.own = slices.Insert(r.own, at, is)
	}
}

// Hold notes that a holder has some device of the group.
func (r *Ranks) Hold(h Holder) {
	r.shared = r.shared || r.holder != (Holder{}) && !r.holder.Same(h)
	r.holder = h
}

// Untold reports whether the holder that a field's row names need not be the device's.
func (r *Ranks) Untold(f *Field) bool { return f.Copied && r.shared }

// Own returns the identity by a device's own number. It returns false where the numbers cannot be
// joined.
func (r *Ranks) Own(is Identity, renumbered bool) (Identity, bool) {
	if !renumbered {
		return is, true
	}
	at, known := slices.BinarySearch(r.other, is.Number)
	if !known || len(r.own) != len(r.other) {
		return Identity{}, false
	}
	return r.own[at], true
}
