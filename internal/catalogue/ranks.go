package catalogue

import "slices"

// Ranks joins the two ways in which an exporter numbers the devices of one group: a device's own
// number and the other one have the same rank, where there are as many of both.
type Ranks struct {
	own   []Identity
	other []int
}

// Add takes the identity of a row over; renumbered says that it has the other number.
func (r *Ranks) Add(is Identity, renumbered bool) {
	if renumbered {
		if at, known := slices.BinarySearch(r.other, is.Number); !known {
			r.other = slices.Insert(r.other, at, is.Number)
		}
	} else if at, known := slices.BinarySearchFunc(r.own, is.Number, byNumber); !known {
		r.own = slices.Insert(r.own, at, is)
	}
}

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

func byNumber(is Identity, number int) int { return is.Number - number }
