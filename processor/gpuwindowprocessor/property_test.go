package gpuwindowprocessor

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"pgregory.net/rapid"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor/internal/window"
)

// textAttr is an attribute with a string value.
type textAttr struct{ key, value string }

func mapOf(attrs ...textAttr) pcommon.Map {
	m := pcommon.NewMap()
	for _, a := range attrs {
		m.PutStr(a.key, a.value)
	}
	return m
}

// event is a sample with its timestamp.
type event struct {
	metric window.Metric
	device string
	own    textAttr
	time   time.Duration
	value  float64
	stale  bool
}

// implausible reports whether the value is an implausible ratio, which the engine must drop.
func (ev *event) implausible() bool {
	return ev.metric.Unit == "1" && (ev.value < -0.05 || ev.value > 2)
}

// timeline generates scrapes of a few devices over several minutes, in chronological order. The
// scrapes contain gaps, resets, repeated values, duplicates, and stale markers.
func timeline(t *rapid.T) [][]event {
	step := time.Duration(rapid.IntRange(1, 40).Draw(t, "step")) * time.Second
	devices := rapid.IntRange(1, 3).Draw(t, "devices")
	type state struct{ busy, counter float64 }
	states := make([]state, devices)
	var scrapes [][]event
	for at := step; at < 6*time.Minute; at += step {
		if rapid.IntRange(0, 9).Draw(t, "gap") == 0 {
			continue
		}
		var scrape []event
		for d := range devices {
			s := &states[d]
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				s.counter = 0
			case 1, 2:
			case 3:
				s.counter += 1000
			default:
				s.counter += step.Seconds() * rapid.Float64Range(0, 1).Draw(t, "share")
			}
			s.busy = rapid.Float64Range(-0.5, 2.5).Draw(t, "busy")
			id := fmt.Sprintf("GPU-%d", d)
			add := func(m *signal.Metric, kind signal.Kind, own textAttr, v float64) {
				scrape = append(scrape, event{
					metric: window.Metric{Name: m.Name, Unit: m.Unit, Kind: kind}, device: id, own: own, time: at, value: v,
					stale: rapid.IntRange(0, 19).Draw(t, "stale") == 0,
				})
			}
			add(signal.HwGPUMemoryUtilization, signal.Gauge, textAttr{}, s.busy)
			add(signal.GPUClockThrottleTime, signal.Counter, textAttr{signal.ClockViolation, "power"}, s.counter)
			add(signal.HwErrors, signal.Counter, textAttr{signal.ErrorType, "xid_31"}, math.Floor(s.counter))
			add(signal.HwPower, signal.Gauge, textAttr{}, 100*s.busy)
		}
		scrapes = append(scrapes, scrape)
	}
	return scrapes
}

// simulation adds timelines to an engine, and records the values of the windows that it fetches.
type simulation struct {
	cfg    *Config
	engine *window.Engine
	got    map[string]float64
	shape  func([]textAttr) []textAttr
	// series contains the handles that are used for all samples except the first sample of each
	// series. If handles are not used, the map is nil.
	series map[string]*window.Series
}

func newSimulation(length time.Duration) *simulation {
	cfg := createDefaultConfig().(*Config)
	cfg.Window, cfg.Grace = length, length
	cfg.Metrics = componenthelper.Metrics{signal.MemoryUtilizationP95.Name: {Enabled: new(true)}}
	return &simulation{cfg: cfg, engine: window.New(cfg.settings(), specOrigin), got: map[string]float64{}}
}

func (s *simulation) ingest(now time.Duration, batch []event) {
	in := s.engine.Begin(specOrigin.Add(now))
	defer in.End()
	for _, ev := range batch {
		var resource placedResource
		resource.set(mapOf(textAttr{signal.K8sNodeName, "node-1"}), "")
		in.SetScope(window.Scope{Name: "test"})
		in.SetMetric(ev.metric)
		attrs := []textAttr{{signal.HardwareID, ev.device}, {signal.HardwareModel, "H100"}, {signal.HardwareVendor, "NVIDIA"}}
		if ev.own.key != "" {
			attrs = append(attrs, ev.own)
		}
		if s.shape != nil {
			attrs = s.shape(attrs)
		}
		p := window.Point{Time: specOrigin.Add(ev.time).UnixNano(), Value: window.Double(ev.value)}
		resource.setPoint(in, &p, mapOf(attrs...))
		if ev.stale {
			p.Value = window.Double(math.NaN())
		}
		key := fmt.Sprint(ev.metric.Name, ev.device)
		if known := s.series[key]; in.CanAdd(known) {
			in.Add(known, p.Time, p.Start, p.Value)
			continue
		}
		resolved, _ := in.Resolve(&p)
		if s.series != nil {
			s.series[key] = resolved
		}
	}
}

// fetchWindows fetches the windows that end at or before upTo.
func (s *simulation) fetchWindows(upTo time.Duration) {
	for em := s.engine.Fetch(specOrigin.Add(upTo)); em != nil; em = s.engine.Fetch(specOrigin.Add(upTo)) {
		rows, _ := em.Next(nil, math.MaxInt)
		for _, r := range rows {
			id := ""
			for a := range r.Device.All() {
				if a.Key == signal.HardwareID {
					id = a.Value
				}
			}
			own := ""
			for a := range r.Own.All() {
				own += "," + a.Value
			}
			s.got[fmt.Sprintf("%s %s%s %s", r.Metric.Name, id, own, em.End().Sub(specOrigin))] = r.Value.Float()
		}
		em.Close()
	}
}

func (s *simulation) clock(now time.Duration) {
	upTo, _ := s.engine.ClosedUpTo(specOrigin.Add(now))
	s.fetchWindows(upTo.Sub(specOrigin))
}

func (s *simulation) run(scrapes [][]event) {
	for _, scrape := range scrapes {
		s.clock(scrape[0].time)
		s.ingest(scrape[0].time, scrape)
	}
	s.fetchWindows(time.Hour)
}

func requireSame(t *rapid.T, want, got map[string]float64) {
	require.Len(t, got, len(want))
	for k, v := range want {
		require.Contains(t, got, k)
		require.InDelta(t, v, got[k], 1e-9*max(1, math.Abs(v)), k)
	}
}

func TestEveryRatioIsBetweenZeroAndOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSimulation(time.Minute)
		s.run(timeline(t))
		for _, m := range signal.All() {
			if m.Stage != signal.StageWindow || m.Unit != "1" {
				continue
			}
			for k, v := range s.got {
				if len(k) > len(m.Name) && k[:len(m.Name)+1] == m.Name+" " {
					require.GreaterOrEqual(t, v, 0.0, k)
					require.LessOrEqual(t, v, 1.0, k)
				}
			}
		}
	})
}

func TestTheOrderOfSamplesAndAttributesDoesNotChangeTheWindows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		scrapes := timeline(t)
		want := newSimulation(time.Minute)
		want.run(scrapes)
		got := newSimulation(time.Minute)
		got.shape = func(attrs []textAttr) []textAttr { return rapid.Permutation(attrs).Draw(t, "attributes") }
		for i := range scrapes {
			if len(scrapes[i]) > 0 {
				scrapes[i] = rapid.Permutation(scrapes[i]).Draw(t, "scrape")
			}
		}
		got.run(scrapes)
		requireSame(t, want.got, got.got)
	})
}

func TestSamplesWithoutAttributesHaveTheSameWindows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		scrapes := timeline(t)
		want := newSimulation(time.Minute)
		want.run(scrapes)
		got := newSimulation(time.Minute)
		got.series = map[string]*window.Series{}
		got.run(scrapes)
		requireSame(t, want.got, got.got)
		require.Equal(t, want.engine.Stats(), got.engine.Stats())
	})
}

func TestTheSplitOfScrapesIntoBatchesDoesNotChangeTheWindows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		scrapes := timeline(t)
		want := newSimulation(time.Minute)
		want.run(scrapes)
		got := newSimulation(time.Minute)
		var split [][]event
		for _, scrape := range scrapes {
			at := rapid.IntRange(1, len(scrape)).Draw(t, "split")
			split = append(split, scrape[:at])
			if at < len(scrape) {
				split = append(split, scrape[at:])
			}
		}
		got.run(split)
		requireSame(t, want.got, got.got)
	})
}

func TestARestoreAtAnyTimeDoesNotChangeTheWindows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		scrapes := timeline(t)
		want := newSimulation(time.Minute)
		want.run(scrapes)
		got := newSimulation(time.Minute)
		for _, scrape := range scrapes {
			now := scrape[0].time
			got.clock(now)
			if rapid.Bool().Draw(t, "restart") {
				e, err := window.Restore(got.cfg.settings(), specOrigin.Add(now), time.Unix(0, 0), states(got.engine)...)
				require.NoError(t, err)
				got.engine = e
			}
			got.ingest(now, scrape)
		}
		got.fetchWindows(time.Hour)
		requireSame(t, want.got, got.got)
	})
}

// TestWindowsAddUp merges six windows of one minute and compares the result with one window of six
// minutes. The ratios of short windows are weighted by their observed time or by their number of
// samples.
func TestWindowsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		scrapes := timeline(t)
		short, long := newSimulation(time.Minute), newSimulation(6*time.Minute)
		short.run(scrapes)
		long.run(scrapes)
		for d := range 3 {
			id := fmt.Sprintf("GPU-%d", d)
			key := func(m *signal.Metric, own string, end time.Duration) string {
				return fmt.Sprintf("%s %s%s %s", m.Name, id, own, end)
			}
			var xids, samples float64
			maximum := math.Inf(-1)
			seen := false
			for end := time.Minute; end <= 6*time.Minute; end += time.Minute {
				xids += short.got[key(signal.XIDErrors, "", end)]
				samples += short.got[key(signal.WindowSamples, "", end)]
				if v, ok := short.got[key(signal.MemoryUtilizationMax, "", end)]; ok {
					maximum, seen = max(maximum, v), true
				}
			}
			require.InDelta(t, long.got[key(signal.XIDErrors, "", 6*time.Minute)], xids, 1e-9)
			require.InDelta(t, long.got[key(signal.WindowSamples, "", 6*time.Minute)], samples, 1e-9)
			if seen {
				require.InDelta(t, long.got[key(signal.MemoryUtilizationMax, "", 6*time.Minute)], maximum, 1e-9)
			}
			requireMerged(t, scrapes, id, short, long)
		}
	})
}

// requireMerged computes the mean and the time ratio of the long window from the short windows, and
// compares them with the actual values. The weights are computed from the timeline.
func requireMerged(t *rapid.T, scrapes [][]event, id string, short, long *simulation) {
	counts := map[time.Duration]float64{}
	observed := map[time.Duration]float64{}
	var last event
	moved, first := time.Duration(0), true
	for _, scrape := range scrapes {
		for _, ev := range scrape {
			if ev.device != id || ev.stale || ev.implausible() {
				continue
			}
			end := (ev.time + time.Minute - 1).Truncate(time.Minute)
			switch ev.metric.Name {
			case signal.HwGPUMemoryUtilization.Name:
				counts[end]++
			case signal.GPUClockThrottleTime.Name:
				step := ev.value - last.value
				if step < 0 {
					step = ev.value
				}
				if !first && step <= 1.05*(ev.time-moved).Seconds() {
					observed[end] += (ev.time - last.time).Seconds()
				}
				if first || ev.value != last.value {
					moved = ev.time
				}
				last, first = ev, false
			}
		}
	}
	for _, tt := range []struct {
		name    string
		weights map[time.Duration]float64
	}{
		{signal.MemoryUtilizationAvg.Name + " " + id, counts},
		{signal.MemoryPressureRatio.Name + " " + id, counts},
		{signal.ThrottleViolationRatio.Name + " " + id + ",power", observed},
	} {
		var sum, weight float64
		clamped := false
		for end, w := range tt.weights {
			v, ok := short.got[fmt.Sprintf("%s %s", tt.name, end)]
			require.True(t, ok, "%s %s", tt.name, end)
			clamped = clamped || v == 1
			sum += v * w
			weight += w
		}
		v, ok := long.got[fmt.Sprintf("%s %s", tt.name, 6*time.Minute)]
		require.Equal(t, weight > 0, ok, tt.name)
		// If the time ratio of a window was clamped, the part above 1 is missing from the sum.
		if ok && (!clamped || tt.name[:len(signal.ThrottleViolationRatio.Name)] != signal.ThrottleViolationRatio.Name) {
			require.InDelta(t, v, sum/weight, 1e-9, tt.name)
		}
	}
}

func TestNoSampleIsCountedTwiceOrLostWithoutACounter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		scrapes := timeline(t)
		s := newSimulation(time.Minute)
		s.cfg.MaxSeries = rapid.IntRange(1, 12).Draw(t, "max_series")
		s.engine = window.New(s.cfg.settings(), specOrigin)
		offered := uint64(0)
		var times []string
		for _, scrape := range scrapes {
			// Scrapes may arrive late, early, or twice.
			now := scrape[0].time + time.Duration(rapid.IntRange(-80, 200).Draw(t, "delay"))*time.Second
			for range rapid.IntRange(1, 2).Draw(t, "times") {
				s.clock(max(0, now))
				s.ingest(max(0, now), scrape)
				offered += uint64(len(scrape))
			}
		}
		s.fetchWindows(time.Hour)
		stats := s.engine.Stats()
		var counted uint64
		for _, n := range stats.Samples {
			counted += n
		}
		require.Equal(t, offered, counted)
		require.LessOrEqual(t, stats.Series, s.cfg.MaxSeries)
		// The windows contain each accepted sample exactly once.
		var held float64
		for k, v := range s.got {
			if len(k) > len(signal.WindowSamples.Name) && k[:len(signal.WindowSamples.Name)+1] == signal.WindowSamples.Name+" " {
				held += v
			}
		}
		for _, scrape := range scrapes {
			for _, ev := range scrape {
				if ev.metric.Name != signal.HwPower.Name {
					times = append(times, fmt.Sprint(ev.device, ev.time))
				}
			}
		}
		slices.Sort(times)
		require.LessOrEqual(t, held, float64(len(slices.Compact(times))))
	})
}
