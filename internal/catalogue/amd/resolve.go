package amd

import "github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"

// detail contains the data from a row that the resolve function needs.
type detail struct {
	// index is the device's index on its host.
	index string
	// bySerial identifies the device by its serial number and partition. If the row lacks the
	// serial number or the partition, bySerial is nil.
	bySerial *catalogue.Identity
}

// resolve corrects the rows of devices that have the same identity. Some releases expose the same
// UUID for several devices, or do not expose a board's partitioning. Devices with the same identity
// are distinguished by their serial numbers and partitions. If two devices cannot be distinguished,
// resolve marks the rows of both devices as unresolved, so that their values are not mixed.
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

// detailOf returns the detail that the identify function stored, or the zero detail if there is
// none.
func detailOf(is *catalogue.Identity) detail {
	if d, ok := is.Detail.(*detail); ok {
		return *d
	}
	return detail{}
}

type device struct{ board, instance string }

func deviceOf(r *catalogue.Reading) device { return device{r.Identity.Board, r.Identity.Instance} }

// sharedDevices returns the devices whose rows contain different indexes.
func sharedDevices(rows []*catalogue.Reading) map[device]bool {
	shared, indexes := map[device]bool{}, map[device]string{}
	seen := map[*catalogue.Identity]bool{} // rows with the same labels share an Identity
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
