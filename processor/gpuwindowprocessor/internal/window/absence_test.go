package window

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// tierSettings returns the settings of a collector in a tier. The only rule counts the increases in
// a counter.
func tierSettings() Settings {
	set := testSettings()
	set.Tier, set.Window = true, 10*time.Second
	set.Rules = []Rule{{Source: "faults", Function: "increase", Metric: "faults.count", Integer: true}}
	return set
}

// The count function adds one sample of the counter to an engine.
func count(e *Engine, at time.Duration, v float64) {
	in := e.Begin(origin.Add(at))
	defer in.End()
	setNode(in, "n1")
	in.SetScope(Scope{Name: "scope"})
	in.SetMetric(Metric{Name: "faults", Kind: signal.Counter})
	in.Resolve(&Point{Device: "d1", About: texts("id", "d1"), Time: origin.Add(at).UnixNano(), Value: Double(v)})
}

// result contains the sums of the values of several windows.
type result struct{ counted, seconds float64 }

func (r *result) add(e *Engine, upTo time.Duration) {
	for em := e.Fetch(origin.Add(upTo)); em != nil; em = e.Fetch(origin.Add(upTo)) {
		for _, row := range allRows(em) {
			switch row.Metric.Name {
			case "faults.count":
				r.counted += row.Value.Float()
			case "coverage":
				r.seconds += row.Value.Float() * 10
			}
		}
		em.Close()
	}
}

// A counter increases by one per second. Regardless of how the samples of the counter are
// distributed among collectors, all collectors together must not count more than the true increase,
// and each collector must count exactly the increase that it observed.
func TestCollectorsOfATierCountExactlyTheObservedIncreases(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		engines := []*Engine{New(tierSettings(), origin), New(tierSettings(), origin)}
		var sum result
		at := time.Duration(0)
		for range rapid.IntRange(1, 12).Draw(t, "moves") {
			to := rapid.IntRange(0, 1).Draw(t, "collector")
			// Each collector receives at least three consecutive samples, so that the other
			// collector considers the node absent.
			for range rapid.IntRange(3, 20).Draw(t, "samples") {
				at += time.Second
				count(engines[to], at, at.Seconds())
				for i, e := range engines {
					if rapid.IntRange(0, 9).Draw(t, "restart") != 0 {
						continue
					}
					sum.add(e, at-15*time.Second)
					e.Stop()
					again, err := Restore(tierSettings(), origin.Add(at), origin, states(e)...)
					require.NoError(t, err)
					engines[i] = again
				}
			}
		}
		for _, e := range engines {
			sum.add(e, time.Hour)
		}
		assert.InDelta(t, sum.seconds, sum.counted, 1e-9, "the counted increase was observed")
		assert.LessOrEqual(t, sum.counted, at.Seconds())
	})
}

// In a crash, the samples that arrived after the node was last stored are lost. The coverage of the
// windows must reflect the loss of these samples.
func TestACrashOfACollectorInATierIsAnAbsence(t *testing.T) {
	for name, tt := range map[string]struct {
		clean bool
		want  result
	}{
		"crash":          {false, result{2 + 2, 2 + 2}},
		"clean shutdown": {true, result{2 + 2 + 2, 2 + 2 + 2}},
	} {
		t.Run(name, func(t *testing.T) {
			e := New(tierSettings(), origin)
			for i := range 3 {
				count(e, time.Duration(1+i)*time.Second, float64(1+i))
			}
			if tt.clean {
				e.Stop()
			}
			again, err := Restore(tierSettings(), origin.Add(5*time.Second), origin, states(e)...)
			require.NoError(t, err)
			for i := range 3 {
				count(again, time.Duration(5+i)*time.Second, float64(5+i))
			}
			var got result
			got.add(again, time.Hour)
			assert.InDelta(t, tt.want.counted, got.counted, 1e-9)
			assert.InDelta(t, tt.want.seconds, got.seconds, 1e-9)
		})
	}
}

// Nodes without places are deleted.
func TestNodesAreDeletedWithTheirPlaces(t *testing.T) {
	e := New(tierSettings(), origin)
	count(e, time.Second, 1)
	require.Len(t, e.nodes, 1)
	new(result).add(e, time.Hour)
	e.Expire(origin.Add(time.Hour), nil, 10)
	assert.Empty(t, e.nodes)
}
