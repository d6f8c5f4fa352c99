package catalogue

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTwoNumberingsOfDevicesAreJoinedByRank(t *testing.T) {
	var r Ranks
	for _, n := range []int{3, 1, 2, 1} {
		r.Add(Identity{Board: "chip", Number: n}, false)
	}
	for _, n := range []int{412, 404, 404} {
		r.Add(Identity{Number: n}, true)
	}
	_, joined := r.Own(Identity{Number: 404}, true)
	assert.False(t, joined, "one numbering has three devices and the other two")
	own, joined := r.Own(Identity{Board: "chip", Number: 2}, false)
	assert.True(t, joined)
	assert.Equal(t, 2, own.Number)

	r.Add(Identity{Number: 405}, true)
	for renumbered, want := range map[int]int{404: 1, 405: 2, 412: 3} {
		own, joined = r.Own(Identity{Number: renumbered}, true)
		assert.True(t, joined)
		assert.Equal(t, want, own.Number)
	}
	_, joined = r.Own(Identity{Number: 500}, true)
	assert.False(t, joined, "no row had this number")
}

func TestRowsThatAreCopiedToEveryHolderTellTheOnlyOne(t *testing.T) {
	copied, own := &Field{Copied: true}, &Field{}
	var r Ranks
	r.Hold(Holder{Namespace: "ns", Pod: "p"})
	r.Hold(Holder{Namespace: "ns", Pod: "p"})
	assert.False(t, r.Untold(copied))
	r.Hold(Holder{Namespace: "ns", Pod: "q"})
	r.Hold(Holder{Namespace: "ns", Pod: "q"})
	assert.True(t, r.Untold(copied))
	assert.False(t, r.Untold(own))
}
