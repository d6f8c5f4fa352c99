package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// The count function adds a point of hw.errors. Times are in seconds after the time in the epoch
// variable. A negative start means that the point has no start time.
func count(t *testing.T, s *Store, errorType string, start, at int, value float64) Outcome {
	t.Helper()
	m, ok := Lookup(signal.HwErrors.Name)
	require.True(t, ok)
	p := Point{Metric: m, Attribute: errorType, End: epoch.Add(time.Duration(at) * time.Second).UnixNano(), Value: value}
	if start >= 0 {
		p.Start = epoch.Add(time.Duration(start) * time.Second).UnixNano()
	}
	before := s.Stats().Points
	b := s.Begin(time.Unix(0, p.End))
	b.Add(&Place{}, "GPU-a", &Description{}, &Hold{}, &p)
	b.End()
	for o, n := range s.Stats().Points {
		if n > before[o] {
			return Outcome(o)
		}
	}
	t.Fatal("the point was not counted")
	return 0
}

func TestXIDCodesAreCountedByHowTheirCumulativeCountsGrow(t *testing.T) {
	type point struct {
		errorType string
		start, at int
		value     float64
	}
	for _, tt := range []struct {
		name   string
		points []point
		want   map[int]float64 // the counts in the window from second 60 to second 120
	}{
		{"a count that grows", []point{{"xid_48", 0, 50, 1}, {"xid_48", 0, 110, 3}}, map[int]float64{48: 2}},
		{"a count that stays", []point{{"xid_48", 0, 50, 1}, {"xid_48", 0, 110, 1}}, map[int]float64{48: 0}},
		{"each code by itself", []point{{"xid_31", 0, 50, 1}, {"xid_48", 0, 50, 1}, {"xid_31", 0, 110, 5}, {"xid_48", 0, 110, 2}}, map[int]float64{31: 4, 48: 1}},
		{"a code that comes first after others were watched", []point{{"", -1, 50, 0}, {"xid_79", 95, 110, 1}}, map[int]float64{79: 1}},
		{"two codes that come at once", []point{{"", -1, 50, 0}, {"xid_79", 50, 110, 1}, {"xid_31", 95, 110, 2}}, map[int]float64{79: 1, 31: 2}},
		{"a code of a device that nobody knew, born in the window", []point{{"xid_79", 95, 110, 1}}, map[int]float64{79: 1}},
		{"a code from before anybody looked", []point{{"xid_48", 0, 110, 7}}, map[int]float64{48: 0}},
		{"a code without a start", []point{{"xid_48", -1, 110, 7}}, map[int]float64{48: 0}},
		{"a count that falls begins anew", []point{{"xid_48", 0, 50, 9}, {"xid_48", 0, 110, 2}}, map[int]float64{48: 2}},
		{"a count that began anew and is higher already", []point{{"xid_48", 0, 50, 1}, {"xid_48", 70, 110, 3}}, map[int]float64{48: 3}},
		{"a point twice", []point{{"xid_48", 0, 50, 1}, {"xid_48", 0, 110, 2}, {"xid_48", 0, 110, 2}}, map[int]float64{48: 1}},
		{"increases of another window", []point{{"xid_48", 0, 30, 1}, {"xid_48", 0, 50, 9}, {"xid_48", 0, 110, 9}}, map[int]float64{48: 0}},
		{"several increases in the window", []point{{"xid_48", 0, 50, 1}, {"xid_48", 0, 80, 2}, {"xid_48", 0, 110, 4}}, map[int]float64{48: 3}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := testStore()
			addPoint(t, s, epoch.Add(60*time.Second), Place{}, "GPU-a", signal.XIDErrors, "", epoch.Add(60*time.Second), 0)
			for _, p := range tt.points {
				require.Equal(t, Accepted, count(t, s, p.errorType, p.start, p.at, p.value))
			}
			addPoint(t, s, epoch.Add(120*time.Second), Place{}, "GPU-a", signal.XIDErrors, "", epoch.Add(120*time.Second), 0)
			got := map[int]float64{}
			s.Read(epoch.Add(120*time.Second), func(v *View) {
				for _, x := range v.Device(1).XIDs() {
					got[x.Code] = x.Count
				}
			})
			assert.Equal(t, tt.want, got)
		})
	}
}

func TestOtherErrorsAreNotXIDs(t *testing.T) {
	s := testStore()
	for _, other := range []string{"uncorrected", "xid_", "xid_0", "xid_-1", "xid_x", "xid_1000", "xid_99999999999999999999"} {
		assert.Equal(t, Ignored, count(t, s, other, 0, 50, 1), other)
	}
	assert.Zero(t, s.Stats().Devices)
}

func TestXIDCodesAboveTheLimitAreRefused(t *testing.T) {
	s := testStore()
	for code := 1; code <= maxCodes; code++ {
		require.Equal(t, Accepted, count(t, s, fmt.Sprintf("xid_%d", code), 0, 50, 1))
	}
	assert.Equal(t, Refused, count(t, s, "xid_999", 0, 50, 1))
	assert.Equal(t, Accepted, count(t, s, "xid_1", 0, 60, 2), "known codes are still counted")
	// The store limits the number of increases per device.
	for i := range 20 {
		for code := 1; code <= maxCodes; code++ {
			count(t, s, fmt.Sprintf("xid_%d", code), 0, 61+i, float64(3+i))
		}
	}
	s.Read(epoch, func(v *View) { assert.Len(t, v.Device(1).xids.increases, maxIncreases) })
}

func TestXIDCodesExpireWithTheRetention(t *testing.T) {
	s := testStore()
	count(t, s, "xid_48", 0, 30, 1)
	later := epoch.Add(3 * time.Hour)
	addPoint(t, s, later, Place{}, "GPU-a", signal.XIDErrors, "", later, 0)
	s.Read(later, func(v *View) { assert.Empty(t, v.Device(1).XIDs()) })
}
