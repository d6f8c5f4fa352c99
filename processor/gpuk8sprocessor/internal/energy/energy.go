// Package energy integrates power over the times of its samples.
package energy

import (
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// Counter is the energy of one series. The zero Counter has seen nothing.
type Counter struct {
	// Start is the time of the first sample, in nanoseconds since the epoch. Last follows the
	// times of all.
	Start int64         `json:"start"`
	Last  gpudata.Clock `json:"last"`
	// Watts is the newest sample.
	Watts float64 `json:"watts"`
	// Joules is the energy from Start to Last.
	Joules float64 `json:"joules"`
}

// Add takes in a sample at time t, in nanoseconds since the epoch. The power
// before it is held until t, for at most hold: a longer gap is energy that nobody
// saw. It returns false, and changes nothing, for a sample that is in the future or not newer than
// the last one. If all samples stay older than the newest one for longer than hold, by the wall
// clock now, a clock was set back, and the counter starts again from zero at t.
func (c *Counter) Add(t int64, now time.Time, watts float64, hold time.Duration) bool {
	before := c.Last.Newest
	switch verdict := c.Last.Observe(t, now, hold); {
	case verdict == gpudata.SetBack, c.Start == 0 && verdict == gpudata.OnTime:
		*c = Counter{Start: t, Last: c.Last}
	case verdict != gpudata.OnTime || t == before:
		return false
	default:
		c.Joules += c.Watts * time.Duration(min(t-before, int64(hold))).Seconds()
	}
	c.Watts = watts
	return true
}

// Valid reports whether the counter can be one that Add made of samples up to a
// highest power in watts.
func (c *Counter) Valid(highest float64) bool {
	if c.Start <= 0 || c.Last.Newest < c.Start || !(c.Watts >= 0 && c.Watts <= highest) {
		return false
	}
	// A millionth for the rounding of many additions.
	most := highest * time.Duration(c.Last.Newest-c.Start).Seconds() * (1 + 1e-6)
	return c.Joules >= 0 && c.Joules <= most
}
