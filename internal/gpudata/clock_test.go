package gpudata

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const gap = 90 * time.Second

func second(s int64) time.Time { return time.Unix(1_000_000+s, 0) }

// observe passes a sample time to a clock. The sample time and the wall clock time are in seconds.
func observe(c *Clock, sample, wall int64) Verdict {
	return c.Observe(second(sample).UnixNano(), second(wall), gap)
}

func TestASampleAMinuteAheadIsUsedAndOneFurtherAheadIsDropped(t *testing.T) {
	var c Clock
	assert.Equal(t, OnTime, observe(&c, 0, 0))
	assert.Equal(t, OnTime, observe(&c, 70, 10))
	assert.Equal(t, Future, observe(&c, 86400, 20))
	assert.Equal(t, OnTime, observe(&c, 71, 71))
}

func TestTimeStartsAgainOnceAllSamplesStayedBehindForLongerThanTheGap(t *testing.T) {
	var c Clock
	observe(&c, 3600, 3600)
	for s := int64(0); s <= 90; s += 10 {
		require.Equal(t, Behind, observe(&c, s, 3610+s), "second %d", s)
	}
	assert.Equal(t, SetBack, observe(&c, 100, 3710))
	assert.Equal(t, OnTime, observe(&c, 110, 3720))
}

func TestTimeStartsAgainWhereTheWallClockWasSetBackAsWell(t *testing.T) {
	var c Clock
	observe(&c, 3600, 3600)
	assert.Equal(t, Behind, observe(&c, 3595, 3605))
	for s := int64(0); s <= 90; s += 10 {
		require.Equal(t, Behind, observe(&c, s, s), "second %d", s)
	}
	assert.Equal(t, SetBack, observe(&c, 100, 100))
}

func TestLateSamplesBetweenNewerOnesNeverSetTimeBack(t *testing.T) {
	var c Clock
	for s := int64(3600); s < 7200; s += 30 {
		require.Equal(t, OnTime, observe(&c, s, s))
		require.Equal(t, Behind, observe(&c, s-3600, s+1))
	}
}

// The expected verdicts are computed from all samples. The expected verdict for a sample that is
// older than the newest sample is Behind, unless only older samples have arrived for longer than
// the gap.
func TestVerdictsAreThoseOfTheRule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c Clock
		newest := int64(-1 << 40)
		var behind []int64 // wall clock times of the samples that arrived after the newest sample
		for wall := int64(0); wall < 3600; wall += rapid.Int64Range(1, 120).Draw(t, "step") {
			sample := wall + rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(-300, 120), rapid.Int64Range(-7200, 7200)).Draw(t, "offset")
			before := c
			got := observe(&c, sample, wall)
			switch {
			case sample > wall+60:
				require.Equal(t, Future, got)
				require.Equal(t, before, c, "a sample from the future changes nothing")
			case sample > newest:
				require.Equal(t, OnTime, got)
				newest, behind = sample, nil
			case sample == newest:
				require.Equal(t, OnTime, got)
			case len(behind) > 0 && wall-behind[0] > int64(gap/time.Second):
				require.Equal(t, SetBack, got)
				newest, behind = sample, nil
			default:
				require.Equal(t, Behind, got)
				behind = append(behind, wall)
			}
			require.LessOrEqual(t, c.Newest, second(wall+60).UnixNano())
		}
	})
}

// After the gap, correct samples are accepted again, regardless of what was stored and received
// before.
func TestCorrectSamplesAreAcceptedAgainAfterTheGap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Clock{Newest: rapid.Int64().Draw(t, "newest")}
		for range rapid.IntRange(0, 5).Draw(t, "before") {
			observe(&c, rapid.Int64Range(-1_000_000, 1_000_000).Draw(t, "sample"), rapid.Int64Range(-7200, 7200).Draw(t, "wall"))
		}
		text, err := json.Marshal(c)
		require.NoError(t, err)
		var restored Clock
		require.NoError(t, json.Unmarshal(text, &restored))
		for name, c := range map[string]*Clock{"went on": &c, "restored": &restored} {
			step, silent := rapid.Int64Range(1, 80).Draw(t, "step"), true
			for s := int64(0); s < 600; s += step {
				switch observe(c, s, s) {
				case Behind:
					require.True(t, silent, "%s: a sample is behind again at %d s", name, s)
					require.LessOrEqual(t, s, int64(gap/time.Second)+step, name)
				case Future:
					require.Fail(t, "a correct sample is not from the future", name)
				default:
					silent = false
				}
			}
			require.False(t, silent, name)
		}
	})
}
