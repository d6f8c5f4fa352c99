package dcgmsim

import (
	"cmp"
	"slices"
	"sort"
	"time"
)

// point is a point on a curve.
type point struct {
	at    time.Duration
	value float64
}

// curve is a periodic, piecewise linear function of time. Two points at the same time form a step:
// from that time on, the value of the second point applies.
type curve struct {
	period time.Duration
	points []point
	// before[i] is the integral of the curve from 0 to points[i].at. The unit of the integral is
	// the unit of the value multiplied by seconds.
	before []float64
}

// newCurve returns a curve through the points, which must be sorted by time. The first point must
// be at time 0, and the last point at the end of the period.
func newCurve(points ...point) curve {
	c := curve{
		period: points[len(points)-1].at,
		points: points,
		before: make([]float64, len(points)),
	}
	for i := 1; i < len(points); i++ {
		a, b := points[i-1], points[i]
		c.before[i] = c.before[i-1] + (a.value+b.value)/2*(b.at-a.at).Seconds()
	}
	return c
}

// segment returns the index of the last point at or before u, which is a time within the period.
func (c *curve) segment(u time.Duration) int {
	return sort.Search(len(c.points), func(i int) bool { return c.points[i].at > u }) - 1
}

// The at method returns the curve's value at time u, which must not be negative.
func (c *curve) at(u time.Duration) float64 {
	u %= c.period
	i := c.segment(u)
	a, b := c.points[i], c.points[i+1]
	return a.value + (b.value-a.value)*float64(u-a.at)/float64(b.at-a.at)
}

// integral returns the integral of the curve from 0 to u. The unit of the integral is the unit of
// the value multiplied by seconds.
func (c *curve) integral(u time.Duration) float64 {
	periods := float64(u / c.period)
	u %= c.period
	i := c.segment(u)
	part := c.before[i] + (c.points[i].value+c.at(u))/2*(u-c.points[i].at).Seconds()
	return periods*c.before[len(c.before)-1] + part
}

// span is the half-open interval [from, to).
type span struct {
	from, to time.Duration
}

// pulses divides the interval between the first two arguments into steps of equal length. The
// result contains one span at the beginning of each step. The last argument is the length of each
// span.
func pulses(from, to, step, on time.Duration) []span {
	var out []span
	for at := from; at < to; at += step {
		out = append(out, span{at, min(at+on, to)})
	}
	return out
}

// gate is a periodic function of time that is either on or off. Times are integers in nanoseconds,
// so the integral is exact. The zero gate is always off.
type gate struct {
	period time.Duration
	spans  []span
	// before[i] is how long the gate is on between 0 and spans[i].from. The last element of the
	// before slice is how long the gate is on in each period.
	before []time.Duration
}

// newGate returns a gate that is on within the spans. The spans may overlap and must be within [0,
// period].
func newGate(period time.Duration, spans ...span) gate {
	sorted := slices.Clone(spans)
	slices.SortFunc(sorted, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	g := gate{period: period}
	for _, s := range sorted {
		if last := len(g.spans) - 1; last >= 0 && s.from <= g.spans[last].to {
			g.spans[last].to = max(g.spans[last].to, s.to)
			continue
		}
		g.spans = append(g.spans, s)
	}
	g.before = make([]time.Duration, len(g.spans)+1)
	for i, s := range g.spans {
		g.before[i+1] = g.before[i] + s.to - s.from
	}
	return g
}

// The after method returns the index of the first span that starts after u, which is a time within
// the period.
func (g *gate) after(u time.Duration) int {
	return sort.Search(len(g.spans), func(i int) bool { return g.spans[i].from > u })
}

// The at method reports whether the gate is on at time u, which must not be negative.
func (g *gate) at(u time.Duration) bool {
	if len(g.spans) == 0 {
		return false
	}
	u %= g.period
	i := g.after(u) - 1
	return i >= 0 && u < g.spans[i].to
}

// integral returns how long the gate is on between 0 and u.
func (g *gate) integral(u time.Duration) time.Duration {
	if len(g.spans) == 0 {
		return 0
	}
	periods := int64(u / g.period)
	u %= g.period
	total := time.Duration(periods * int64(g.before[len(g.spans)]))
	if i := g.after(u) - 1; i >= 0 {
		total += g.before[i] + min(u, g.spans[i].to) - g.spans[i].from
	}
	return total
}

// edges returns how often the gate switches from off to on in (0, u].
func (g *gate) edges(u time.Duration) int64 {
	if len(g.spans) == 0 {
		return 0
	}
	perPeriod := int64(len(g.spans))
	local := int64(g.after(u % g.period))
	if g.spans[0].from == 0 {
		// An edge at the start of a period is counted at the end of the previous period. If the
		// gate is still on at the end of the previous period, there is no edge.
		local--
		if g.spans[len(g.spans)-1].to == g.period {
			perPeriod--
		}
	}
	return int64(u/g.period)*perPeriod + local
}

// union returns a gate that is on while at least one of the given gates is on. All given gates that
// are not zero must have the same period.
func union(gates ...gate) gate {
	var spans []span
	var period time.Duration
	for _, g := range gates {
		spans = append(spans, g.spans...)
		period = max(period, g.period)
	}
	return newGate(period, spans...)
}

// events contains the times of events that repeat in each period.
type events struct {
	period time.Duration
	times  []time.Duration
}

// count returns the number of events in (0, u].
func (e *events) count(u time.Duration) int64 {
	if len(e.times) == 0 {
		return 0
	}
	local := u % e.period
	n := sort.Search(len(e.times), func(i int) bool { return e.times[i] > local })
	return int64(u/e.period)*int64(len(e.times)) + int64(n)
}
