package synth

import (
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
)

// podTexts determines whether the driver version and the serial number on rows that name a pod come
// from the exporter itself. Up to version 4.8.2, dcgm-exporter adds pod labels to its own labels
// without a prefix. The exporter's own labels appear on all rows of a host, including rows without
// a holder.
type podTexts struct {
	of    *catalogue.Exporter
	place Place
	// If bare is true, some rows name no pod. If bareSerial is true, at least one of the rows
	// without a pod has a serial number.
	bare, bareSerial bool
	// drivers contains the distinct driver versions (including "") of the rows that name no pod. If
	// every row names a pod, drivers contains the versions of all rows.
	drivers []string
	// serials maps each serial number on a row with a pod to the row's board, or to "" if several
	// boards have the same serial number.
	serials map[string]string
	// silent is true if at least one row with a pod has no serial number.
	silent bool
}

// readPodTexts collects the driver versions and serial numbers from the rows of one scrape. If no
// row that names a pod has a driver version or a serial number, readPodTexts returns nil.
func readPodTexts(rows []observation) []podTexts {
	if !slices.ContainsFunc(rows, func(o observation) bool { return o.row.namesPod && (o.row.driver != "" || o.row.serial != "") }) {
		return nil
	}
	var out []podTexts
	var last *Row
	for i := range rows {
		if r := rows[i].row; r != last {
			last = r
			podTextsOf(&out, r).add(r)
		}
	}
	return out
}

func podTextsOf(all *[]podTexts, r *Row) *podTexts {
	k := slices.IndexFunc(*all, func(t podTexts) bool { return t.of == r.of && t.place == r.place })
	if k < 0 {
		k = len(*all)
		*all = append(*all, podTexts{of: r.of, place: r.place})
	}
	return &(*all)[k]
}

func (t *podTexts) add(r *Row) {
	if !r.namesPod && !t.bare {
		t.bare, t.drivers = true, nil
	}
	if r.namesPod != t.bare && !slices.Contains(t.drivers, r.driver) {
		t.drivers = append(t.drivers, r.driver)
	}
	switch {
	case !r.namesPod:
		t.bareSerial = t.bareSerial || r.serial != ""
		return
	case r.serial == "":
		t.silent = true
		return
	case t.serials == nil:
		t.serials = map[string]string{}
	}
	board := r.device.board()
	if of, known := t.serials[r.serial]; known && of != board {
		board = ""
	}
	t.serials[r.serial] = board
}

// driver returns the driver version of a row, or "" if the version may be a label of a pod.
func (t *podTexts) driver(r *Row) string {
	if r.namesPod && (!slices.Contains(t.drivers, r.driver) || !t.bare && len(t.drivers) > 1) {
		return ""
	}
	return r.driver
}

// serial returns the serial number of a row, or "" if the number may be a label of a pod. The
// number may be a pod label if two boards have the same number, if the board has several numbers,
// or if other rows have no number.
func (t *podTexts) serial(r *Row) string {
	if !r.namesPod || r.serial == "" {
		return r.serial
	}
	board := r.device.board()
	if t.serials[r.serial] != board || t.bare && !t.bareSerial || !t.bare && t.silent {
		return ""
	}
	for serial, of := range t.serials {
		if serial != r.serial && of == board {
			return ""
		}
	}
	return r.serial
}
