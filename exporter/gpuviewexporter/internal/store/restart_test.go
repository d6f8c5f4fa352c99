package store

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

func TestAnEnergyCounterThatFallsIsARestart(t *testing.T) {
	type point struct {
		at    int64 // minutes after the epoch
		value float64
	}
	for _, tt := range []struct {
		name   string
		points []point
		want   []Restart
	}{
		{"the first point is none", []point{{1, 500}}, nil},
		{"growing and standing still are none", []point{{1, 500}, {2, 600}, {3, 600}}, nil},
		{"a fall is one, after the last point and by the next", []point{{1, 500}, {2, 600}, {5, 10}, {6, 20}}, []Restart{{2, 5}}},
		{"a fall to 0", []point{{1, 500}, {2, 0}}, []Restart{{1, 2}}},
		{"two collectors that send the counter in turn are none", []point{{1, 500}, {2, 480}, {3, 520}, {4, 500}}, nil},
		{"two", []point{{1, 500}, {2, 10}, {3, 4}}, []Restart{{1, 2}, {2, 3}}},
		{"a late point is none", []point{{2, 600}, {1, 500}}, nil},
		{"nor one that comes again", []point{{2, 600}, {2, 500}}, nil},
		{"what is older than the kept time is forgotten", []point{{1, 500}, {2, 10}, {70, 20}}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := New(Settings{Retention: time.Hour, MaxDevices: 2, MaxHolders: 1})
			m, ok := Lookup(signal.HwEnergy.Name)
			require.True(t, ok)
			window, _ := Lookup(signal.UtilizationAvg.Name)
			for _, p := range tt.points {
				at := epoch.Add(time.Duration(p.at) * time.Minute)
				in := s.Begin(at)
				in.Add(&Place{Node: "n"}, "GPU-1", &Description{}, &Hold{}, &Point{Metric: m, End: at.UnixNano(), Value: p.value})
				in.Add(&Place{Node: "n"}, "GPU-1/gi1", &Description{Parent: "GPU-1"}, &Hold{}, &Point{Metric: window, End: at.UnixNano(), Value: 1})
				in.Add(&Place{Node: "n", Pod: "p", Container: "c"}, "GPU-1", &Description{}, &Hold{}, &Point{Metric: m, End: at.UnixNano(), Value: 0})
				in.End()
			}
			var want []Restart
			for _, r := range tt.want {
				minute := func(m Time) Time { return Time(epoch.Add(time.Duration(m) * time.Minute).UnixNano()) }
				want = append(want, Restart{minute(r.After), minute(r.By)})
			}
			s.Read(epoch.Add(71*time.Minute), func(v *View) {
				for _, d := range s.devices {
					assert.ElementsMatch(t, want, v.Restarts(d), d.ID)
				}
			})
		})
	}
}

func TestRestartsAreBounded(t *testing.T) {
	var e energyCounter
	for i := range int64(3 * maxRestarts) {
		e.addPoint(&Point{End: i + 1, Value: math.Ldexp(1, int(-2*i))})
	}
	assert.Len(t, e.restarts, maxRestarts)
	assert.EqualValues(t, 3*maxRestarts, e.restarts[maxRestarts-1].By, "the newest are kept")
}
