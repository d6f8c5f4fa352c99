package synth

import "github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"

// residency is the time in a state. It is computed from two counters: one counts while the device
// is in the state, the other always.
type residency struct {
	time         int64 // time of the last scrape with both counters, or 0
	state, clock float64
	begun        int64   // when both counters were first exposed
	total        float64 // seconds in the state since then
}

// add adds both counters of one scrape. It reports whether they yield a share of the time since the
// previous scrape, and whether that share is impossible.
func (r *residency) add(at int64, state, clock float64) (tells, absurd bool) {
	before := *r
	if at <= before.time {
		return false, false
	}
	r.time, r.state, r.clock = at, state, clock
	if before.time == 0 {
		if before.begun == 0 {
			r.begun = at
		}
		return before.begun == 0, false
	}
	ticks, of := state-before.state, clock-before.clock
	switch {
	case of < 0: // both counters were reset
		return false, false
	case ticks < 0, ticks > of:
		return false, true
	case of == 0:
		return false, false
	}
	r.total += float64(at-before.time) / 1e9 * (ticks / of)
	return true, false
}

// residency adds the time in a state.
func (e *emitter) residency(s *catalogue.Signal) {
	d := e.a.device
	for _, set := range s.Sets {
		state, has := e.a.get(set[0])
		clock, runs := e.a.get(set[1])
		if !has || !runs {
			continue
		}
		if d.residencies == nil {
			d.residencies = map[*catalogue.Signal]*residency{}
		}
		r := d.residencies[s]
		if r == nil {
			r = &residency{}
			d.residencies[s] = r
		}
		tells, absurd := r.add(e.time, state, clock)
		if tells {
			e.point(s.Metric, s.Part, r.begun, r.total)
		}
		if absurd {
			e.s.stats.Dropped[DropAbsurd]++
		}
		return
	}
}
