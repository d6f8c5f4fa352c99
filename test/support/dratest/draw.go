package dratest

import (
	"math/bits"

	"pgregory.net/rapid"
)

// sampledFrom draws one of the values. All values have about the same probability, unlike with
// rapid.SampledFrom, which prefers the first values and rarely returns the last ones.
func sampledFrom[T any](t *rapid.T, label string, values ...T) T {
	return rapid.Custom(func(t *rapid.T) T {
		i := 0
		for range bits.Len(uint(len(values))) + 4 { // extra bits, so that the remainder below is almost uniformly distributed
			i *= 2
			if rapid.Bool().Draw(t, "bit") {
				i++
			}
		}
		return values[i%len(values)]
	}).Draw(t, label)
}
