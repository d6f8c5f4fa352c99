package usage

import "time"

// maxRise is the maximum amount by which the time between two frames may exceed the time between
// the arrivals of the frames. Differences occur if the frames are delivered with different delays.
const maxRise = 30 * time.Second

// If frames arrived out of order, and the time between the arrivals of two frames exceeds the time
// between the frames by more than minSetBack, a clock was set back. A smaller difference is treated
// as a delay.
const minSetBack = 5 * time.Second

// pace compares the time between two frames of a board with the time between the arrivals of the
// two frames. Arrival times are measured with the monotonic clock, so arrival times do not depend
// on the wall clock of this machine. The zero value is a pace without any frames, for example after
// a restart. The time of the first frame is always trusted.
//
// If frames come from a backlog or a recording, the frames arrive faster than their times advance,
// but the times are correct. Therefore, a difference between the two durations indicates a wrong
// time only if the previous frames did not arrive faster than their times advanced.
type pace struct {
	arrived time.Time // arrived is when the newest frame arrived.
	// lag is the delay of the newest frame, compared with the frame that had the smallest delay.
	lag time.Duration
	// rise is how much the time between the two newest frames exceeds the time between the arrivals
	// of these frames plus the earlier lag, or 0.
	rise time.Duration
	// backlog is true if the two newest frames arrived more than twice as fast as their times
	// advance.
	backlog bool
	// The intervals field is true if at least two frames have arrived.
	intervals bool
	// The late field is true if older frames arrived after the newest frame.
	late bool
	// earlySince is when the first frame in the current sequence of early frames arrived.
	earlySince time.Time
}

// interval returns the corrected length of the interval between the newest frame and the next
// frame. The t parameter is the time of the next frame, and the length parameter is the difference
// between the times of the two frames. The early result is true if the frames do not come from a
// backlog, and if two amounts exceed the smaller of maxRise and maxGap: how far t is ahead of the
// wall clock, and how much length exceeds the time between the arrivals of the two frames plus the
// lag. If all frames are early for longer than maxGap, a clock was set forward, and the frames are
// no longer treated as early.
func (p *pace) interval(length time.Duration, t int64, now time.Time, maxGap time.Duration) (_ time.Duration, early bool) {
	if p.arrived.IsZero() {
		*p = pace{arrived: now}
		return length, false
	}
	passed := now.Sub(p.arrived)
	if passed < 0 { // The wall clock was set back, and no monotonic clock is available.
		*p = pace{arrived: now}
		return length, false
	}
	rise := length - passed - p.lag
	ahead := time.Duration(t - now.UnixNano())
	live := !p.backlog
	if !p.intervals { // For the second frame, only the frame's time can show whether the frame comes from a backlog.
		live = ahead >= -maxGap
	}
	next := pace{arrived: now, intervals: true, lag: max(0, -rise), rise: max(0, rise), backlog: passed+p.lag < length/2}
	switch limit := min(maxRise, maxGap); {
	case live && rise > limit && ahead > limit && (p.earlySince.IsZero() || now.Sub(p.earlySince) <= maxGap):
		if p.earlySince.IsZero() {
			p.earlySince = now
		}
		return 0, true
	case live && rise > limit: // A clock was set forward.
		length -= rise
		next.rise, next.backlog = 0, false
	case p.late && passed-length > minSetBack && passed <= 2*maxGap: // A clock was set back by less than maxGap.
		length, next.lag = passed, 0
	}
	*p = next
	return length, false
}

// setBack returns the pace after a clock was set back. The lags and the times of earlier frames
// cannot be compared with later frames. However, whether frames come from a backlog does not depend
// on a clock's offset.
func (p *pace) setBack(now time.Time) pace {
	return pace{arrived: now, intervals: p.intervals, backlog: p.backlog}
}

// uncounted returns how much of the time since the newest frame has not been counted in any
// interval.
func (p *pace) uncounted(now time.Time) time.Duration {
	if p.arrived.IsZero() {
		return 0
	}
	return max(0, now.Sub(p.arrived)-p.rise)
}
