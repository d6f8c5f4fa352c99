package verify

import (
	"math"
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Verdict is the result of a comparison or the answer to a question.
type Verdict string

// Possible verdicts. Alone means that only one source has the value. Undecided means that the data
// does not answer the question.
const (
	Agrees    Verdict = "agrees"
	Differs   Verdict = "differs"
	Alone     Verdict = "one source"
	Yes       Verdict = "yes"
	No        Verdict = "no"
	Undecided Verdict = "undecided"
)

// Comparison contains the values of one key from all sources.
type Comparison struct {
	Key
	Unit    string
	Figures map[string]Figure // keyed by source
	Verdict Verdict
	// Apart is the largest difference between the values of two sources, in Unit.
	Apart float64
}

// tolerance is the allowed difference between two sources. Small differences are normal, because
// the sources are read at different times, and nvidia-smi rounds values.
type tolerance struct{ absolute, relative float64 }

// tolerances maps units to tolerances. For a counter, the tolerance applies to the rate.
var tolerances = map[string]tolerance{
	"1":       {0.05, 0},
	"W":       {5, 0.05},
	"J":       {5, 0.05}, // the compared value is the rate per second, in watts
	"Cel":     {3, 0},
	"By":      {64 << 20, 0.02},
	"By/s":    {1e6, 0.15},
	"Hz":      {50e6, 0.05},
	"s":       {0.05, 0}, // The compared value is the rate per second, a fraction of time.
	"{state}": {0.2, 0},  // The compared value is the mean, a fraction of the samples.
}

// For units that are not in tolerances, such as counts, only rounding errors are allowed.
var otherwise = tolerance{1e-9, 1e-9}

// The apart function returns the difference between two figures, and whether the difference is
// within the tolerance. Half of the larger spread is added to the unit's tolerance.
func apart(unit string, a, b Figure) (distance float64, within bool) {
	t, ok := tolerances[unit]
	if !ok {
		t = otherwise
	}
	distance = math.Abs(a.Value - b.Value)
	return distance, distance <= max(t.absolute, t.relative*max(math.Abs(a.Value), math.Abs(b.Value)))+max(a.Spread, b.Spread)/2
}

// compare compares the values of each key from all sources. The result is sorted by device, metric
// and attribute.
func compare(sources map[string]Readings) []Comparison {
	byKey := map[Key]*Comparison{}
	for source, readings := range sources {
		for key, samples := range readings {
			m := metrics[key.Metric]
			f, ok := figure(m, samples)
			if !ok {
				continue
			}
			c := byKey[key]
			if c == nil {
				c = &Comparison{Key: key, Unit: m.Unit, Figures: map[string]Figure{}}
				if m.Kind == signal.Counter {
					c.Unit += "/s"
				}
				byKey[key] = c
			}
			c.Figures[source] = f
		}
	}
	out := make([]Comparison, 0, len(byKey))
	for _, c := range byKey {
		c.judge(metrics[c.Metric].Unit)
		out = append(out, *c)
	}
	slices.SortFunc(out, func(a, b Comparison) int { return a.compare(b.Key) })
	return out
}

func (c *Comparison) judge(unit string) {
	c.Verdict = Alone
	for a, x := range c.Figures {
		for b, y := range c.Figures {
			if a >= b {
				continue
			}
			distance, within := apart(unit, x, y)
			c.Apart = max(c.Apart, distance)
			switch {
			case !within:
				c.Verdict = Differs
			case c.Verdict == Alone:
				c.Verdict = Agrees
			}
		}
	}
}
