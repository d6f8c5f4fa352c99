package store

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

func at(seconds float64) time.Time { return epoch.Add(time.Duration(seconds * float64(time.Second))) }

func TestADeviceIsLostWhenItsNextWindowIsMissed(t *testing.T) {
	for _, tt := range []struct {
		name string
		// The ends field contains the end times of one-minute windows. The delay field is the time
		// between the end and the arrival of a window.
		ends  []float64
		delay float64
		due   float64
	}{
		{"a window each minute", []float64{-120, -60, 0}, 6, 130},
		{"a first window", []float64{0}, 6, 130},
		{"windows that come late", []float64{-60, 0}, 45, 165},
		{"a window from a queue that waited", []float64{-60, 0}, 3600, 240},
		{"every second window has no sample", []float64{-360, -240, -120, 0}, 6, 250},
		{"one gap is no rhythm", []float64{-600, -60, 0}, 6, 130},
		{"nor is one just ended", []float64{-660, -600, 0}, 6, 130},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := New(Settings{Retention: 3 * time.Hour, MaxDevices: 1, MaxHolders: 1})
			for _, end := range tt.ends {
				addPoint(t, s, at(end+tt.delay), Place{}, "GPU-a", signal.UtilizationAvg, "", at(end), 0.5)
			}
			for seconds, lost := range map[float64]bool{tt.due: false, tt.due + 1: true} {
				s.Read(at(seconds), func(v *View) {
					assert.Equal(t, at(tt.due).UnixNano(), v.Due(v.Device(1)))
					assert.Equal(t, lost, v.Lost(v.Device(1)) != nil)
				})
			}
		})
	}
}

func TestADeviceWithoutWindowsIsLostWithItsGauges(t *testing.T) {
	s := testStore()
	addPoint(t, s, epoch, Place{}, "GPU-a", signal.HwPower, "", epoch, 300)
	for after, lost := range map[time.Duration]bool{minStaleAge: false, minStaleAge + 1: true} {
		s.Read(epoch.Add(after), func(v *View) {
			assert.Equal(t, lost, v.Lost(v.Device(1)) != nil)
			_, ok := v.Gauge(v.Device(1), GaugeOf(signal.HwPower, ""))
			assert.Equal(t, !lost, ok)
		})
	}
}

// addExporterUp adds a point of gpu.exporter.up and reports whether the point was accepted.
func addExporterUp(t *testing.T, s *Store, node, url string, when time.Time, value float64) bool {
	t.Helper()
	m, ok := Lookup(signal.GPUExporterUp.Name)
	require.True(t, ok)
	before := s.Stats().Points[Accepted]
	b := s.Begin(when)
	b.Add(&Place{Node: node}, "", &Description{}, &Hold{}, &Point{Metric: m, Attribute: url, End: when.UnixNano(), Value: value})
	b.End()
	return s.Stats().Points[Accepted] > before
}

func TestAnExporterIsDownSinceTheFirstScrapeThatFailed(t *testing.T) {
	const url = "http://node-1:9400/metrics"
	s := testStore()
	addExporterUp(t, s, "node-1", url, at(0), 1)
	addExporterUp(t, s, "node-1", url, at(15), 1)
	addExporterUp(t, s, "node-1", url, at(30), 0)
	addExporterUp(t, s, "node-1", url, at(45), 0)
	addExporterUp(t, s, "node-1", url, at(20), 1) // this point arrives late
	want := Exporter{
		Node: "node-1", URL: url, Since: at(30).UnixNano(), At: at(45).UnixNano(), ReceivedAt: at(45).UnixNano(), interval: int64(15 * time.Second),
	}
	s.Read(at(50), func(v *View) {
		assert.Equal(t, []Exporter{want}, v.Exporters())
		assert.Equal(t, at(45).UnixNano(), v.LastExporterPoint())
	})
	addExporterUp(t, s, "node-1", url, at(60), 1)
	s.Read(at(60), func(v *View) { assert.True(t, v.Exporters()[0].Up) })
	s.Read(at(60).Add(minStaleAge+1), func(v *View) {
		assert.Empty(t, v.Exporters(), "it is no longer scraped")
		assert.Equal(t, at(60).UnixNano(), v.LastExporterPoint())
	})
}

func TestResultOfAnExporterIsStaleThreeScrapesAfterTheLast(t *testing.T) {
	const url = "http://node-1:9400/metrics"
	s := testStore()
	stale := func(when time.Time) (is bool) {
		s.Read(when, func(v *View) { is = v.Exporters()[0].Stale })
		return is
	}
	addExporterUp(t, s, "node-1", url, at(0), 0)
	assert.False(t, stale(at(90)), "its interval is unknown")
	assert.True(t, stale(at(91)))
	addExporterUp(t, s, "node-1", url, at(10), 0)
	assert.False(t, stale(at(10+30+15)))
	assert.True(t, stale(at(10+30+16)))
	addExporterUp(t, s, "node-1", url, at(60), 0)
	assert.False(t, stale(at(60)), "results arrive again")
}

// The clock of a collector may be several minutes slow, or up to one minute fast.
func TestStaleResultsDoNotDependOnTheCollectorsClock(t *testing.T) {
	const url = "http://node-1:9400/metrics"
	m, _ := Lookup(signal.GPUExporterUp.Name)
	for _, skew := range []time.Duration{-10 * time.Minute, 50 * time.Second} {
		s := testStore()
		for i := range 3 {
			b := s.Begin(at(float64(15 * i)))
			b.Add(&Place{Node: "node-1"}, "", &Description{}, &Hold{}, &Point{Metric: m, Attribute: url, End: at(float64(15 * i)).Add(skew).UnixNano()})
			b.End()
		}
		s.Read(at(40), func(v *View) {
			if assert.Len(t, v.Exporters(), 1, skew.String()) {
				assert.False(t, v.Exporters()[0].Stale, skew)
			}
			assert.Equal(t, at(30).UnixNano(), v.LastExporterPoint())
		})
		s.Read(at(30+61), func(v *View) { assert.True(t, v.Exporters()[0].Stale, skew) })
	}
}

// A window that started before the exporter failed remains valid for the length of one window.
func TestADeviceIsLostAWindowAfterItsExporterFailed(t *testing.T) {
	const url = "http://node-1:9400/metrics"
	for _, tt := range []struct {
		name string
		// The up map contains additional results at second 50, keyed by node and URL.
		up   map[[2]string]float64
		lost bool
	}{
		{"the exporter fails", nil, true},
		{"another exporter of the node answers", map[[2]string]float64{{"node-1", "http://b"}: 1}, false},
		{"another exporter of the node fails too", map[[2]string]float64{{"node-1", "http://b"}: 0}, true},
		{"the exporter of another node answers", map[[2]string]float64{{"node-2", "http://b"}: 1}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := testStore()
			addPoint(t, s, at(60), Place{Node: "node-1"}, "GPU-a", signal.UtilizationAvg, "", at(60), 0.5)
			addExporterUp(t, s, "node-1", url, at(50), 0)
			for of, value := range tt.up {
				addExporterUp(t, s, of[0], of[1], at(50), value)
			}
			s.Read(at(110), func(v *View) { assert.Nil(t, v.Lost(v.Device(1)), "one window after the failure") })
			s.Read(at(111), func(v *View) {
				if !tt.lost {
					assert.Nil(t, v.Lost(v.Device(1)))
				} else if loss := v.Lost(v.Device(1)); assert.NotNil(t, loss) {
					assert.Equal(t, Time(at(60).UnixNano()), loss.Last)
					assert.Equal(t, Time(at(50).UnixNano()), loss.Since)
					assert.Contains(t, []string{url, "http://b"}, loss.URL)
				}
			})
		})
	}
}

// If no exporter on the device's node is known, the device is lost if, and only if, all known
// exporters are down.
func TestADeviceOfAnotherNodeIsLostIfAllExportersFail(t *testing.T) {
	s := testStore()
	addPoint(t, s, at(60), Place{Node: "node-1"}, "GPU-a", signal.UtilizationAvg, "", at(60), 0.5)
	addExporterUp(t, s, "", "http://central", at(50), 0)
	s.Read(at(111), func(v *View) { assert.NotNil(t, v.Lost(v.Device(1))) })
	addExporterUp(t, s, "", "http://other", at(50), 1)
	s.Read(at(111), func(v *View) { assert.Nil(t, v.Lost(v.Device(1))) })
}

func TestTheNextWindowIsExpectedWhenTheLatestNodeSentTheLastOne(t *testing.T) {
	s := testStore()
	s.Read(at(0), func(v *View) { assert.Zero(t, v.Expected(), "no window") })
	addPoint(t, s, at(62), Place{Node: "node-1"}, "GPU-a", signal.UtilizationAvg, "", at(60), 0.5)
	addPoint(t, s, at(65), Place{Node: "node-2"}, "GPU-b", signal.UtilizationAvg, "", at(60), 0.5)
	s.Read(at(70), func(v *View) { assert.Equal(t, at(60+60+5), time.Unix(0, v.Expected())) })
}

func TestAnExporterThatIsReplacedIsNotDown(t *testing.T) {
	const url = "http://10.0.0.1:9400/metrics"
	m, _ := Lookup(signal.GPUExporterUp.Name)
	utilization, _ := Lookup(signal.UtilizationAvg.Name)
	s := testStore()
	addExporterUp(t, s, "node-1", url, at(0), 0)
	addExporterUp(t, s, "node-2", url, at(0), 0)
	b := s.Begin(at(15))
	b.Ended(&Place{Node: "node-1"}, utilization, url)
	b.End()
	s.Read(at(15), func(v *View) { assert.Len(t, v.Exporters(), 2, "a series of another metric has ended") })
	b = s.Begin(at(15))
	b.Ended(&Place{Node: "node-1"}, m, url)
	b.End()
	s.Read(at(15), func(v *View) {
		if assert.Len(t, v.Exporters(), 1) {
			assert.Equal(t, "node-2", v.Exporters()[0].Node)
		}
	})
}

func TestStaleExportersAreReplacedAtTheLimit(t *testing.T) {
	s := testStore()
	for i := range maxExporters {
		require.True(t, addExporterUp(t, s, "node", string(rune('a'+i%26))+time.Duration(i).String(), at(0), 1))
	}
	assert.False(t, addExporterUp(t, s, "node", "one too many", at(1), 1))
	assert.EqualValues(t, 1, s.Stats().Points[Refused])
	assert.True(t, addExporterUp(t, s, "node", "another", at(1).Add(minStaleAge), 1))
}

func TestLimitIsReportedOnceAndAgainAfterAPeriodWithoutRefusals(t *testing.T) {
	s := New(Settings{Retention: 2 * time.Hour, MaxDevices: 1, MaxHolders: 1})
	m, _ := Lookup(signal.UtilizationAvg.Name)
	add := func(when time.Time, id, container string) []Limit {
		b := s.Begin(when)
		b.Add(&Place{Container: container}, id, &Description{}, &Hold{}, &Point{Metric: m, End: when.UnixNano(), Value: 1})
		b.End()
		return b.Reached()
	}
	refusing := func(when time.Time) (out []Limit) {
		s.Read(when, func(v *View) { out = v.Refusing() })
		return out
	}
	assert.Empty(t, add(at(0), "GPU-a", "one"))
	assert.Empty(t, refusing(at(0)))
	devices, holders := Limit{"gpu_view", "max_devices", 1, "boards and MIG instances"}, Limit{"gpu_view", "max_holders", 1, "containers on devices"}
	assert.Equal(t, []Limit{devices}, add(at(0), "GPU-b", ""))
	assert.Equal(t, []Limit{holders}, add(at(0), "GPU-a", "two"))
	assert.Empty(t, add(at(60), "GPU-b", ""), "the limit was already reported")
	assert.Equal(t, []Limit{devices, holders}, refusing(at(60)))
	assert.Equal(t, []Limit{devices}, refusing(at(330)))
	assert.Empty(t, refusing(at(361)))
	assert.Equal(t, []Limit{devices}, add(at(400), "GPU-b", ""))
}
