package usage

import "time"

// maxRise is how much longer the time between two frames may be than the time between their
// arrivals. Delayed delivery of frames causes such differences.
const maxRise = 30 * time.Second

// minSetBack is the smallest clock step that is distinguished from a delay, if older frames
// arrived.
const minSetBack = 5 * time.Second

// pace compares the times of a board's frames with the time between their arrivals, which is
// measured by the monotonic clock and so does not depend on the wall clock of this machine. The
// zero pace has no frame, as after a restart; the times of the frames are then trusted.
//
// Frames of a backlog or of a recording arrive faster than their times advance, and their times are
// right. So a difference indicates a wrong time only if the frames before it arrived at the pace at
// which they were made.
type pace struct {
	arrived time.Time // when the newest frame arrived
	// lag is how much later the newest frame arrived than the frame with the smallest delay.
	lag time.Duration
	// rise is how much longer the time between the newest two frames is than the time between
	// their arrivals.
	rise time.Duration
	// backlog is true if the newest frame arrived faster than its time advanced.
	backlog bool
	// intervals is true if there was a frame before the newest one.
	intervals bool
	// late is true if older frames arrived after the newest one.
	late bool
	// earlySince is when the first of the current sequence of early frames arrived.
	earlySince time.Time
}

// interval returns the length of the interval from the newest frame to the next one. t is the next
// frame's time, and length is how far it is ahead of the newest frame's. early is true if t is
// ahead of the wall clock and length exceeds the time that passed between the arrivals. If all
// frames stay early for longer than maxGap, a clock was set forward, and the frames count.
func (p *pace) interval(length time.Duration, t int64, now time.Time, maxGap time.Duration) (_ time.Duration, early bool) {
	if p.arrived.IsZero() {
		*p = pace{arrived: now}
		return length, false
	}
	passed := now.Sub(p.arrived)
	if passed < 0 { // there is no monotonic clock, and the wall clock was set back
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
