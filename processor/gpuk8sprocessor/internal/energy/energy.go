// Package energy integrates power over time.
package energy

import (
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// Counter accumulates the energy of one series. The zero Counter has no samples.
type Counter struct {
	// Start is the time of the first sample, in nanoseconds since the epoch. Last tracks the times
	// of all samples.
	Start int64         `json:"start"`
	Last  gpudata.Clock `json:"last"`
	// Watts is the power of the newest sample.
	Watts float64 `json:"watts"`
	// Joules is the energy from Start to Last.
	Joules float64 `json:"joules"`
}

// Add adds a sample at time t, in nanoseconds since the epoch. The previous power applies until t,
// but for at most hold. The rest of a longer gap adds no energy. If the sample is in the future or
// not newer than the last one, Add returns false and does not change the counter. now is the wall
// clock. If all samples stay older than the newest one for longer than hold, a clock was set back,
// and the counter restarts from zero at t.
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

// Valid reports whether samples of at most highest watts can result in this counter.
func (c *Counter) Valid(highest float64) bool {
	if c.Start <= 0 || c.Last.Newest < c.Start || !(c.Watts >= 0 && c.Watts <= highest) {
		return false
	}
	// Allow one part per million for rounding in many additions.
	most := highest * time.Duration(c.Last.Newest-c.Start).Seconds() * (1 + 1e-6)
	return c.Joules >= 0 && c.Joules <= most
}
