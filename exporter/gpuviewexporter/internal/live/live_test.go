package live

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuviewexporter/internal/store"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

var epoch = time.Unix(1_800_000_000, 0)

func newStore() *store.Store {
	return store.New(store.Settings{Retention: 2 * time.Hour, MaxDevices: 10, MaxHolders: 10})
}

// add adds a window's value that ends at end.
func add(t *testing.T, s *store.Store, id string, metric *signal.Metric, end time.Time, value float64) {
	t.Helper()
	m, ok := store.Lookup(metric.Name)
	require.True(t, ok)
	b := s.Begin(end)
	b.Add(&store.Place{Node: "node-1"}, id, &store.Description{}, &store.Hold{},
		&store.Point{Metric: m, Start: end.Add(-time.Minute).UnixNano(), End: end.UnixNano(), Value: value})
	b.End()
}

func TestNumbersWriteAbsentAsNull(t *testing.T) {
	got, err := json.Marshal(numbers{0, float32(math.NaN()), 0.3, 1.2e9, -1})
	require.NoError(t, err)
	assert.JSONEq(t, `[0,null,0.3,1.2e9,-1]`, string(got))
}

func TestACurveIsTheKeptTimeAndBrokenWhereNothingWasObserved(t *testing.T) {
	s := newStore()
	for _, i := range []int{0, 1, 3} {
		add(t, s, "GPU-a", signal.UtilizationAvg, epoch.Add(time.Duration(i)*time.Minute), float64(i)/3)
	}
	snap := Snap(s, epoch.Add(3*time.Minute), 7)
	assert.EqualValues(t, 7, snap.Sequence)
	assert.Equal(t, 60.0, snap.Slot)
	curve := snap.Devices[0].Curves
	assert.Equal(t, strings.Repeat("-", points-4)+"0K-z", curve[0])
	assert.Equal(t, strings.Repeat("-", points), curve[1], "memory was not observed")
}

func TestASlotWidensUntilTheKeptTimeHasRoom(t *testing.T) {
	s := newStore()
	for i := range 120 {
		add(t, s, "GPU-a", signal.UtilizationAvg, epoch.Add(time.Duration(i)*time.Minute), float64(i%2))
	}
	snap := Snap(s, epoch.Add(119*time.Minute), 0)
	assert.Equal(t, 120.0, snap.Slot)
	assert.Equal(t, strings.Repeat("z", points), snap.Devices[0].Curves[0], "a point is the highest window of its slot")
}

func TestAPatchHasWhatChangedSince(t *testing.T) {
	s := newStore()
	add(t, s, "GPU-a", signal.UtilizationAvg, epoch, 0.5)
	first, batch := Patch(s, epoch, 1, 0)
	require.Len(t, first.Devices, 1)
	add(t, s, "GPU-b", signal.UtilizationAvg, epoch, 0.25)
	second, batch := Patch(s, epoch, 2, batch)
	require.Len(t, second.Devices, 1)
	assert.Equal(t, "GPU-b", second.Devices[0].ID)
	assert.Empty(t, second.Devices[0].Curves)
	third, _ := Patch(s, epoch, 3, batch)
	assert.Empty(t, third.Devices)
}

func TestEveryNumberHasItsName(t *testing.T) {
	s := newStore()
	add(t, s, "GPU-a", signal.HwPower, epoch, 300)
	add(t, s, "GPU-a", signal.XIDErrors, epoch, 2)
	snap := Snap(s, epoch, 0)
	d := snap.Devices[0]
	require.Len(t, d.Values, len(snap.Fields))
	require.Len(t, d.Gauges, len(snap.Gauges))
	for i, f := range snap.Fields {
		assert.Equal(t, f.Metric == signal.XIDErrors.Name, d.Values[i] == 2, f.Metric)
	}
	for i, g := range snap.Gauges {
		assert.Equal(t, g.Metric == signal.HwPower.Name, d.Gauges[i] == 300, g.Metric)
	}
}
