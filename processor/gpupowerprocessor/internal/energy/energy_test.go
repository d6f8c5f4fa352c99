package energy

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

const hold = 90 * time.Second

func s(seconds float64) int64 { return int64(seconds * 1e9) }

func TestPowerIsHeldUntilTheNextSample(t *testing.T) {
	var c Counter
	assert.True(t, c.Add(s(10), 100, hold))
	assert.Zero(t, c.Joules)
	assert.True(t, c.Add(s(20), 50, hold))
	assert.InDelta(t, 1000, c.Joules, 1e-9)
	assert.True(t, c.Add(s(40), 0, hold))
	assert.InDelta(t, 2000, c.Joules, 1e-9)
	assert.Equal(t, s(10), c.Start)
}

// Kepler's energy vector: of 500 J at 150 of 200 W, 375 J are active.
func TestKeplersEnergyVector(t *testing.T) {
	var c Counter
	c.Add(s(10), 150, hold)
	c.Add(s(12.5), 150, hold)
	assert.InDelta(t, 375, c.Joules, 1e-9)
}

func TestAGapIsHeldOnlySoLong(t *testing.T) {
	var c Counter
	c.Add(s(10), 100, hold)
	c.Add(s(1000), 100, hold)
	assert.InDelta(t, 9000, c.Joules, 1e-9)
}

func TestASampleThatIsNotNewerChangesNothing(t *testing.T) {
	var c Counter
	c.Add(s(100), 100, hold)
	c.Add(s(110), 100, hold)
	before := c
	assert.False(t, c.Add(s(110), 7, hold))
	assert.False(t, c.Add(s(105), 7, hold))
	assert.Equal(t, before, c)
}

func TestTimeThatRunsBackwardsBeginsAnew(t *testing.T) {
	var c Counter
	c.Add(s(10_000), 100, hold)
	c.Add(s(10_010), 100, hold)
	assert.True(t, c.Add(s(100), 50, hold))
	assert.Equal(t, Counter{Start: s(100), Last: s(100), Watts: 50}, c)
}

func TestWhatAddCannotMakeIsNotValid(t *testing.T) {
	const highest = 1000
	for _, good := range []Counter{{Start: s(1), Last: s(3), Watts: 3, Joules: 4}, {Start: 1, Last: 1, Watts: highest}, {Start: s(1), Last: s(2), Joules: highest}} {
		assert.True(t, good.Valid(highest), "%+v", good)
	}
	for _, bad := range []Counter{
		{},
		{Start: 2, Last: 1},
		{Start: 1, Last: 1, Watts: -1},
		{Start: 1, Last: 1, Joules: math.NaN()},
		// Whoever takes these on ends at infinity.
		{Start: 1, Last: 1, Watts: math.MaxFloat64},
		{Start: s(1), Last: s(2), Joules: highest + 1},
		{Start: 1, Last: 1, Joules: 1},
	} {
		assert.False(t, bad.Valid(highest), "%+v", bad)
	}
}
