package store

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestATrackHasTheHighestValueOfEachStep(t *testing.T) {
	var k track
	for i, v := range []float32{1, 5, 3, 2, 4, 9} {
		k.add([]int64{10, 12, 19, 20, 31, 15}[i], v, 10) // the last value arrives too late
	}
	d := Device{tracks: [numTracked]track{k}}
	past := func() map[int64]float32 {
		out := map[int64]float32{}
		d.Past(0, func(at int64, v float32) { out[at] = v })
		return out
	}
	assert.Equal(t, map[int64]float32{19: 5, 20: 2, 31: 4}, past())
	d.tracks[0].expire(20)
	assert.Equal(t, map[int64]float32{31: 4}, past())
	d.Past(numTracked, func(int64, float32) { t.Error("this gauge has no past") })
}

func TestSpanEndsAtAMissingWindow(t *testing.T) {
	holder := func(pod string, ends ...int64) *Holder {
		h := &Holder{Place: Place{Pod: pod}}
		for _, end := range ends {
			h.ends, h.lengths = append(h.ends, end*1e9), append(h.lengths, 10)
		}
		return h
	}
	a, b := holder("a", 10, 20, 50, 60), holder("b", 20)
	d := Device{holders: map[Place]*Holder{a.Place: a, b.Place: b, {Pod: "c"}: holder("c")}}
	assert.Equal(t, []Span{{Pod: "a", To: 20e9}, {Pod: "b", From: 10e9, To: 20e9}, {Pod: "a", From: 40e9, To: 60e9}}, d.Spans())
}
