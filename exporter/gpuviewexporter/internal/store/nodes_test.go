package store

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// The windows function adds a window, a gauge and the scheduler's view to the store, all with the
// same timestamp.
func windows(s *Store, node string, now, end time.Time, value float64) (setBack bool) {
	b := s.Begin(now)
	for metric, id := range map[*signal.Metric]string{signal.UtilizationAvg: "GPU-" + node, signal.HwPower: "GPU-" + node, signal.ClusterPendingPodCount: ""} {
		m, _ := Lookup(metric.Name)
		place, own := Place{Node: node}, ""
		if id == "" {
			place, own = Place{}, "nvidia.com/gpu"
		}
		b.Add(&place, id, &Description{}, &Hold{}, &Point{Metric: m, Attribute: own, Start: end.Add(-time.Minute).UnixNano(), End: end.UnixNano(), Value: value})
	}
	b.End()
	return b.SetBack()
}

func TestStoreFollowsAClockThatWasSetBack(t *testing.T) {
	s := testStore()
	for minute := range time.Duration(3) {
		windows(s, "a", epoch.Add(minute*time.Minute), epoch.Add(minute*time.Minute), 0.1)
		windows(s, "b", epoch.Add(minute*time.Minute), epoch.Add(minute*time.Minute), 0.1)
	}
	const step = -time.Hour // all clocks are set back by one hour
	times := 0
	for minute := time.Duration(3); minute < 11; minute++ {
		now := epoch.Add(step + minute*time.Minute)
		if windows(s, "a", now, now, 0.9) {
			times++
		}
		windows(s, "b", now, now, 0.9)
	}
	assert.Equal(t, 1, times, "including the batch in which the scheduler's view restarts")
	s.Read(epoch.Add(step+11*time.Minute), func(v *View) {
		newest, _ := v.Newest()
		assert.Equal(t, epoch.Add(step+10*time.Minute).UnixNano(), newest)
		require.Len(t, v.Devices(), 2)
		for _, d := range v.Devices() {
			power, ok := v.Gauge(d, 0) // hw.power
			assert.True(t, ok)
			assert.InDelta(t, 0.9, power, 1e-6)
			assert.InDelta(t, 0.9, d.Value(d.Len()-1, UtilizationAvg), 1e-6)
			assert.Nil(t, v.Lost(d))
		}
		require.Len(t, v.Demand(), 1)
		assert.InDelta(t, 0.9, v.Demand()[0].Values[PendingPods], 1e-6)
	})
	assert.Equal(t, 2, s.Stats().Devices)
}

func TestLateWindowsDeleteNoNode(t *testing.T) {
	s := testStore()
	for minute := range time.Duration(60) {
		now := epoch.Add(minute * time.Minute)
		require.False(t, windows(s, "a", now, now, 0.1))
		require.False(t, windows(s, "a", now, now.Add(-30*time.Minute), 0.1))
	}
	assert.Equal(t, 1, s.Stats().Devices)
}

func TestNodesWithoutDataAreDeleted(t *testing.T) {
	s := testStore()
	windows(s, "a", epoch, epoch, 0.1)
	later := epoch.Add(3 * time.Hour)
	windows(s, "b", later, later, 0.1)
	assert.Len(t, s.nodes, 2, "b and the cluster")
}
