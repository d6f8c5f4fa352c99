package findings_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/otelcol-gpu/otelcol-gpu/internal/findings"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// score summarizes, for many timelines, which findings are false and which faults the rules missed.
type score struct {
	timelines                int
	deviceHours, faultyHours float64
	// For each rule, expected[rule] counts the devices whose fault was observed for at least twice
	// the time that the rule requires, and found[rule] counts those devices for which the rule
	// detected the fault.
	expected, found map[string]int
	// The first list contains the false findings in timelines without faults. The second list
	// contains the false findings in timelines with faults.
	wrong, wrongWithFaults []string
	missed                 []string
}

// judgeWorld runs the rules on the timeline with the given seed and adds the result to the score.
func (s *score) judgeWorld(seed uint64) {
	w := newWorld(seed)
	set := findings.DefaultSettings()
	tracker := findings.New(set)
	waits := map[string]float64{}
	for rule, wait := range map[string]time.Duration{
		"spinning": set.Spinning.For, "latched_utilization": set.LatchedUtilization.For, "slow_device": set.SlowDevice.For,
		"memory_degrading": set.MemoryDegrading.For, "frozen_telemetry": set.FrozenTelemetry.For,
	} {
		waits[rule] = wait.Seconds()
	}
	found := map[string]bool{}
	last, observed := -1.0, 0.0
	w.frames(func(t float64, f *gpudata.Frame) {
		if len(w.faults) > 0 && last >= w.faults[0].begin && t < w.faults[0].end && t-last <= set.MaxGap.Seconds() {
			observed += t - last
		}
		last = t
		tracker.Frame(f, start.Add(time.Duration(t*float64(time.Second))))
		for i := range f.Findings {
			x := &f.Findings[i]
			if !x.Start {
				continue
			}
			devices := []string{x.Device}
			if x.Workload {
				devices = x.Lists[signal.EvidenceDevices]
			}
			wrong := false
			for _, id := range devices {
				if w.isTrue(x.Name, id, t) {
					found[x.Name+id] = true
				} else {
					wrong = true
				}
			}
			text := fmt.Sprintf("timeline %d, %.0f s: %s", seed, t, x.Body)
			switch {
			case !wrong:
			case len(w.faults) > 0:
				s.wrongWithFaults = append(s.wrongWithFaults, text)
			default:
				s.wrong = append(s.wrong, text)
			}
		}
	})
	s.timelines++
	hours := float64(len(w.boards)) * w.length / 3600
	if len(w.faults) == 0 {
		s.deviceHours += hours
		return
	}
	s.faultyHours += hours
	x := w.faults[0]
	if observed < 2*waits[x.rule] {
		return
	}
	for _, d := range x.devices {
		s.expected[x.rule]++
		if found[x.rule+w.boards[d].id] {
			s.found[x.rule]++
		} else {
			s.missed = append(s.missed, fmt.Sprintf("timeline %d, %s of GPU-%d at %.0f s to %.0f s, a sample each %.0f s", seed, x.rule, d, x.begin, x.end, w.every))
		}
	}
}

// isTrue reports whether a device had a fault at time t or shortly before it.
func (w *world) isTrue(rule, id string, t float64) bool {
	for _, x := range w.faults {
		after := 2 * w.every
		if rule == "memory_degrading" {
			after = 3600 // the rate is measured over the last hour
		}
		for _, d := range x.devices {
			if x.rule == rule && w.boards[d].id == id && t >= x.begin && t < x.end+after {
				return true
			}
		}
	}
	return false
}

func TestFaultsAreFoundAndHealthyDevicesAreNot(t *testing.T) {
	timelines := uint64(2000)
	if testing.Short() {
		timelines = 200
	}
	s := score{expected: map[string]int{}, found: map[string]int{}}
	for seed := range timelines {
		s.judgeWorld(seed)
	}
	expected, got := 0, 0
	for rule, n := range s.expected {
		expected, got = expected+n, got+s.found[rule]
		t.Logf("%s: found on %d of %d devices", rule, s.found[rule], n)
		assert.GreaterOrEqual(t, float64(s.found[rule]), 0.99*float64(n), "%s:\n%s", rule, strings.Join(s.missed, "\n"))
	}
	t.Logf("%d timelines; %.0f device-hours without faults, %d false findings; %.0f with faults, %d false findings; recall %d/%d",
		s.timelines, s.deviceHours, len(s.wrong), s.faultyHours, len(s.wrongWithFaults), got, expected)
	t.Logf("the hardest cases:\n%s", strings.Join(slices.Concat(s.missed, s.wrongWithFaults), "\n"))
	assert.LessOrEqual(t, float64(len(s.wrong)), s.deviceHours/10_000, "in %.0f device-hours:\n%s", s.deviceHours, strings.Join(s.wrong, "\n"))
	assert.LessOrEqual(t, float64(len(s.wrongWithFaults)), s.faultyHours/5000, strings.Join(s.wrongWithFaults, "\n"))
}
