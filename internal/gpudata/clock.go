package gpudata

import (
	"encoding/json"
	"strconv"
	"time"
)

// MaxAhead is how far the time of a sample may be ahead of the wall clock.
const MaxAhead = time.Minute

// Ahead reports whether the time of a sample, in nanoseconds since the epoch, is too far ahead of
// the wall clock. Such a sample is dropped; otherwise all later samples would look late.
func Ahead(t int64, now time.Time) bool { return t > now.Add(MaxAhead).UnixNano() }

// Clock follows the sample times of one place, or of anything else whose samples are compared with
// earlier ones. The zero Clock has seen no sample. The JSON form of a Clock is Newest, so it can be
// stored and restored.
type Clock struct {
	// Newest is the newest sample time, in nanoseconds since the epoch.
	Newest int64
	// behindSince is the arrival time of the first of the latest samples, all of which are older
	// than Newest. It is zero if the last sample was not older. It is not stored, because the
	// samples that arrived while the process was down are unknown.
	behindSince time.Time
}

// Verdict is a Clock's classification of a sample.
type Verdict uint8

const (
	// OnTime samples are at least as new as all earlier ones.
	OnTime Verdict = iota
	// Behind samples are older than the newest one: they are late, or their source lags.
	Behind
	// Future samples are too far ahead of the wall clock and must be dropped.
	Future
	// SetBack is the sample at which time restarts: for longer than the maximum gap, all samples
	// were older than the newest one, so a clock was set back. The caller must not compare this
	// sample and later ones with times that it stored before.
	SetBack
)

// Observe classifies a sample time. now is the wall clock, and maxGap is how long samples may stay
// behind. If now has a monotonic reading, the duration is measured with it, so steps of the wall
// clock do not matter.
func (c *Clock) Observe(t int64, now time.Time, maxGap time.Duration) Verdict {
	switch {
	case Ahead(t, now):
		return Future
	case c.Newest == 0 || t > c.Newest:
		c.Newest, c.behindSince = t, time.Time{}
		return OnTime
	case t == c.Newest:
		return OnTime
	case c.behindSince.IsZero() || now.Before(c.behindSince): // or the wall clock was also set back
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
