package gpudata

import (
	"encoding/json"
	"strconv"
	"time"
)

// MaxAhead is the maximum time by which a sample may be ahead of the wall clock.
const MaxAhead = time.Minute

// Ahead reports whether a sample time, in nanoseconds since the epoch, is too far ahead of the wall
// clock. A sample that is too far ahead must be dropped, because later samples would otherwise
// appear to be late.
func Ahead(t int64, now time.Time) bool { return t > now.Add(MaxAhead).UnixNano() }

// Clock tracks the sample times of a place, or of another source whose samples are compared with
// earlier samples. The zero Clock has not observed any samples. The JSON form of a Clock is the
// value of Newest, so that a Clock can be stored and restored.
type Clock struct {
	// Newest is the newest sample time, in nanoseconds since the epoch.
	Newest int64
	// behindSince is the wall clock time at which the first sample arrived that is older than
	// Newest. If no sample that is older than Newest has arrived since Newest was set, behindSince
	// is zero. The value of behindSince is not stored, because it is unknown which samples arrived
	// while the process was down.
	behindSince time.Time
}

// Verdict is how a Clock classifies a sample.
type Verdict uint8

const (
	// OnTime samples are not older than any sample that was observed earlier.
	OnTime Verdict = iota
	// Behind samples are older than the newest sample. Behind samples arrived late, or their source
	// lags.
	Behind
	// Future samples are too far ahead of the wall clock and must be dropped.
	Future
	// A SetBack sample shows that the clock was set back. A clock is assumed to have been set back
	// if samples that are older than the newest sample have arrived for longer than the maximum
	// gap, and no newer sample has arrived in that time. The caller must not compare a SetBack
	// sample or later samples with times that were stored before the SetBack sample.
	SetBack
)

// Observe classifies a sample time. The second argument is the wall clock time. If samples that are
// older than the newest sample have arrived for longer than the maximum gap, and no newer sample
// has arrived in that time, Observe assumes that the clock was set back. If the wall clock time has
// a monotonic clock reading, the gap is measured correctly even if the wall clock changes.
func (c *Clock) Observe(t int64, now time.Time, maxGap time.Duration) Verdict {
	switch {
	case Ahead(t, now):
		return Future
	case c.Newest == 0 || t > c.Newest:
		c.Newest, c.behindSince = t, time.Time{}
		return OnTime
	case t == c.Newest:
		return OnTime
	case c.behindSince.IsZero() || now.Before(c.behindSince): // the second condition is true if the wall clock was also set back
		c.behindSince = now
	case now.Sub(c.behindSince) > maxGap:
		*c = Clock{Newest: t}
		return SetBack
	}
	return Behind
}

// MarshalJSON implements json.Marshaler.
func (c Clock) MarshalJSON() ([]byte, error) { return strconv.AppendInt(nil, c.Newest, 10), nil }

// UnmarshalJSON implements json.Unmarshaler.
func (c *Clock) UnmarshalJSON(text []byte) error {
	*c = Clock{}
	return json.Unmarshal(text, &c.Newest)
}
