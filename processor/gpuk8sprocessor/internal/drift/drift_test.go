package drift

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const day = 24 * time.Hour

func TestAnEmptySketchHasNoValues(t *testing.T) {
	var s Sketch
	bytes, n := s.Quantile(0.95)
	assert.Zero(t, bytes)
	assert.Zero(t, n)
}

func TestAPercentileIsWithinOnePercent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(0, 1<<40), 1, 300).Draw(t, "values")
		q := rapid.Float64Range(0.5, 1).Draw(t, "q")
		var s Sketch
		for i, v := range values {
			s.Add(int64(i)*int64(time.Minute), v, day)
		}
		got, n := s.Quantile(q)
		slices.Sort(values)
		rank := min(int(q*float64(len(values)))+1, len(values))
		want := float64(values[rank-1])
		if r := q * float64(len(values)); r == float64(int(r)) {
			want = float64(values[int(r)-1])
		}
		if want < smallest {
			want = 0
		}
		if n != uint64(len(values)) || got < want*0.99 || got > want*1.0101 {
			t.Fatalf("quantile %v of %d values is %v, not %v", q, n, got, want)
		}
	})
}

func TestWhatIsOlderThanTheWindowIsForgotten(t *testing.T) {
	var s Sketch
	s.Add(0, 8<<30, day)
	s.Add(int64(23*time.Hour), 1<<30, day)
	bytes, n := s.Quantile(1)
	assert.InEpsilon(t, 8<<30, bytes, 0.01)
	assert.EqualValues(t, 2, n)
	s.Add(int64(24*time.Hour), 1<<30, day)
	bytes, n = s.Quantile(1)
	assert.InEpsilon(t, 1<<30, bytes, 0.01)
	assert.EqualValues(t, 2, n)
}

func TestAClockThatIsSetBackDoesNotFreezeTheWindow(t *testing.T) {
	var s Sketch
	s.Add(int64(365*day), 8<<30, day)
	s.Add(int64(day), 1<<30, day)
	bytes, n := s.Quantile(1)
	assert.InEpsilon(t, 1<<30, bytes, 0.01)
	assert.EqualValues(t, 1, n)
	s.Add(int64(day-time.Hour), 1<<30, day)
	_, n = s.Quantile(1)
	assert.EqualValues(t, 2, n, "a little late counts in the newest slot")
}

func TestASketchStaysSmall(t *testing.T) {
	var s Sketch
	for i := range 100_000 {
		s.Add(int64(i)*int64(time.Minute), int64(i)<<20, day)
	}
	assert.LessOrEqual(t, len(s.Slots), slots)
	for _, slot := range s.Slots {
		assert.LessOrEqual(t, len(slot.Bins), 60)
	}
	require.NoError(t, s.Validate())
}

// A window that was made longer finds slots of the shorter one.
func TestASketchStaysSmallWhenItsWindowGrows(t *testing.T) {
	var s Sketch
	at := int64(0)
	for _, window := range []time.Duration{time.Hour, day, 30 * day} {
		for range 40 {
			at += int64(window) / slots
			s.Add(at, 1<<30, window)
			require.NoError(t, s.Validate())
		}
	}
}

func TestASketchSurvivesItsEncoding(t *testing.T) {
	var s, back Sketch
	for i := range 100 {
		s.Add(int64(i)*int64(time.Hour), int64(i)<<28, day)
	}
	text, err := json.Marshal(s)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &back))
	require.NoError(t, back.Validate())
	assert.Equal(t, s, back)
}

func TestASketchThatCannotBeIsRefused(t *testing.T) {
	for name, s := range map[string]Sketch{
		"too many slots":        {Slots: make([]Slot, slots+2)},
		"a slot without bins":   {Slots: []Slot{{Start: 1}}},
		"slots out of order":    {Slots: []Slot{{Start: 2, Bins: map[int]uint32{}}, {Start: 1, Bins: map[int]uint32{}}}},
		"a bin below the first": {Slots: []Slot{{Bins: map[int]uint32{-1: 1}}}},
		"a bin above the last":  {Slots: []Slot{{Bins: map[int]uint32{maxBin + 1: 1}}}},
	} {
		assert.Error(t, s.Validate(), name)
	}
}
