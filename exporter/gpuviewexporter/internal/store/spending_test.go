package store

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

func TestWhatAContainerSpentIsWhatItsCountersGained(t *testing.T) {
	const begin = 1_000_000 // seconds, when the store began
	type point struct {
		start, at int64 // seconds after begin
		value     float64
		estimated string
	}
	for _, tt := range []struct {
		name   string
		points []point
		want   float64 // after second 0, until second 600
	}{
		{"a counter that began before the store counts from its first point", []point{{-500, 60, 400, "false"}, {-500, 120, 460, "false"}}, 60},
		{"a counter that began since counts from 0", []point{{30, 60, 30, "false"}, {30, 120, 90, "false"}}, 90},
		{"a counter that starts anew counts from 0", []point{{-500, 60, 400, "false"}, {70, 120, 50, "false"}}, 50},
		{"estimated time is time", []point{{30, 60, 30, "false"}, {30, 60, 15, "true"}}, 45},
		{"a point that comes again counts once", []point{{30, 60, 30, "false"}, {30, 60, 30, "false"}}, 30},
		{"a late point changes nothing", []point{{30, 120, 90, "false"}, {30, 60, 30, "false"}}, 90},
		{"a counter never falls", []point{{30, 60, 30, "false"}, {30, 120, 20, "false"}}, 30},
		{"what is later is not in it", []point{{30, 60, 30, "false"}, {30, 601, 600, "false"}}, 30},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := New(Settings{Retention: 2 * time.Hour, MaxDevices: 1, MaxHolders: 1})
			m, ok := Lookup(signal.K8sContainerGPUAllocatedTime.Name)
			require.True(t, ok)
			s.Begin(time.Unix(begin, 0)).End()
			in := s.Begin(time.Unix(begin+700, 0))
			for _, p := range tt.points {
				in.Add(&Place{Node: "n", Namespace: "ns", Pod: "p", Container: "c"}, "GPU-1", &Description{}, &Hold{}, &Point{
					Metric: m, Attribute: p.estimated, Start: (begin + p.start) * 1e9, End: (begin + p.at) * 1e9, Value: p.value,
				})
			}
			in.End()
			s.Read(time.Unix(begin+700, 0), func(v *View) {
				spent := v.Devices(0)[0].Holders()[0].Spent(begin*1e9, (begin+600)*1e9)
				assert.True(t, spent.Known[AllocatedTime])
				assert.False(t, spent.Known[Cost])
				assert.InDelta(t, tt.want, spent.Amounts[AllocatedTime], 1e-9)
			})
		})
	}
}

func TestWhatWasSpentIsForgottenWithTheWindows(t *testing.T) {
	s := New(Settings{Retention: time.Hour, MaxDevices: 1, MaxHolders: 1})
	m, _ := Lookup(signal.K8sContainerGPUCost.Name)
	begin := time.Unix(1_000_000, 0)
	s.Begin(begin).End()
	for minute := range 300 {
		at := begin.Add(time.Duration(minute+1) * time.Minute)
		in := s.Begin(at)
		in.Add(&Place{Node: "n", Namespace: "ns", Pod: "p", Container: "c"}, "GPU-1", &Description{}, &Hold{}, &Point{
			Metric: m, Attribute: "true", Start: begin.UnixNano(), End: at.UnixNano(), Value: float64(minute),
		})
		in.End()
	}
	s.Read(begin.Add(300*time.Minute), func(v *View) {
		h := v.Devices(0)[0].Holders()[0]
		assert.LessOrEqual(t, len(h.spent.gains), 60)
		assert.InDelta(t, 60, h.Spent(0, 1<<62).Amounts[Cost], 1)
	})
}
