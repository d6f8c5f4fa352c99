package amd

import "github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"

// residency computes how long a device has been in a state. The state counter counts ticks only
// while the device is in the state, and the clock counter counts all ticks. The fraction of time
// that the device spent in the state is the increase in the state counter, divided by the increase
// in the clock counter.
type residency struct {
	// time is the time of the last scrape with both counters, or 0.
	time         int64
	state, clock float64
	// begun is the time of the first scrape with both counters.
	begun int64
	// total is the time spent in the state since the first scrape, in seconds.
	total float64
}

// Add implements catalogue.Tracker. The values parameter contains the state counter, followed by
// the clock counter.
func (r *residency) Add(at int64, values []float64) (start int64, total float64, ok bool, verdict catalogue.Verdict) {
	before := *r
	if at <= before.time {
		return 0, 0, false, catalogue.Valid
	}
	r.time, r.state, r.clock = at, values[0], values[1]
	if before.time == 0 {
		if before.begun == 0 {
			r.begun = at
		}
		return r.begun, r.total, before.begun == 0, catalogue.Valid
	}
	ticks, of := r.state-before.state, r.clock-before.clock
	switch {
	case of < 0: // both counters were reset
		return 0, 0, false, catalogue.Valid
	case ticks < 0, ticks > of:
		return 0, 0, false, catalogue.Absurd
	case of == 0:
		return 0, 0, false, catalogue.Valid
	}
	r.total += float64(at-before.time) / 1e9 * (ticks / of)
	return r.begun, r.total, true, catalogue.Valid
}

// Rebase implements catalogue.Tracker.
func (r *residency) Rebase() { r.time = 0 }
