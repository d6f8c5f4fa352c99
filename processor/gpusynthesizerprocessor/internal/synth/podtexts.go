package synth

import (
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
)

// podTexts decides whether the driver's version and the serial number on rows that name a pod are the
// exporter's: up to 4.8.2 it prints the labels that users give pods among its own. Its own labels
// are on all rows of a host, also on those of devices that nobody holds.
type podTexts struct {
	of    *catalogue.Exporter
	place Place
	// bare is true if there are rows that name no pod, bareSerial if one of them has a serial number.
	bare, bareSerial bool
	// drivers are the versions, each once, of the rows that name no pod, else of all rows. They may be
	// empty.
	drivers []string
	// serials are the boards by the serial numbers that rows with a pod have. An empty name is several
	// boards.
	serials map[string]string
	// silent is true if a row with a pod has no serial number.
	silent bool
}

// readPodTexts collects what rows of one scrape show. It returns nil if no row that names a pod has one
// of the texts.
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

// driver returns the version of the driver that a row shows, empty if it may be a pod's label.
func (t *podTexts) driver(r *Row) string {
	if r.namesPod && (!slices.Contains(t.drivers, r.driver) || !t.bare && len(t.drivers) > 1) {
		return ""
	}
	return r.driver
}

// serial returns the serial number that a row shows, empty if it may be a pod's label: a number that
// two boards have, one of several of a board, or one that other rows do not have.
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
