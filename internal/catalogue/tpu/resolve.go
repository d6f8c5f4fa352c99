package tpu

import (
	"slices"

	cat "github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
)

// fromWorkload contains the names of the fields that the workload reports. In the rows of fields
// that the workload reports, accelerator_id contains the chip's number within the entire TPU slice.
// In other rows, accelerator_id contains the chip's number within the node, and every pod on the
// node has a copy of the row.
var fromWorkload = []string{duty, used, total}

// machine contains the chip numbers in the rows of one machine.
type machine struct {
	// The chips field contains the chip numbers within the node and the identities of the chips.
	// The slice field contains the chip numbers within the TPU slice. Both lists are sorted and
	// have no duplicates.
	chips []chip
	slice []int
	// holder is one of the holders of the chips. If the chips have several holders, shared is true.
	holder *cat.Holder
	shared bool
}

type chip struct {
	number   int
	identity *cat.Identity
}

// resolve maps the chip numbers within the TPU slice to the chip numbers within the node. If the
// sorted lists of both kinds of chip numbers have the same length, the chip numbers are matched in
// order. Otherwise, the rows with chip numbers within the TPU slice are unresolved. If the machine
// has several holders, the holder in a copied row is ambiguous.
func resolve(rows []*cat.Reading) {
	machines := map[string]*machine{}
	for _, r := range rows {
		id, number, _ := parseID(r.Identity.Board)
		m := machines[id]
		if m == nil {
			m = &machine{}
			machines[id] = m
		}
		m.add(r, number)
	}
	for _, r := range rows {
		id, number, _ := parseID(r.Identity.Board)
		m := machines[id]
		if !isFromWorkload(r) {
			r.AmbiguousHolder = m.shared
			continue
		}
		if len(m.slice) != len(m.chips) {
			r.Unresolved = true
			continue
		}
		at, _ := slices.BinarySearch(m.slice, number)
		r.Identity = m.chips[at].identity
	}
}

// add adds a row's chip and holder.
func (m *machine) add(r *cat.Reading, number int) {
	if isFromWorkload(r) {
		if at, known := slices.BinarySearch(m.slice, number); !known {
			m.slice = slices.Insert(m.slice, at, number)
		}
	} else if at, known := slices.BinarySearchFunc(m.chips, number, func(c chip, number int) int { return c.number - number }); !known {
		m.chips = slices.Insert(m.chips, at, chip{number, r.Identity})
	}
	if r.Holder != nil {
		m.shared = m.shared || m.holder != nil && !m.holder.Same(*r.Holder)
		m.holder = r.Holder
	}
}

func isFromWorkload(r *cat.Reading) bool {
	return slices.Contains(fromWorkload, r.Field.Name)
}
