package events

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// StoredVersion is the version of the format of [Stored].
const StoredVersion = 1

// Stored is the state of a place that is kept across restarts. After a change, the new state is
// stored before the events about the change are sent.
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

// Store returns the state of the place with the given [stage.Key] for encoding as JSON, or nil if
// there is no such place.
func (t *Tracker) Store(key string) any {
	return t.places.Stored(key, func(p *place) any { return t.stored(p) })
}

func (t *Tracker) stored(p *place) *Stored {
	s := &Stored{Version: StoredVersion, Place: p.at, Known: p, Folds: t.outlet.of(p.at)}
	slices.SortFunc(s.Folds, func(a, b storedFold) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Device, b.Device), cmp.Compare(a.Own[1], b.Own[1]))
	})
	return s
}

// Restore restores the stored state of a place.
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
	if !t.set.Holders {
		for _, k := range p.Devices {
			k.HoldersKnown, k.Holdings = false, nil
		}
	}
	// Earlier versions did not store Clock.Newest or Arrived.
	p.Clock.Newest = p.newest()
	p.Arrived = cmp.Or(p.Arrived, p.Clock.Newest)
	p.at = s.Place
	fits := t.places.With(s.Place, time.Unix(0, p.Arrived), func(into *place) { *into = *p })
	if !fits {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for url := range s.Known.Exporters {
		if s.Place.Node != "" {
			t.exporters[url] = s.Place
		}
	}
	t.outlet.restore(s)
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

// Places returns the places for which the tracker has state.
func (t *Tracker) Places() []gpudata.Place {
	var places []gpudata.Place
	t.places.Each(func(_ string, p *place) { places = append(places, p.at) })
	slices.SortFunc(places, gpudata.Place.Compare)
	return places
}
