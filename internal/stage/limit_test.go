package stage

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestALimitCountsTheItemsOfAllNodes(t *testing.T) {
	l := NewLimit(3)
	assert.True(t, l.Take())
	assert.False(t, l.TakeAll(3), "all or none")
	assert.True(t, l.TakeAll(2))
	assert.False(t, l.Take())
	l.Free(2)
	assert.True(t, l.Take())
	assert.Equal(t, 2, l.Used())
}

func TestALimitIsReachedButNeverExceeded(t *testing.T) {
	const limit, users = 1000, 4
	l := NewLimit(limit)
	var taken [users]int
	var taking sync.WaitGroup
	for u := range users {
		taking.Go(func() {
			for range limit {
				if l.Take() {
					taken[u]++
				}
			}
		})
	}
	taking.Wait()
	assert.Equal(t, limit, taken[0]+taken[1]+taken[2]+taken[3])
	assert.Equal(t, limit, l.Used())
}
