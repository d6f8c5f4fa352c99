// Package energy integrates power over the times of its samples.
package energy

import "time"

// Counter is the energy of one series. The zero Counter has seen nothing.
type Counter struct {
	// Start is the time of the first sample, Last that of the newest;
	// nanoseconds since the epoch.
	Start int64 `json:"start"`
	Last  int64 `json:"last"`
	// Watts is the newest sample.
	Watts float64 `json:"watts"`
	// Joules is the energy from Start to Last.
	Joules float64 `json:"joules"`
}

// Add takes in a sample at time t, in nanoseconds since the epoch. The power
// before it is held until t, for at most hold: a longer gap is energy that nobody
// saw. It reports false for a sample that is not newer than the last one, which
// changes nothing. When time runs backwards by more than hold, the counter begins
// anew at t.
func (c *Counter) Add(t int64, watts float64, hold time.Duration) bool {
	dt := t - c.Last
	switch {
	case c.Start == 0 || dt < -int64(hold):
		*c = Counter{Start: t}
	case dt <= 0:
		return false
	default:
		c.Joules += c.Watts * time.Duration(min(dt, int64(hold))).Seconds()
	}
	c.Last, c.Watts = t, watts
	return true
}

// Valid reports whether the counter can be one that Add made of samples up to a
// highest power in watts.
func (c *Counter) Valid(highest float64) bool {
	if c.Start <= 0 || c.Last < c.Start || !(c.Watts >= 0 && c.Watts <= highest) {
		return false
	}
	// A millionth for the rounding of many additions.
	most := highest * time.Duration(c.Last-c.Start).Seconds() * (1 + 1e-6)
	return c.Joules >= 0 && c.Joules <= most
}
