package energy

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

const hold = 90 * time.Second

func s(seconds float64) int64 { return int64(seconds * 1e9) }

// at returns the wall-clock time that is the given number of seconds after the epoch.
func at(seconds float64) time.Time { return time.Unix(0, s(seconds)) }

func clock(seconds float64) gpudata.Clock { return gpudata.Clock{Newest: s(seconds)} }

func TestPowerIsHeldUntilTheNextSample(t *testing.T) {
	var c Counter
	assert.True(t, c.Add(s(10), at(10), 100, hold))
	assert.Zero(t, c.Joules)
	assert.True(t, c.Add(s(20), at(20), 50, hold))
	assert.InDelta(t, 1000, c.Joules, 1e-9)
	assert.True(t, c.Add(s(40), at(40), 0, hold))
	assert.InDelta(t, 2000, c.Joules, 1e-9)
	assert.Equal(t, s(10), c.Start)
}

// The values come from one of Kepler's test vectors. If a board uses 500 J at 200 W, and 150 W of
// the power is active power, the active energy is 375 J.
func TestKeplersEnergyVector(t *testing.T) {
	var c Counter
	c.Add(s(10), at(10), 150, hold)
	c.Add(s(12.5), at(12.5), 150, hold)
	assert.InDelta(t, 375, c.Joules, 1e-9)
}

func TestPowerIsHeldForAtMostMaxGap(t *testing.T) {
	var c Counter
	c.Add(s(10), at(10), 100, hold)
	c.Add(s(1000), at(1000), 100, hold)
	assert.InDelta(t, 9000, c.Joules, 1e-9)
}

func TestASampleThatIsNotNewerIsIgnored(t *testing.T) {
	var c Counter
	c.Add(s(100), at(100), 100, hold)
	c.Add(s(110), at(110), 100, hold)
	before := c.Joules
	assert.False(t, c.Add(s(110), at(110), 7, hold))
	assert.False(t, c.Add(s(105), at(105), 7, hold))
	assert.Equal(t, before, c.Joules)
	assert.Equal(t, clock(110).Newest, c.Last.Newest)
}

func TestOneSampleWithAWrongStampAddsNoEnergy(t *testing.T) {
	for _, wrong := range []float64{6_400, 10_071, 96_400} {
		var c Counter
		c.Add(s(10_000), at(10_000), 100, hold)
		assert.False(t, c.Add(s(wrong), at(10_005), 700, hold), wrong)
		assert.True(t, c.Add(s(10_010), at(10_010), 50, hold))
		assert.InDelta(t, 1000, c.Joules, 1e-9, wrong)
		assert.Equal(t, s(10_000), c.Start)
	}
}

func TestAfterAClockWasSetBackTheCounterRestarts(t *testing.T) {
	var c Counter
	c.Add(s(10_000), at(10_000), 100, hold)
	c.Add(s(10_010), at(10_010), 100, hold)
	for second := 20.0; second <= 110; second += 10 {
		assert.False(t, c.Add(s(100+second), at(10_000+second), 50, hold), second)
	}
	assert.True(t, c.Add(s(220), at(10_120), 50, hold))
	assert.Equal(t, Counter{Start: s(220), Last: clock(220), Watts: 50}, c)
}

func TestACounterThatAddCannotProduceIsInvalid(t *testing.T) {
	const highest = 1000
	for _, good := range []Counter{{Start: s(1), Last: clock(3), Watts: 3, Joules: 4}, {Start: 1, Last: gpudata.Clock{Newest: 1}, Watts: highest}, {Start: s(1), Last: clock(2), Joules: highest}} {
		assert.True(t, good.Valid(highest), "%+v", good)
	}
	for _, bad := range []Counter{
		{},
		{Start: 2, Last: gpudata.Clock{Newest: 1}},
		{Start: 1, Last: gpudata.Clock{Newest: 1}, Watts: -1},
		{Start: 1, Last: gpudata.Clock{Newest: 1}, Joules: math.NaN()},
		// Adding more energy to one of the following counters would cause an overflow to infinity.
		{Start: 1, Last: gpudata.Clock{Newest: 1}, Watts: math.MaxFloat64},
		{Start: s(1), Last: clock(2), Joules: highest + 1},
		{Start: 1, Last: gpudata.Clock{Newest: 1}, Joules: 1},
	} {
		assert.False(t, bad.Valid(highest), "%+v", bad)
	}
}
