package verify

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Names of the sources.
const (
	NVML = "nvml"
	DCGM = "dcgm-exporter"
	SMI  = "nvidia-smi"
)

// Question is a question that only a measurement on real hardware can answer.
type Question struct {
	Text    string
	Verdict Verdict
	// Evidence contains one sentence for each observation on which the verdict is based.
	Evidence []string
}

// decide adds an observation to the evidence and updates the verdict. A verdict of No is final.
func (q *Question) decide(v Verdict, format string, a ...any) {
	if q.Verdict == "" || q.Verdict == Undecided || v == No {
		q.Verdict = v
	}
	q.Evidence = append(q.Evidence, fmt.Sprintf(format, a...))
}

// If the question has no verdict yet, this method sets the verdict to Undecided, with the given
// reason. The method returns the question.
func (q *Question) otherwise(format string, a ...any) Question {
	if q.Verdict == "" {
		q.decide(Undecided, format, a...)
	}
	return *q
}

// minShare is a fraction of the measured time. A time counter is ignored if both its increase and
// the time during which its reason was set are below minShare.
const minShare = 0.02

// reasons maps throttling policies to clock event reasons. A policy that is not listed has the same
// name as its reason.
var reasons = map[string]string{"power": "sw_power_cap", "thermal": "sw_thermal"}

// timeCounters answers whether the metric's time counters, which are in seconds, increase while
// their reasons are set. The text parameter contains the wording of the question.
func timeCounters(text string, m *signal.Metric, sources map[string]Readings) Question {
	q := Question{Text: text}
	for _, source := range []string{NVML, DCGM, SMI} {
		for _, key := range keys(sources[source], m) {
			samples := sources[source][key]
			if !rises(samples) {
				q.decide(No, "%s: %s of %s decreases", source, key.name(), key.Device)
				continue
			}
			f, ok := figure(m, samples)
			share, known := activeShare(sources, Key{key.Device, signal.GPUClockEventActive.Name, cmp.Or(reasons[key.Part], key.Part)})
			if !ok || !known || share < minShare && f.Value < minShare {
				continue
			}
			evidence := fmt.Sprintf("%s: %s of %s increases by %.3g s per second, and the reason is set in %.0f%% of the samples", source, key.name(), key.Device, f.Value, 100*share)
			switch ratio := f.Value / share; {
			case ratio > 0.5 && ratio < 2:
				q.decide(Yes, "%s", evidence)
			case ratio > 0.0005 && ratio < 0.002:
				q.decide(No, "%s: as if it were microseconds", evidence)
			case f.Value == 0 && share > 0.2:
				q.decide(No, "%s: it does not increase", evidence)
			default:
				q.decide(Undecided, "%s", evidence)
			}
		}
	}
	return q.otherwise("clocks were not throttled for %.0f%% of the time; -load may cause throttling", 100*minShare)
}

// activeShare returns the fraction of samples in which a reason was set. Only the source with the
// most samples is considered.
func activeShare(sources map[string]Readings, key Key) (share float64, known bool) {
	most := 0
	for _, readings := range sources {
		samples := readings[key]
		if f, ok := figure(metrics[key.Metric], samples); ok && len(samples) > most {
			share, known, most = f.Value, true, len(samples)
		}
	}
	return share, known
}

func keys(r Readings, m *signal.Metric) []Key {
	sorted := slices.SortedFunc(maps.Keys(r), Key.compare)
	return slices.DeleteFunc(sorted, func(k Key) bool { return k.Metric != m.Name })
}

// answerQuestions answers the questions based on the readings. The loaded parameter is the time at
// which the load started, or zero if there was no load.
func answerQuestions(sources map[string]Readings, comparisons []Comparison, costs []*meter, loaded time.Time) []Question {
	out := []Question{
		timeCounters("Are violation counters nanoseconds on this driver?", signal.GPUClockThrottleTime, sources),
		timeCounters("Do the counters of clock event reasons accumulate?", signal.GPUClockEventTime, sources),
		collectionCost(costs), profilingAgrees(comparisons),
	}
	if !loaded.IsZero() {
		out = append(out, loadIsVisible(sources, loaded))
	}
	return out
}

func collectionCost(costs []*meter) Question {
	q := Question{Text: "What does a collection of the nvml receiver cost?"}
	for _, c := range costs {
		if c.collections > 0 {
			q.decide(Yes, "hold: %s takes %.1f ms, mean of %d", c.hold, 1000*c.seconds/float64(c.collections), c.collections)
		}
	}
	return q.otherwise("no collection took place")
}

// profilingAgrees checks whether NVML's performance counters and DCGM's profiling metrics have the
// same values.
func profilingAgrees(comparisons []Comparison) Question {
	q := Question{Text: "Do NVML's performance counters (GPM) and DCGM's profiling agree?"}
	counters := []string{
		signal.GPUSMActive.Name, signal.GPUSMOccupancy.Name, signal.GPUDRAMActive.Name, signal.GPUPipeActive.Name,
		signal.GPUPCIeThroughput.Name, signal.GPUNVLinkThroughput.Name,
	}
	for i := range comparisons {
		c := &comparisons[i]
		n, nvml := c.Figures[NVML]
		d, dcgm := c.Figures[DCGM]
		if !nvml || !dcgm || !slices.Contains(counters, c.Metric) {
			continue
		}
		verdict := Yes
		if _, within := apart(metrics[c.Metric].Unit, n, d); !within {
			verdict = No
		}
		q.decide(verdict, "%s of %s: %.4g and %.4g %s", c.name(), c.Device, n.Value, d.Value, c.Unit)
	}
	return q.otherwise("no value is available from both")
}

// loadIsVisible checks whether the load changed those metrics of the nvml receiver that a load
// should affect.
func loadIsVisible(sources map[string]Readings, loaded time.Time) Question {
	q := Question{Text: "Is a load visible in utilization, power, clocks, memory and processes?"}
	for _, expected := range []struct {
		metric *signal.Metric
		part   string
		change float64 // minimum change
	}{
		{signal.HwGPUUtilization, signal.TaskGeneral, 0.2},
		{signal.HwPower, "", 10},
		{signal.GPUClockFrequency, signal.DomainSM, 1e6},
		{signal.HwGPUMemoryUsage, "", 64 << 20},
		{signal.GPUProcessCount, "", 1},
	} {
		for _, key := range keys(sources[NVML], expected.metric) {
			before, after := since(sources[NVML][key], loaded)
			if n := len(before); n > 1 {
				before = before[:n-1] // the load may have started during the last reading
			}
			idle, ok := figure(expected.metric, before)
			if !ok || len(after) == 0 || key.Part != expected.part {
				continue
			}
			busy := slices.MaxFunc(after, func(a, b Sample) int { return cmp.Compare(a.Value, b.Value) })
			verdict := Yes
			if busy.Value-idle.Value < expected.change {
				verdict = No
			}
			q.decide(verdict, "%s of %s: %.4g without, up to %.4g with the load", key.name(), key.Device, idle.Value, busy.Value)
		}
	}
	return q.otherwise("no value was read both before and during the load")
}
