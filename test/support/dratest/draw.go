package dratest

import (
	"math/bits"

	"pgregory.net/rapid"
)

// sampledFrom draws one of the values, each with the same probability. rapid.SampledFrom prefers
// the first values, so the last ones rarely occur.
func sampledFrom[T any](t *rapid.T, label string, values ...T) T {
	return rapid.Custom(func(t *rapid.T) T {
		i := 0
		for range bits.Len(uint(len(values))) + 4 { // so that the effect of the remainder is small
			i *= 2
			if rapid.Bool().Draw(t, "bit") {
				i++
			}
		}
		return values[i%len(values)]
	}).Draw(t, label)
}
