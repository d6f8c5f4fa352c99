package events

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// StoredVersion is the version of [Stored].
const StoredVersion = 1

// Stored is the state of a place that is kept across restarts. It is stored before the events that
// changed it are sent.
type Stored struct {
	Version int           `json:"version"`
	Place   gpudata.Place `json:"place"`
	Known   *place        `json:"known"`
	Folds   []storedFold  `json:"folds,omitempty"`
}

type storedFold struct {
	equal
	fold
}

// Store returns the state of a place, or nil if there is none. The state shares memory with the
// tracker, so encode it before you use the tracker again.
func (t *Tracker) Store(at gpudata.Place) *Stored {
	p := t.places[at]
	if p == nil {
		return nil
	}
	s := &Stored{Version: StoredVersion, Place: at, Known: p}
	for k, f := range t.outlet.folds {
		if k.place == at {
			s.Folds = append(s.Folds, storedFold{k, *f})
		}
	}
	slices.SortFunc(s.Folds, func(a, b storedFold) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Device, b.Device), cmp.Compare(a.Own[1], b.Own[1]))
	})
	return s
}

// Restore uses the stored state of a place.
func (t *Tracker) Restore(s *Stored) error {
	if s.Known == nil {
		return errors.New("known is missing")
	}
	for _, k := range s.Known.Devices {
		if k == nil || empty(k.Errors) || empty(k.States) || empty(k.Throttles) {
			return errors.New("known has an empty device, or an empty entry of one")
		}
	}
	if empty(s.Known.Exporters) {
		return errors.New("known has an empty exporter")
	}
	p := s.Known
	// States of older versions lack these fields.
	p.Clock.Newest = p.newest()
	p.Arrived = cmp.Or(p.Arrived, p.Clock.Newest)
	t.places[s.Place] = p
	for url := range s.Known.Exporters {
		if s.Place.Node != "" {
			t.exporters[url] = s.Place
		}
	}
	for _, f := range s.Folds {
		f.place = s.Place
		t.outlet.folds[f.equal] = &f.fold
	}
	return nil
}

// empty reports whether a value in the map is nil.
func empty[T any](m map[string]*T) bool {
	for _, v := range m {
		if v == nil {
			return true
		}
	}
	return false
}

// Places returns the places with state.
func (t *Tracker) Places() []gpudata.Place {
	return slices.SortedFunc(maps.Keys(t.places), gpudata.Place.Compare)
}
