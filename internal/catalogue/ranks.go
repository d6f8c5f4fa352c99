package catalogue

import "slices"

// Ranks matches two numberings of the devices in a group by order: the n-th device of one numbering
// is the n-th device of the other, if both have the same number of devices. It also reports whether
// the group has several holders.
type Ranks struct {
	own    []Identity
	other  []int
	holder Holder
	shared bool
}

// Add adds the identity of a row; renumbered is true if it uses the second numbering.
func (r *Ranks) Add(is Identity, renumbered bool) {
	if renumbered {
		if at, known := slices.BinarySearch(r.other, is.Number); !known {
			r.other = slices.Insert(r.other, at, is.Number)
		}
	} else if at, known := slices.BinarySearchFunc(r.own, is.Number, func(o Identity, number int) int { return o.Number - number }); !known {
		r.own = slices.Insert(r.own, at, is)
	}
}

// Hold records that a holder holds some device of the group.
func (r *Ranks) Hold(h Holder) {
	r.shared = r.shared || r.holder != (Holder{}) && !r.holder.Same(h)
	r.holder = h
}

// Untold reports whether the holder in a field's row may hold a different device than the row's.
func (r *Ranks) Untold(f *Field) bool { return f.Copied && r.shared }

// Own returns the identity with the device's own number, or false if the numberings cannot be
// matched.
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
