package dcgmsim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestACurveIsLinearBetweenItsPointsAndRepeats(t *testing.T) {
	c := newCurve(point{0, 1}, point{10 * time.Second, 3}, point{10 * time.Second, 0}, point{20 * time.Second, 1})
	for _, tt := range []struct {
		at       time.Duration
		value    float64
		integral float64
	}{
		{0, 1, 0},
		{5 * time.Second, 2, 7.5},
		{10*time.Second - 1, 3, 20},
		{10 * time.Second, 0, 20},
		{15 * time.Second, .5, 21.25},
		{20 * time.Second, 1, 25},
		{45 * time.Second, 2, 57.5},
	} {
		assert.InDelta(t, tt.value, c.at(tt.at), 1e-9, "value at %s", tt.at)
		assert.InDelta(t, tt.integral, c.integral(tt.at), 1e-6, "integral to %s", tt.at)
	}
}

func TestTheIntegralOfACurveIsTheSumOfItsMidpoints(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// All points are at whole milliseconds, so the midpoint rule is exact except in intervals
		// that contain a step.
		period := time.Duration(rapid.IntRange(2, 400).Draw(t, "period")) * time.Millisecond
		points := []point{{0, rapid.Float64Range(0, 1).Draw(t, "first")}}
		for at := time.Duration(0); at < period; {
			at = min(period, at+time.Duration(rapid.IntRange(0, 100).Draw(t, "gap"))*time.Millisecond)
			points = append(points, point{at, rapid.Float64Range(0, 1).Draw(t, "value")})
		}
		c := newCurve(points...)
		end := time.Duration(rapid.IntRange(0, 1500).Draw(t, "end")) * time.Millisecond
		var sum float64
		for at := time.Duration(0); at < end; at += time.Millisecond {
			sum += c.at(at+time.Millisecond/2) * time.Millisecond.Seconds()
		}
		assert.InDelta(t, sum, c.integral(end), 1e-9)
	})
}

func drawGate(t *rapid.T) gate {
	period := time.Duration(rapid.IntRange(1, 300).Draw(t, "period")) * time.Millisecond
	var spans []span
	for range rapid.IntRange(0, 6).Draw(t, "spans") {
		from := time.Duration(rapid.IntRange(0, int(period.Milliseconds())-1).Draw(t, "from")) * time.Millisecond
		length := time.Duration(rapid.IntRange(1, 100).Draw(t, "length")) * time.Millisecond
		spans = append(spans, span{from, min(from+length, period)})
	}
	return newGate(period, spans...)
}

func TestAGateCountsItsTimeAndEdgesExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGate(t)
		end := time.Duration(rapid.IntRange(0, 1200).Draw(t, "end")) * time.Millisecond
		var on time.Duration
		var edges int64
		for at := time.Duration(0); at < end; at += time.Millisecond {
			if g.at(at) {
				on += time.Millisecond
			}
			if !g.at(at) && g.at(at+time.Millisecond) {
				edges++
			}
		}
		assert.Equal(t, on, g.integral(end), "time on")
		assert.Equal(t, edges, g.edges(end), "edges")
	})
}

func TestOverlappingSpansCountOnce(t *testing.T) {
	g := union(
		newGate(10*time.Second, span{0, 4 * time.Second}),
		newGate(10*time.Second, span{2 * time.Second, 5 * time.Second}, span{5 * time.Second, 6 * time.Second}),
	)
	require.Equal(t, []span{{0, 6 * time.Second}}, g.spans)
	assert.Equal(t, 6*time.Second, g.integral(10*time.Second))
}

func TestAGateThatIsAlwaysOnHasNoEdge(t *testing.T) {
	g := newGate(10*time.Second, span{0, 10 * time.Second})
	assert.Equal(t, int64(0), g.edges(95*time.Second))
	assert.Equal(t, 95*time.Second, g.integral(95*time.Second))
}

func TestPulsesAreCutAtTheEnd(t *testing.T) {
	assert.Equal(t, []span{{0, 2}, {3, 5}, {6, 7}}, pulses(0, 7, 3, 2))
}

func TestEventsCountFromAfterTheStartToTheEndInclusive(t *testing.T) {
	e := events{10, []time.Duration{3, 7}}
	for _, tt := range []struct {
		to    time.Duration
		count int64
	}{{0, 0}, {2, 0}, {3, 1}, {7, 2}, {10, 2}, {13, 3}, {27, 6}} {
		assert.Equal(t, tt.count, e.count(tt.to), "to %d", tt.to)
	}
}
