package synth

import (
	"slices"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// maxGap is how long all samples of a place may be older than the newest one. After that time, a
// clock was set back.
const maxGap = 90 * time.Second

// placeState is the state of a place.
type placeState struct {
	clock gpudata.Clock
	// before is the newest sample time before that of the last scrape, or 0.
	before int64
	// era is incremented when the time of the place starts again.
	era     uint32
	devices []*Device
	// changed is true if the state of one of the devices changed since it was last stored.
	changed bool
}

// home returns the state of a place.
func (s *Synthesizer) home(p Place) *placeState {
	h := s.places[p]
	if h == nil {
		h = &placeState{}
		s.places[p] = h
	}
	return h
}

// Arrived sets the arrival time of the current batch, with a monotonic reading. Without it, no
// sample counts as in the future, and samples that are older than others always count as late.
func (s *Synthesizer) Arrived(now time.Time) {
	if s.now.IsZero() {
		s.began = now
	}
	s.now, s.arrived = now, now.Sub(s.began)
}

// future reports whether a sample time is too far ahead of the wall clock.
func (s *Synthesizer) future(at int64) bool { return !s.now.IsZero() && gpudata.Ahead(at, s.now) }

// observePlaces advances the clocks of the places of a scrape.
func (s *Synthesizer) observePlaces(at int64) {
	for _, a := range s.active {
		h := a.device.home
		newest := h.clock.Newest
		switch h.clock.Observe(at, s.now, maxGap) {
		case gpudata.SetBack:
			h.era++
			h.before = 0
			s.stats.ClocksSetBack++
		default:
			if h.clock.Newest != newest {
				h.before = newest
			}
		}
	}
}

// noteChange marks the state of a device as changed, so that it is stored.
func (s *Synthesizer) noteChange(d *Device) {
	if !d.home.changed {
		d.home.changed = true
		s.changed = append(s.changed, d.Place)
	}
}

// TakeChanged returns the places whose State changed since the last call.
func (s *Synthesizer) TakeChanged() []Place {
	changed := s.changed
	for _, p := range changed {
		if h := s.places[p]; h != nil {
			h.changed = false
		}
	}
	s.changed = nil
	return changed
}

// sweep removes devices that no scrape has named for idleLimit, and then places without devices.
// Rows refer to devices, so removing devices starts a new epoch. sweep uses the arrival times of
// scrapes, because the clocks of nodes differ.
func (s *Synthesizer) sweep() {
	if s.arrived-s.swept < idleLimit/4 {
		return
	}
	s.swept = s.arrived
	s.forgetMIGs()
	before := len(s.devices)
	for k, d := range s.devices {
		if s.arrived-d.arrived > idleLimit {
			delete(s.devices, k)
			if d.keeps() {
				s.noteChange(d)
			}
			d.home.devices = slices.DeleteFunc(d.home.devices, func(o *Device) bool { return o == d })
		}
	}
	if len(s.devices) != before {
		for id, boards := range s.boards {
			boards = slices.DeleteFunc(boards, func(d *Device) bool { return s.arrived-d.arrived > idleLimit })
			if s.boards[id] = boards; len(boards) == 0 {
				delete(s.boards, id)
			}
		}
		s.epoch++
		clear(s.targets)
		for p, h := range s.places {
			if len(h.devices) == 0 {
				delete(s.places, p)
			}
		}
	}
	s.sweepSources()
}
