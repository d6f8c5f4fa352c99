package componenthelper

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

// The edit distance is zero between equal names, is symmetric, and satisfies the triangle
// inequality.
func TestTheDistanceIsAMetric(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "abc", 3},
		{"hw.power", "hw.pwoer", 2},
		{"hw.power", "hw.powers", 1},
		{"kitten", "sitting", 3},
	} {
		assert.Equal(t, tt.want, distance(tt.a, tt.b), "%q to %q", tt.a, tt.b)
	}
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[ab.]{0,6}`)
		a, b, c := word.Draw(t, "a"), word.Draw(t, "b"), word.Draw(t, "c")
		assert.Equal(t, a == b, distance(a, b) == 0)
		assert.Equal(t, distance(a, b), distance(b, a))
		assert.LessOrEqual(t, distance(a, c), distance(a, b)+distance(b, c))
	})
}
