package window

import (
	"bytes"
	"encoding/gob"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func quantileOf(samples ...float64) *quantile {
	f := &quantile{}
	for _, v := range samples {
		f.add(observation{value: v}, 0)
	}
	return f
}

func TestAQuantileOfNoSamplesIsAbsent(t *testing.T) {
	_, ok := quantileOf().result(0.5)
	assert.False(t, ok)
}

func TestTheShareOfSamplesBelowAQuantileIsCorrect(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		samples := rapid.SliceOfN(rapid.Float64Range(-1, 1), 1, 300).Draw(t, "samples")
		q := rapid.Float64Range(0, 1).Draw(t, "quantile")
		got, ok := quantileOf(samples...).result(q)
		require.True(t, ok)
		require.GreaterOrEqual(t, got, slices.Min(samples))
		require.LessOrEqual(t, got, slices.Max(samples))
		below, above := 0, 0
		for _, v := range samples {
			if v < got {
				below++
			}
			if v > got {
				above++
			}
		}
		n := float64(len(samples) - 1)
		require.LessOrEqual(t, float64(below), q*n+1+1e-9)
		require.LessOrEqual(t, float64(above), (1-q)*n+1+1e-9)
	})
}

func TestTheQuantileOfEqualSamplesIsExactlyThatSample(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v, q := rapid.Float64().Draw(t, "sample"), rapid.Float64Range(0, 1).Draw(t, "quantile")
		got, ok := quantileOf(v, v, v, v).result(q)
		require.True(t, ok)
		require.Equal(t, v, got)
	})
}

func TestAQuantileWithTooManySamplesIsAbsent(t *testing.T) {
	f := quantileOf(slices.Repeat([]float64{1}, MaxQuantileSamples)...)
	_, ok := f.result(0.5)
	assert.True(t, ok)
	assert.False(t, f.add(observation{value: 2}, 0.5))
	_, ok = f.result(0.5)
	assert.False(t, ok)
	assert.Len(t, f.Samples, MaxQuantileSamples)

	var stored bytes.Buffer
	require.NoError(t, gob.NewEncoder(&stored).Encode(f))
	restored := quantileOf()
	require.NoError(t, gob.NewDecoder(&stored).Decode(restored))
	_, ok = restored.result(0.5)
	assert.False(t, ok, "no result after a restart")

	f.reset()
	assert.True(t, f.add(observation{value: 3}, 0.5))
	got, ok := f.result(0.5)
	assert.True(t, ok, "the next window has a result")
	assert.InDelta(t, 3, got, 0)
}
