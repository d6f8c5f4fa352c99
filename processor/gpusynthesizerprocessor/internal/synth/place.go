package synth

import (
	"maps"
	"slices"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// If all samples of a place have been older than the newest known sample for longer than maxGap,
// the clock of the place is assumed to have been set back.
const maxGap = 90 * time.Second

// placeState is the state of a place.
type placeState struct {
	clock gpudata.Clock
	// The scrapes map contains the scrape times of each source that exposes devices of the place.
	scrapes map[*Source]scrapeTimes
	// era is incremented when the clock of the place is found to have been set back.
	era     uint32
	devices []*Device
	// changed is true if the state of any of the devices has changed since the state was last
	// stored.
	changed bool
}

// scrapeTimes contains the sample times of the last scrape of a source and of the scrape before it,
// or 0 if there is no such scrape.
type scrapeTimes struct{ before, last int64 }

// observeScrape records a scrape of a source. Sources that have had no data for longer than
// idleLimit are removed.
func (h *placeState) observeScrape(src *Source, at int64) {
	times, known := h.scrapes[src]
	if at <= times.last {
		return
	}
	if !known {
		maps.DeleteFunc(h.scrapes, func(_ *Source, t scrapeTimes) bool { return at-t.last > int64(idleLimit) })
		if h.scrapes == nil {
			h.scrapes = map[*Source]scrapeTimes{}
		}
	}
	h.scrapes[src] = scrapeTimes{times.last, at}
}

// home returns the state of a place, and creates it if needed.
func (s *node) home(p Place) *placeState {
	h := s.places[p]
	if h == nil {
		h = &placeState{}
		s.places[p] = h
	}
	return h
}

// observePlaces advances the clock of each place in a scrape of a source.
func (s *node) observePlaces(src *Source, at int64) {
	for _, a := range s.active {
		h := a.device.home
		if h.clock.Observe(at, s.now, maxGap) == gpudata.SetBack {
			h.era++
			clear(h.scrapes)
			s.stats.ClocksSetBack++
		}
		h.observeScrape(src, at)
	}
}

// noteChange records that the state of a device has changed and must be stored.
func (s *node) noteChange(d *Device) {
	if !d.home.changed {
		d.home.changed = true
		s.changed = append(s.changed, d.Place)
	}
}

// takeChanged moves the list of changed places from the node to the batch.
func (s *node) takeChanged() {
	for _, p := range s.changed {
		if h := s.places[p]; h != nil {
			h.changed = false
		}
	}
	s.Batch.changed = append(s.Batch.changed, s.changed...)
	s.changed = nil
}

// sweep removes devices that no scrape has named for longer than idleLimit, and places without
// devices. Ages are measured by the arrival times of scrapes, because the clocks of nodes may
// differ. The result is true if sweep removed a device.
func (s *node) sweep() (removed bool) {
	s.forgetMIGs()
	for k, d := range s.devices {
		if s.arrived-d.arrived <= idleLimit {
			continue
		}
		delete(s.devices, k)
		s.uncount(d)
		d.removed, removed = true, true
		if d.mustBeStored() {
			s.noteChange(d)
		}
		d.home.devices = slices.DeleteFunc(d.home.devices, func(o *Device) bool { return o == d })
		if boards := s.boards[d.ID]; slices.Contains(boards, d) {
			s.boards[d.ID] = slices.DeleteFunc(boards, func(o *Device) bool { return o == d })
			s.Synthesizer.boards.remove(d.ID, d.Place)
		}
	}
	maps.DeleteFunc(s.boards, func(_ string, boards []*Device) bool { return len(boards) == 0 })
	maps.DeleteFunc(s.places, func(_ Place, h *placeState) bool { return len(h.devices) == 0 })
	s.sweepClaims()
	return removed
}
