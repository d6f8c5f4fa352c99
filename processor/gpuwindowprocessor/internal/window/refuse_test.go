package window

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestARefusedSeriesIsAcceptedWhenTheLimitAllowsIt(t *testing.T) {
	set := testSettings()
	set.MaxSeries = 1
	e := New(set, origin)
	give := func(at time.Duration, id string, known *Series) (*Series, Outcome) {
		in := e.Begin(origin.Add(at))
		defer in.End()
		setNode(in, "n1")
		in.SetScope(Scope{})
		in.SetMetric(Metric{Name: "busy"})
		if known != nil && in.CanAdd(known) {
			return known, in.Add(known, origin.Add(at).UnixNano(), 0, Double(1))
		}
		return in.Resolve(&Point{Device: id, About: texts("id", id), Time: origin.Add(at).UnixNano(), Value: Double(1)})
	}
	_, o := give(10*time.Second, "d1", nil)
	require.Equal(t, Accepted, o)
	second, o := give(11*time.Second, "d2", nil)
	require.Equal(t, Refused, o)
	require.NotNil(t, second)
	for i := range 3 {
		at := time.Duration(12+i) * time.Second
		again, o := give(at, "d2", second)
		assert.Equal(t, Refused, o)
		assert.Same(t, second, again)
	}
	in := e.Begin(origin.Add(20 * time.Second))
	in.SetNode("n1")
	assert.Equal(t, NoValue, in.Add(second, origin.Add(20*time.Second).UnixNano(), 0, Double(math.NaN())), "the reason is the same as for other series")
	assert.Equal(t, Future, in.Add(second, origin.Add(time.Hour).UnixNano(), 0, Double(1)))
	in.End()
	assert.Equal(t, [Outcomes]uint64{Accepted: 1, Refused: 4, NoValue: 1, Future: 1}, e.Stats().Samples)

	drain(e, origin.Add(time.Minute))
	_, more := e.Expire(origin.Add(20*time.Minute), nil, 100)
	require.False(t, more)
	taken, o := give(20*time.Minute, "d2", second)
	assert.Equal(t, Accepted, o)
	assert.NotSame(t, second, taken)
	_, o = give(20*time.Minute+time.Second, "d2", taken)
	assert.Equal(t, Accepted, o)
	third, o := give(20*time.Minute+2*time.Second, "d3", second)
	assert.Equal(t, Refused, o, "all refused samples share a series")
	assert.Same(t, second, third)
}
