package amd

import "github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"

// detail is what resolve needs to know about a row.
type detail struct {
	index string // of the device on its host
	// bySerial identifies the device by its serial number and partition. It is nil if the row lacks
	// one of them.
	bySerial *catalogue.Identity
}

// resolve finds the devices of rows whose identity several devices share: some releases use one
// UUID for several devices, or have no label for the partitioning of a board. Such devices are
// identified by serial number and partition. Rows for which that is impossible are unresolved,
// because otherwise the values of two devices would be mixed.
func resolve(rows []*catalogue.Reading) {
	shared := sharedDevices(rows)
	if len(shared) == 0 {
		return
	}
	for _, r := range rows {
		if d := detailOf(r.Identity); d.bySerial != nil && shared[deviceOf(r)] {
			r.Identity = d.bySerial
		}
	}
	shared = sharedDevices(rows)
	for _, r := range rows {
		r.Unresolved = shared[deviceOf(r)]
	}
}

// detailOf returns the detail that identify set, or an empty one.
func detailOf(is *catalogue.Identity) detail {
	if d, ok := is.Detail.(*detail); ok {
		return *d
	}
	return detail{}
}

type device struct{ board, instance string }

func deviceOf(r *catalogue.Reading) device { return device{r.Identity.Board, r.Identity.Instance} }

// sharedDevices returns the devices whose rows have several indexes.
func sharedDevices(rows []*catalogue.Reading) map[device]bool {
	shared, indexes := map[device]bool{}, map[device]string{}
	seen := map[*catalogue.Identity]bool{} // rows with the same labels share their identity
	for _, r := range rows {
		if seen[r.Identity] {
			continue
		}
		seen[r.Identity] = true
		d, index := deviceOf(r), detailOf(r.Identity).index
		if first, known := indexes[d]; !known {
			indexes[d] = index
		} else if index != first {
			shared[d] = true
		}
	}
	return shared
}
