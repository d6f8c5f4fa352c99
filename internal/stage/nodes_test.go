package stage

import (
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// counter is the state of a node in these tests.
type counter struct {
	key string
	n   float64
}

func newCounters(limit int) *Nodes[counter] {
	return NewNodes(limit, func(key string) *counter { return &counter{key: key} })
}

func at(node string) gpudata.Place { return gpudata.Place{Cluster: "c", Node: node} }

func count(c *counter) { c.n++ }

var begin = time.Unix(1000, 0)

func TestEachNodeHasItsOwnStateFromItsFirstUse(t *testing.T) {
	nodes := newCounters(10)
	assert.False(t, nodes.Visit(at("a"), count), "a visit adds no node")
	for _, node := range []string{"a", "b", "a"} {
		assert.True(t, nodes.With(at(node), begin, count))
	}
	got := map[string]float64{}
	nodes.Each(func(key string, c *counter) {
		assert.Equal(t, key, c.key)
		got[key] = c.n
	})
	assert.Equal(t, map[string]float64{"c/a": 2, "c/b": 1}, got)
	assert.Equal(t, 2, nodes.Len())
}

func TestOnlyNewNodesAreRefusedAtTheLimit(t *testing.T) {
	nodes := newCounters(1)
	assert.True(t, nodes.With(at("a"), begin, count))
	assert.False(t, nodes.With(at("b"), begin, count))
	assert.True(t, nodes.With(at("a"), begin, count))
	nodes.Sweep(begin, time.Minute, func(string, *counter, time.Time) bool { return true })
	assert.True(t, nodes.With(at("b"), begin, count), "the table is below its limit again")
}

func TestARestoredNodeIsFoundByItsPlace(t *testing.T) {
	for key, place := range map[string]gpudata.Place{
		"/rack-1/n1":                 {Node: "rack-1/n1"},
		"arn:aws:eks:1:cluster/a/n1": {Cluster: "arn:aws:eks:1:cluster/a", Node: "n1"},
	} {
		nodes := newCounters(1)
		assert.True(t, nodes.Restore(key, begin, count))
		assert.True(t, nodes.With(place, begin, func(c *counter) { assert.InDelta(t, 1, c.n, 0, key) }))
		assert.Equal(t, 1, nodes.Len())
	}
}

func TestASweepDeletesTheNodesThatItsFunctionSelects(t *testing.T) {
	nodes := newCounters(10)
	nodes.With(at("old"), begin, count)
	nodes.With(at("new"), begin.Add(time.Hour), count)
	now := begin.Add(2 * time.Hour)
	unused := func(_ string, _ *counter, used time.Time) bool { return now.Sub(used) > 90*time.Minute }
	nodes.Sweep(now, time.Minute, unused)
	assert.False(t, nodes.Visit(at("old"), count))
	assert.True(t, nodes.Visit(at("new"), count))
	nodes.With(at("old"), now, func(c *counter) { assert.Zero(t, c.n, "its state is new") })
}

func TestASweepRunsOncePerInterval(t *testing.T) {
	nodes := newCounters(10)
	nodes.With(at("a"), begin, count)
	sweeps := 0
	for _, tt := range []struct {
		after time.Duration
		total int
		why   string
	}{
		{0, 1, "the first one"},
		{59 * time.Second, 1, "too early"},
		{time.Minute, 2, "the interval has passed"},
		{-time.Hour, 3, "the clock was set back"},
		{-time.Hour + time.Second, 3, "too early"},
	} {
		nodes.Sweep(begin.Add(tt.after), time.Minute, func(string, *counter, time.Time) bool {
			sweeps++
			return false
		})
		assert.Equal(t, tt.total, sweeps, tt.why)
	}
}

func TestAStoredValueIsEncodedWhileItsNodeIsLocked(t *testing.T) {
	nodes := newCounters(10)
	nodes.With(at("a"), begin, count)
	values := map[string]int{"n": 1}
	stored := nodes.Stored(Key(at("a")), func(*counter) any { return values })
	values["n"] = 2
	text, err := stored.(encoded).MarshalJSON()
	require.NoError(t, err)
	assert.JSONEq(t, `{"n":1}`, string(text))
	assert.Nil(t, nodes.Stored(Key(at("a")), func(*counter) any { return nil }), "nothing to store")
	assert.Nil(t, nodes.Stored(Key(at("b")), func(*counter) any { return 1 }), "no such node")
	_, err = nodes.Stored(Key(at("a")), func(*counter) any { return math.NaN() }).(encoded).MarshalJSON()
	assert.ErrorContains(t, err, "NaN", "JSON cannot represent NaN")
}

// This test uses two nodes at the same time. If the nodes shared a lock, the test would never end.
func TestNodesDoNotWaitForEachOther(t *testing.T) {
	nodes := newCounters(10)
	a, b := make(chan struct{}), make(chan struct{})
	var using sync.WaitGroup
	using.Go(func() { nodes.With(at("a"), begin, func(*counter) { close(a); <-b }) })
	using.Go(func() { nodes.With(at("b"), begin, func(*counter) { close(b); <-a }) })
	using.Wait()
	assert.Equal(t, 2, nodes.Len())
}

// Functions that use the same node never run concurrently, and the result of each function is kept,
// even if nodes are swept at the same time. `make test-long` runs this test with the race detector.
func TestUsesOfOneNodeRunOneAfterTheOther(t *testing.T) {
	nodes := newCounters(100)
	const users, uses, places = 8, 500, 3
	var mu sync.Mutex
	swept := 0.0
	var using sync.WaitGroup
	for u := range users {
		using.Go(func() {
			for i := range uses {
				node := at(fmt.Sprint((u + i) % places))
				assert.True(t, nodes.With(node, begin, count))
				nodes.Stored(Key(node), func(c *counter) any { return c.n })
				nodes.Sweep(begin.Add(time.Duration(i)), 1, func(_ string, c *counter, _ time.Time) bool {
					mu.Lock()
					defer mu.Unlock()
					swept += c.n
					return true
				})
			}
		})
	}
	using.Wait()
	nodes.Each(func(_ string, c *counter) { swept += c.n })
	assert.InDelta(t, float64(users*uses), swept, 0)
}
