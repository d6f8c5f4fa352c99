package store

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/otelcol-gpu/otelcol-gpu/internal/diagnose"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/enumtest"
)

var epoch = time.Unix(1_800_000_000, 0)

func testStore() *Store {
	return New(Settings{Retention: 2 * time.Hour, MaxDevices: 2, MaxHolders: 2})
}

// addPoint adds one point to the store. The now parameter is the wall clock time at which the point
// arrives. The result is the outcome of adding the point.
func addPoint(t testing.TB, s *Store, now time.Time, place Place, id string, metric *signal.Metric, attribute string, end time.Time, value float64) Outcome {
	t.Helper()
	m, ok := Lookup(metric.Name)
	require.True(t, ok, metric.Name)
	before := s.Stats().Points
	b := s.Begin(now)
	p := Point{Metric: m, Attribute: attribute, Start: end.Add(-time.Minute).UnixNano(), End: end.UnixNano(), Value: value}
	b.Add(&place, id, &Description{}, &Hold{}, &p)
	b.End()
	for o, n := range s.Stats().Points {
		if n > before[o] {
			return Outcome(o)
		}
	}
	t.Fatal("the point was not counted")
	return 0
}

func TestAPointHasOneOutcome(t *testing.T) {
	container := Place{Node: "n", Namespace: "ns", Pod: "p", Container: "c"}
	for _, tt := range []struct {
		name      string
		place     Place
		id        string
		metric    *signal.Metric
		attribute string
		end       time.Time
		value     float64
		want      Outcome
	}{
		{"a window", Place{}, "GPU-a", signal.UtilizationAvg, "", epoch, 0.5, Accepted},
		{"a zero", Place{}, "GPU-a", signal.UtilizationAvg, "", epoch, 0, Accepted},
		{"a reason", Place{}, "GPU-a", signal.ThrottleReasonRatio, "hw_thermal", epoch, 0.5, Accepted},
		{"a reason that nobody knows", Place{}, "GPU-a", signal.ThrottleReasonRatio, "boredom", epoch, 0.5, Ignored},
		{"a temperature of another sensor", Place{}, "GPU-a", signal.HwTemperature, signal.LocationMemory, epoch, 50, Ignored},
		{"no device", Place{}, "", signal.UtilizationAvg, "", epoch, 0.5, Ignored},
		{"no number", Place{}, "GPU-a", signal.UtilizationAvg, "", epoch, math.NaN(), NoValue},
		{"beyond what a column holds", Place{}, "GPU-a", signal.PCIeThroughputAvg, signal.DirectionReceive, epoch, 1e39, NoValue},
		{"a gauge beyond what an answer holds", Place{}, "GPU-a", signal.HwPower, "", epoch, -1e300, NoValue},
		{"a verdict", Place{}, "GPU-a", signal.GPUSignalAvailable, "gpu.sm.active", epoch, 1, Accepted},
		{"a verdict on a signal that nobody knows", Place{}, "GPU-a", signal.GPUSignalAvailable, "gpu.made.up", epoch, 1, Ignored},
		{"a container's copy of a verdict", container, "GPU-a", signal.GPUSignalAvailable, "gpu.sm.active", epoch, 1, Ignored},
		{"without end", Place{}, "GPU-a", signal.PCIeThroughputAvg, signal.DirectionReceive, epoch, math.Inf(1), NoValue},
		{"as old as the retention", Place{}, "GPU-a", signal.UtilizationAvg, "", epoch.Add(-2 * time.Hour), 0.5, Old},
		{"within the retention", Place{}, "GPU-a", signal.UtilizationAvg, "", epoch.Add(-2*time.Hour + 1), 0.5, Accepted},
		{"a little ahead", Place{}, "GPU-a", signal.UtilizationAvg, "", epoch.Add(time.Minute), 0.5, Accepted},
		{"far ahead", Place{}, "GPU-a", signal.UtilizationAvg, "", epoch.Add(time.Minute + 1), 0.5, Future},
		{"a holder", container, "GPU-a", signal.GPUDeviceHolder, "", epoch, 1, Accepted},
		{"a holder without a container", Place{}, "GPU-a", signal.GPUDeviceHolder, "", epoch, 1, Ignored},
		{"pending pods", Place{}, "", signal.ClusterPendingPodCount, "nvidia.com/gpu", epoch, 3, Accepted},
		{"pending pods of nothing", Place{}, "", signal.ClusterPendingPodCount, "", epoch, 3, Ignored},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want.String(), addPoint(t, testStore(), epoch, tt.place, tt.id, tt.metric, tt.attribute, tt.end, tt.value).String())
		})
	}
}

func TestEveryWindowMetricIsStored(t *testing.T) {
	for _, m := range signal.All() {
		if m.Stage != signal.StageWindow || m.Off {
			continue
		}
		kept, ok := Lookup(m.Name)
		require.True(t, ok, m.Name)
		values := 1
		for _, a := range signal.PointAttributes() {
			if len(m.Attributes) > 0 && a.Key == m.Attributes[0] {
				values = len(a.Values)
			}
		}
		assert.Len(t, kept.byValue, values, "every value of the own attribute of %s is a field", m.Name)
	}
}

func TestItemsAboveALimitAreRefusedAndStoredItemsStay(t *testing.T) {
	s := testStore()
	for _, id := range []string{"GPU-a", "GPU-b"} {
		require.Equal(t, Accepted, addPoint(t, s, epoch, Place{}, id, signal.UtilizationAvg, "", epoch, 1))
	}
	assert.Equal(t, Refused, addPoint(t, s, epoch, Place{}, "GPU-c", signal.UtilizationAvg, "", epoch, 1))
	assert.Equal(t, Accepted, addPoint(t, s, epoch, Place{}, "GPU-a", signal.UtilizationAvg, "", epoch.Add(time.Minute), 1))
	for _, container := range []string{"one", "two"} {
		require.Equal(t, Accepted, addPoint(t, s, epoch, Place{Container: container}, "GPU-a", signal.UtilizationAvg, "", epoch, 1))
	}
	assert.Equal(t, Refused, addPoint(t, s, epoch, Place{Container: "three"}, "GPU-b", signal.UtilizationAvg, "", epoch, 1))
	stats := s.Stats()
	assert.Equal(t, 2, stats.Devices)
	assert.Equal(t, 2, stats.Holders)
	assert.EqualValues(t, 2, stats.Points[Refused])
}

func TestDevicesWithoutPointsExpire(t *testing.T) {
	s := testStore()
	container := Place{Namespace: "ns", Pod: "p", Container: "c"}
	addPoint(t, s, epoch, container, "GPU-gone", signal.UtilizationAvg, "", epoch, 1)
	addPoint(t, s, epoch, container, "GPU-stays", signal.UtilizationAvg, "", epoch, 1)
	later := epoch.Add(2*time.Hour + time.Minute)
	addPoint(t, s, later, Place{}, "GPU-stays", signal.UtilizationAvg, "", later, 1)
	stats := s.Stats()
	assert.Equal(t, 1, stats.Devices)
	assert.Zero(t, stats.Holders, "the container had its last window before")
	assert.Equal(t, Accepted, addPoint(t, s, later, Place{}, "GPU-new", signal.UtilizationAvg, "", later, 1), "a connection is free again")
}

func TestExpiredDevicesAreHiddenBeforeTheSweep(t *testing.T) {
	s := testStore()
	addPoint(t, s, epoch, Place{}, "GPU-a", signal.UtilizationAvg, "", epoch, 1)
	s.Read(epoch.Add(2*time.Hour-1), func(v *View) { assert.Len(t, v.Devices(), 1) })
	s.Read(epoch.Add(2*time.Hour), func(v *View) { assert.Empty(t, v.Devices()) })
}

func TestWindowsMayArriveInAnyOrderAndTwice(t *testing.T) {
	s := testStore()
	for _, i := range []int{2, 0, 1, 1} {
		addPoint(t, s, epoch.Add(time.Hour), Place{}, "GPU-a", signal.UtilizationAvg, "", epoch.Add(time.Duration(i)*time.Minute), float64(i))
	}
	addPoint(t, s, epoch.Add(time.Hour), Place{}, "GPU-a", signal.SMActiveAvg, "", epoch.Add(time.Minute), 0.5)
	s.Read(epoch, func(v *View) {
		d := v.Devices()[0]
		require.Equal(t, 3, d.Len())
		for i := range 3 {
			assert.EqualValues(t, i, d.Value(i, UtilizationAvg))
		}
		assert.EqualValues(t, 0.5, d.Value(1, FieldOf(signal.SMActiveAvg, "")))
		assert.True(t, math.IsNaN(float64(d.Value(2, FieldOf(signal.SMActiveAvg, "")))), "absent stays absent")
		assert.True(t, math.IsNaN(float64(d.Value(2, FieldOf(signal.DRAMActiveAvg, "")))))
	})
}

func TestStartOfAWindowLongerThanAWeekIsIgnored(t *testing.T) {
	s := testStore()
	m, _ := Lookup(signal.UtilizationAvg.Name)
	b := s.Begin(epoch)
	p := Point{Metric: m, Start: 1, End: epoch.UnixNano(), Value: 0.5}
	b.Add(&Place{}, "GPU-a", &Description{}, &Hold{}, &p)
	b.End()
	s.Read(epoch, func(v *View) {
		_, step := v.Newest()
		assert.Equal(t, time.Minute, step)
	})
}

// The judge function adds a verdict on one signal of a device.
func judge(s *Store, now, end time.Time, name string, value float64, reason string) {
	m, _ := Lookup(signal.GPUSignalAvailable.Name)
	b := s.Begin(now)
	p := Point{Metric: m, Attribute: name, Reason: reason, End: end.UnixNano(), Value: value}
	b.Add(&Place{}, "GPU-a", &Description{}, &Hold{}, &p)
	b.End()
}

func TestVerdictsAreThoseOfTheNewestScrape(t *testing.T) {
	s := testStore()
	at := func(seconds int) time.Time { return epoch.Add(time.Duration(seconds) * time.Second) }
	verdicts := func(now time.Time) map[string]Verdict {
		out := map[string]Verdict{}
		s.Read(now, func(v *View) {
			for i, got := range v.Verdicts(v.Devices()[0]) {
				if got != Unknown {
					out[Diagnosed()[i].Name()] = got
				}
			}
		})
		return out
	}
	judge(s, at(0), at(0), "gpu.sm.active", 0, "not_in_csv")
	judge(s, at(0), at(0), "gpu.dram.active", 1, "")
	judge(s, at(0), at(0), "hw.power", 0, "a reason of another version")
	notInCSV := Missing + Verdict(diagnose.NotInCSV)
	assert.Equal(t, map[string]Verdict{"gpu.sm.active": notInCSV, "gpu.dram.active": Available, "hw.power": Missing}, verdicts(at(0)))

	judge(s, at(60), at(60), "gpu.sm.active", 1, "")
	judge(s, at(60), at(30), "gpu.dram.active", 0, "hardware")
	assert.Equal(t, map[string]Verdict{"gpu.sm.active": Available}, verdicts(at(60)), "a signal without a verdict in the newest scrape is unknown")
	assert.Empty(t, verdicts(at(60).Add(5*time.Minute+1)), "the verdicts are too old")
}

func TestStaleGaugeIsAbsent(t *testing.T) {
	s := testStore()
	addPoint(t, s, epoch, Place{}, "GPU-a", signal.HwPower, "", epoch, 300)
	addPoint(t, s, epoch, Place{}, "GPU-a", signal.HwPower, "", epoch.Add(-time.Minute), 100)
	for after, want := range map[time.Duration]bool{0: true, 5 * time.Minute: true, 5*time.Minute + 1: false} {
		s.Read(epoch.Add(after), func(v *View) {
			power, ok := v.Gauge(v.Devices()[0], GaugeOf(signal.HwPower, ""))
			assert.Equal(t, want, ok, after)
			assert.Equal(t, 300.0, power, "an older value does not replace a newer one")
			_, ok = v.Gauge(v.Devices()[0], GaugeOf(signal.HwTemperature, signal.LocationGPU))
			assert.False(t, ok)
		})
	}
}

func TestCurrentHoldersHeldTheDeviceInItsNewestWindow(t *testing.T) {
	s := testStore()
	first, second := Place{Pod: "first", Container: "c"}, Place{Pod: "second", Container: "c"}
	addPoint(t, s, epoch, first, "GPU-a", signal.UtilizationAvg, "", epoch, 1)
	addPoint(t, s, epoch, Place{}, "GPU-a", signal.UtilizationAvg, "", epoch, 1)
	next := epoch.Add(time.Minute)
	addPoint(t, s, next, Place{}, "GPU-a", signal.UtilizationAvg, "", next, 1)
	addPoint(t, s, next, second, "GPU-a", signal.GPUDeviceHolder, "", next.Add(-time.Second), 1)
	s.Read(next, func(v *View) {
		d := v.Devices()[0]
		holds := map[string]bool{}
		for _, h := range d.Holders() {
			holds[h.Pod] = v.IsCurrentHolder(d, h)
		}
		assert.Equal(t, map[string]bool{"first": false, "second": true}, holds)
	})
}

// windowsOf returns a series of windows with the given coverages and with the given values of a
// field.
func windowsOf(f Field, length float32, values, coverages []float32) *Series {
	s := &Series{}
	for i := range values {
		row := s.row(epoch.Add(time.Duration(i+1)*time.Duration(length)*time.Second).UnixNano(), length, 0)
		s.set(row, f, values[i])
		s.set(row, Coverage, coverages[i])
	}
	return s
}

func TestWindowsCombineByObservedTime(t *testing.T) {
	from, to := epoch.UnixNano(), epoch.Add(time.Hour).UnixNano()
	nan := float32(math.NaN())
	for _, tt := range []struct {
		name              string
		field             Field
		values, coverages []float32
		want              float64
		absent            bool
	}{
		{"a mean is weighted by coverage", UtilizationAvg, []float32{1, 0}, []float32{0.25, 0.75}, 0.25, false},
		{"a window that was not observed does not count beside others", UtilizationAvg, []float32{1, 0.5}, []float32{0, 1}, 0.5, false},
		{"the only window counts though its coverage is 0", UtilizationAvg, []float32{0.5}, []float32{0}, 0.5, false},
		{"without coverage every window counts in full", UtilizationAvg, []float32{1, 0}, []float32{nan, nan}, 0.5, false},
		{"an absent value does not count as 0", UtilizationAvg, []float32{0.5, nan}, []float32{1, 1}, 0.5, false},
		{"a maximum is that of maxima", FieldOf(signal.MemoryUtilizationMax, ""), []float32{0.5, 0.9}, []float32{1, 0.1}, 0.9, false},
		{"counts add up", FieldOf(signal.XIDErrors, ""), []float32{2, 3}, []float32{1, 0.1}, 5, false},
		{"a count of nothing is 0", FieldOf(signal.XIDErrors, ""), []float32{0, 0}, []float32{1, 1}, 0, false},
		{"nothing is absent", FieldOf(signal.DRAMActiveAvg, ""), []float32{nan, nan}, []float32{1, 1}, 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := Summarize(from, to, windowsOf(tt.field, 60, tt.values, tt.coverages)).Value(tt.field)
			assert.Equal(t, !tt.absent, ok)
			assert.InDelta(t, tt.want, got, 1e-6)
		})
	}
}

func TestAWindowOfADeviceThatSeveralContainersHoldCountsOnce(t *testing.T) {
	both := windowsOf(FieldOf(signal.XIDErrors, ""), 60, []float32{1, 2}, []float32{1, 1})
	more := windowsOf(FieldOf(signal.XIDErrors, ""), 60, []float32{1, 2, 4}, []float32{1, 1, 1})
	sum := Summarize(0, math.MaxInt64-1, both, more)
	count, _ := sum.Value(FieldOf(signal.XIDErrors, ""))
	assert.Equal(t, 7.0, count)
	assert.Equal(t, 180.0, sum.Observed)
}

// TestMergingEqualsOneLongWindow stores the same history as many short windows and as one long
// window. The combined mean, maximum and count must be the same in both cases.
func TestMergingEqualsOneLongWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "windows")
		fine := &Series{}
		var observed, weighted, highest, count float64
		for i := range n {
			value := float32(rapid.Float64Range(0, 1).Draw(t, "value"))
			coverage := float32(rapid.Float64Range(0.01, 1).Draw(t, "coverage"))
			errors := float32(rapid.IntRange(0, 9).Draw(t, "errors"))
			row := fine.row(epoch.Add(time.Duration(i+1)*time.Minute).UnixNano(), 60, 0)
			fine.set(row, Coverage, coverage)
			fine.set(row, UtilizationAvg, value)
			fine.set(row, FieldOf(signal.UtilizationMax, ""), value)
			fine.set(row, FieldOf(signal.XIDErrors, ""), errors)
			observed += float64(coverage) * 60
			weighted += float64(value) * float64(coverage) * 60
			highest, count = max(highest, float64(value)), count+float64(errors)
		}
		long := &Series{}
		row := long.row(epoch.Add(time.Duration(n)*time.Minute).UnixNano(), float32(n*60), 0)
		long.set(row, Coverage, float32(observed/float64(n*60)))
		long.set(row, UtilizationAvg, float32(weighted/observed))
		long.set(row, FieldOf(signal.UtilizationMax, ""), float32(highest))
		long.set(row, FieldOf(signal.XIDErrors, ""), float32(count))

		// Summarize all short windows at once. Also summarize the windows before and after a cut,
		// and merge the two summaries.
		cut := epoch.Add(time.Duration(rapid.IntRange(0, n).Draw(t, "cut")) * time.Minute).UnixNano()
		end := epoch.Add(time.Duration(n) * time.Minute).UnixNano()
		merged := Summarize(epoch.UnixNano(), cut, fine)
		merged.Merge(Summarize(cut, end, fine))
		want := Summarize(epoch.UnixNano(), end, long)
		for _, got := range []*Summary{merged, Summarize(epoch.UnixNano(), end, fine)} {
			assert.Equal(t, want.Start, got.Start)
			assert.Equal(t, want.End, got.End)
			assert.InDelta(t, want.Observed, got.Observed, 1e-3)
			for _, f := range []Field{UtilizationAvg, FieldOf(signal.UtilizationMax, ""), FieldOf(signal.XIDErrors, "")} {
				w, _ := want.Value(f)
				g, ok := got.Value(f)
				assert.True(t, ok)
				assert.InDelta(t, w, g, 1e-6, FieldNames[f])
			}
		}
	})
}

func TestEveryOutcomeIsDocumented(t *testing.T) {
	assert.ElementsMatch(t, enumtest.Documented(t, "outcome"), enumtest.Names(0, Outcomes))
}
