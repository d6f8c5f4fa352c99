// Package energy calculates energy by integrating power over time.
package energy

import (
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// Counter accumulates the energy of one series. The zero value is a Counter without samples.
type Counter struct {
	// Start is the time of the first sample, in nanoseconds since the epoch. Last tracks the sample
	// times and detects clock changes.
	Start int64         `json:"start"`
	Last  gpudata.Clock `json:"last"`
	// Watts is the power of the newest sample.
	Watts float64 `json:"watts"`
	// Joules is the energy from Start to the newest sample.
	Joules float64 `json:"joules"`
}

// Add adds a sample with the time t, in nanoseconds since the epoch. The power of the previous
// sample counts until t, but for no longer than hold. If the gap is longer than hold, the rest of
// the gap adds no energy. The now parameter is the current time. If t is too far in the future, or
// not after the newest sample, Add returns false and ignores the sample. If sample times stay
// before the newest sample for longer than hold, a clock was set back. After a clock was set back,
// the counter restarts at zero, with t as the start.
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

// Valid reports whether the values in the counter are possible if the power never exceeds the given
// number of watts.
func (c *Counter) Valid(highest float64) bool {
	if c.Start <= 0 || c.Last.Newest < c.Start || !(c.Watts >= 0 && c.Watts <= highest) {
		return false
	}
	// Allow a relative error of one part per million, because rounding errors accumulate over many
	// additions.
	most := highest * time.Duration(c.Last.Newest-c.Start).Seconds() * (1 + 1e-6)
	return c.Joules >= 0 && c.Joules <= most
}
