package usage

import "time"

// maxRise is how much further than the time that passed the times of two frames may be apart, at
// most. Frames that are delivered late make such differences.
const maxRise = 30 * time.Second

// minSetBack is the smallest step of a clock that is told from a delay, where older frames arrived.
const minSetBack = 5 * time.Second

// pace compares the times of a board's frames with the time that passes between their arrivals. That
// time is measured by the monotonic clock, so that it is also right if the clock of this machine is
// set. The zero pace knows no frame, as after a restart: the times of the frames then count.
//
// Frames of a backlog or of a recording arrive faster than their times pass. Their times are right, so
// a difference shows a wrong time only if the frames before it arrived as they were made.
type pace struct {
	arrived time.Time // when the newest frame arrived
	// lag is how much later than the most punctual frame the newest one arrived.
	lag time.Duration
	// rise is how much further the newest frame is ahead of the one before than time passed.
	rise time.Duration
	// backlog says that the newest frame arrived faster than its time passed.
	backlog bool
	// intervals says that there was a frame before the newest one.
	intervals bool
	// late says that older frames arrived after the newest one.
	late bool
	// earlySince is when the first of the frames arrived that are all early.
	earlySince time.Time
}

// interval returns the length of the interval between the newest frame and one that is by the given
// length newer, and whether the frame is early: its time is ahead of the wall clock and of the time that
// passed. If all frames are early for longer than maxGap, a clock was set forward, and they count.
func (p *pace) interval(length time.Duration, t int64, now time.Time, maxGap time.Duration) (_ time.Duration, early bool) {
	if p.arrived.IsZero() {
		*p = pace{arrived: now}
		return length, false
	}
	passed := now.Sub(p.arrived)
	if passed < 0 { // without a monotonic clock, and the wall clock was set back
		*p = pace{arrived: now}
		return length, false
	}
	rise := length - passed - p.lag
	ahead := time.Duration(t - now.UnixNano())
	live := !p.backlog
	if !p.intervals { // nothing shows a backlog but the time itself
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

// uncounted returns how much time passed since the newest frame that no interval has.
func (p *pace) uncounted(now time.Time) time.Duration {
	if p.arrived.IsZero() {
		return 0
	}
	return max(0, now.Sub(p.arrived)-p.rise)
}
