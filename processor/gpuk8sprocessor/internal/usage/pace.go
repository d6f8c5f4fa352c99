package usage

import "time"

// maxRise is how far the time between two frames may exceed the time between their arrivals. The
// two times differ if frames are delivered with different delays.
const maxRise = 30 * time.Second

// minSetBack is the limit that a backward clock step must exceed to be distinguished from a delay,
// if older frames have arrived.
const minSetBack = 5 * time.Second

// pace compares the times of a board's frames with the time between their arrivals. The monotonic
// clock measures the arrivals, so they do not depend on the wall clock of this machine. The zero
// pace has no frame, for example after a restart. It trusts the time of the first frame.
//
// Frames from a backlog or a recording arrive faster than their times advance, but their times are
// correct. So a difference indicates a wrong time only if the previous frames arrived as fast as
// their times advanced.
type pace struct {
	arrived time.Time // when the newest frame arrived
	// lag is the delay of the newest frame relative to the frame with the smallest delay.
	lag time.Duration
	// rise is the time between the newest two frames minus the time between their arrivals.
	rise time.Duration
	// backlog is true if the newest frame arrived faster than its time advanced.
	backlog bool
	// intervals is true if a frame arrived before the newest one.
	intervals bool
	// late is true if older frames arrived after the newest one.
	late bool
	// earlySince is when the first of the current sequence of early frames arrived.
	earlySince time.Time
}

// interval returns the length of the interval from the newest frame to the next one. t is the time
// of the next frame, and length is t minus the time of the newest frame. early is true if t is
// ahead of the wall clock and length exceeds the time that passed between the arrivals. If all
// frames stay early for longer than maxGap, a clock was set forward, and the frames count.
func (p *pace) interval(length time.Duration, t int64, now time.Time, maxGap time.Duration) (_ time.Duration, early bool) {
	if p.arrived.IsZero() {
		*p = pace{arrived: now}
		return length, false
	}
	passed := now.Sub(p.arrived)
	if passed < 0 { // the wall clock was set back, and no monotonic clock is available
		*p = pace{arrived: now}
		return length, false
	}
	rise := length - passed - p.lag
	ahead := time.Duration(t - now.UnixNano())
	live := !p.backlog
	if !p.intervals { // only the time itself can show a backlog
		live = ahead >= -maxGap
	}
	next := pace{arrived: now, intervals: true, lag: max(0, -rise), rise: max(0, rise), backlog: passed+p.lag < length/2}
	switch limit := min(maxRise, maxGap); {
	case live && rise > limit && ahead > limit && (p.earlySince.IsZero() || now.Sub(p.earlySince) <= maxGap):
		if p.earlySince.IsZero() {
			p.earlySince = now
		}
		return 0, true
	case live && rise > limit: // a clock was set forward
		length -= rise
		next.rise, next.backlog = 0, false
	case p.late && passed-length > minSetBack && passed <= 2*maxGap: // a clock was set back by less than maxGap
		length, next.lag = passed, 0
	}
	*p = next
	return length, false
}

// uncounted returns the time since the newest frame that does not belong to an interval yet.
func (p *pace) uncounted(now time.Time) time.Duration {
	if p.arrived.IsZero() {
		return 0
	}
	return max(0, now.Sub(p.arrived)-p.rise)
}
