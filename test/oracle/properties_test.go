package oracle

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor"
)

// changesNothing lists changes to the input that must not change the result. The say function
// applies a change to the timeline, draws any random values from r, and returns the resulting
// batches.
var changesNothing = []struct {
	name string
	kind kind
	say  func(r *rapid.T, tl timeline) []delivery
}{
	{
		name: "the order of rows",
		kind: kind{mig: true, churn: true},
		say: func(r *rapid.T, tl timeline) []delivery {
			shuffle := rand.New(rand.NewPCG(rapid.Uint64().Draw(r, "order"), 0))
			return tl.each(func(s scrape) scrape {
				s.rows = slices.Clone(s.rows)
				shuffle.Shuffle(len(s.rows), func(i, j int) { s.rows[i], s.rows[j] = s.rows[j], s.rows[i] })
				return s
			}).deliveries(onResources)
		},
	},
	{
		name: "labels on Resources or on points",
		kind: kind{mig: true, churn: true},
		say:  func(_ *rapid.T, tl timeline) []delivery { return tl.deliveries(onPoints) },
	},
	{
		name: "a batch per exporter instead of one for all",
		kind: kind{mig: true, churn: true},
		say: func(_ *rapid.T, tl timeline) []delivery {
			var out []delivery
			for _, s := range tl.scrapes {
				for _, host := range []string{"gpu-node-1", "gpu-node-0"} {
					rows := slices.DeleteFunc(slices.Clone(s.rows), func(r row) bool { return r.labels["Hostname"] != host })
					out = append(out, delivery{s.at, onResources(rows, epoch.Add(s.at))})
				}
			}
			return out
		},
	},
	{
		name: "several scrapes in one batch",
		kind: kind{mig: true, churn: true},
		say: func(r *rapid.T, tl timeline) []delivery {
			var out []delivery
			for i, d := range tl.deliveries(onResources) {
				// Combine only scrapes from the same window, because a batch must arrive before the
				// window of its first scrape closes.
				if i > 0 && windowEnd(d.at) == windowEnd(out[len(out)-1].at) && rapid.Bool().Draw(r, "together") {
					last := &out[len(out)-1]
					d.md.ResourceMetrics().MoveAndAppendTo(last.md.ResourceMetrics())
					last.at = d.at
					continue
				}
				out = append(out, d)
			}
			return out
		},
	},
	{
		name: "a batch that comes twice",
		kind: kind{mig: true, churn: true},
		say: func(r *rapid.T, tl timeline) []delivery {
			var out []delivery
			for _, d := range tl.deliveries(onResources) {
				out = append(out, d)
				if rapid.Bool().Draw(r, "twice") {
					out = append(out, d)
				}
			}
			return out
		},
	},
	{
		name: "a batch that comes again when its window has closed",
		kind: kind{mig: true, churn: true},
		say: func(_ *rapid.T, tl timeline) []delivery {
			out := tl.deliveries(onResources)
			for _, d := range slices.Clone(out) {
				out = append(out, delivery{windowEnd(d.at) + 10*time.Second, d.md})
			}
			slices.SortStableFunc(out, func(a, b delivery) int { return int(a.at - b.at) })
			return out
		},
	},
	{
		name: "pods that share a device, and their number",
		kind: kind{mig: true},
		say: func(r *rapid.T, tl timeline) []delivery {
			return tl.each(func(s scrape) scrape {
				pods := []string{"a", "b", "c"}[:rapid.IntRange(0, 3).Draw(r, "pods")]
				if len(pods) == 0 {
					return s
				}
				var rows []row
				for _, one := range s.rows {
					for _, pod := range pods {
						one.labels = maps.Clone(one.labels)
						one.labels["pod"], one.labels["namespace"], one.labels["container"] = pod, "ml", "main"
						rows = append(rows, one)
					}
				}
				s.rows = rows
				return s
			}).deliveries(onResources)
		},
	},
	{
		name: "labels that hold values or describe the exporter",
		kind: kind{mig: true},
		say: func(r *rapid.T, tl timeline) []delivery {
			return tl.each(func(s scrape) scrape {
				driver := rapid.SampledFrom([]string{"535.129.03", "580.105.08"}).Draw(r, "driver")
				return s.relabel(func(one row) row {
					one.labels["DCGM_FI_DRIVER_VERSION"] = driver
					if one.name == "DCGM_FI_DEV_XID_ERRORS" {
						one.labels["err_code"], one.labels["err_msg"] = number(one.value), "error "+number(one.value)
					}
					return one
				})
			}).deliveries(onResources)
		},
	},
	{
		name: "the labels of --use-old-namespace",
		kind: kind{mig: true, churn: true},
		say: func(_ *rapid.T, tl timeline) []delivery {
			return tl.renamed(map[string]string{
				"UUID": "uuid", "pod": "pod_name", "namespace": "pod_namespace", "container": "container_name",
			}).deliveries(onResources)
		},
	},
	{
		name: "the labels of LINK rows and of exporter 4.8.3",
		kind: kind{mig: true, churn: true},
		say: func(_ *rapid.T, tl timeline) []delivery {
			return tl.renamed(map[string]string{"UUID": "gpu_uuid", "modelName": "model_name", "Hostname": "hostname"}).deliveries(onResources)
		},
	},
	{
		name: "a Prometheus without honor_labels in between",
		kind: kind{mig: true, churn: true},
		say: func(_ *rapid.T, tl timeline) []delivery {
			return tl.renamed(map[string]string{
				"pod": "exported_pod", "namespace": "exported_namespace", "container": "exported_container",
			}).each(func(s scrape) scrape {
				return s.relabel(func(one row) row {
					one.labels["pod"], one.labels["namespace"], one.labels["container"] = "nvidia-dcgm-exporter-x7k2p", "gpu-operator", "exporter"
					return one
				})
			}).deliveries(onPoints)
		},
	},
	{
		name: "the field names of DCGM 4.6",
		kind: kind{mig: true, churn: true},
		say: func(_ *rapid.T, tl timeline) []delivery {
			names := map[string]string{
				"DCGM_FI_PROF_GR_ENGINE_ACTIVE": "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO",
				"DCGM_FI_PROF_SM_ACTIVE":        "DCGM_FI_PROF_SM_UTIL_RATIO",
				"DCGM_FI_PROF_SM_OCCUPANCY":     "DCGM_FI_PROF_SM_OCCUPANCY_RATIO",
				"DCGM_FI_PROF_DRAM_ACTIVE":      "DCGM_FI_PROF_DRAM_UTIL_RATIO",
				"DCGM_FI_DEV_XID_ERRORS":        "DCGM_FI_DEV_XID_ERROR",
			}
			return tl.each(func(s scrape) scrape {
				return s.relabel(func(one row) row {
					if name, ok := names[one.name]; ok {
						one.name = name
					}
					return one
				})
			}).deliveries(onResources)
		},
	},
	{
		name: "what # TYPE says of a rate",
		kind: kind{mig: true},
		say: func(_ *rapid.T, tl timeline) []delivery {
			return tl.each(func(s scrape) scrape {
				return s.relabel(func(one row) row {
					if strings.HasSuffix(one.name, "X_BYTES") {
						one.counter = !one.counter
					}
					return one
				})
			}).deliveries(onResources)
		},
	},
}

// windowEnd returns the end of the window that contains the given time.
func windowEnd(at time.Duration) time.Duration {
	return (at + defaults.Window - 1).Truncate(defaults.Window)
}

func TestChangesNothing(t *testing.T) {
	for _, c := range changesNothing {
		t.Run(c.name, func(t *testing.T) {
			rapid.Check(t, func(r *rapid.T) {
				tl := random(r, c.kind)
				want := run(t, tl.deliveries(onResources)).windows
				if d := differences(want, run(t, c.say(r, tl)).windows); d != "" {
					r.Fatalf("%s\n%s", strings.ReplaceAll(d, "Prometheus", "the plain form"), tl)
				}
			})
		})
	}
}

// The each method returns a copy of the timeline in which the change function has been applied to
// every scrape.
func (tl timeline) each(change func(scrape) scrape) timeline {
	out := timeline{step: tl.step}
	for _, s := range tl.scrapes {
		out.scrapes = append(out.scrapes, change(s))
	}
	return out
}

// relabel returns a copy of the scrape in which the change function has been applied to every row.
// The change function may modify the row's labels.
func (s scrape) relabel(change func(row) row) scrape {
	rows := slices.Clone(s.rows)
	for i := range rows {
		rows[i].labels = maps.Clone(rows[i].labels)
		rows[i] = change(rows[i])
	}
	s.rows = rows
	return s
}

// renamed returns a copy of the timeline with renamed labels. The names map contains the new name
// for each old label name.
func (tl timeline) renamed(names map[string]string) timeline {
	return tl.each(func(s scrape) scrape {
		return s.relabel(func(one row) row {
			for from, to := range names {
				if v, ok := one.labels[from]; ok {
					delete(one.labels, from)
					one.labels[to] = v
				}
			}
			return one
		})
	})
}

// observed returns how long the given row was observed in a window. The observed time starts at the
// row's last sample before the window or, if there is none, at the row's first sample in the
// window. The observed time ends at the row's last sample in the window.
func (tl timeline) observed(name, device string, end, window time.Duration) time.Duration {
	last, from := time.Duration(-1), time.Duration(-1)
	for _, s := range tl.scrapes {
		if s.at > end || !slices.ContainsFunc(s.rows, func(r row) bool { return r.name == name && r.labels["UUID"] == device }) {
			continue
		}
		if s.at <= end-window || from < 0 {
			from = s.at
		}
		last = s.at
	}
	return last - from
}

// violations maps the metric-specific attribute of violation ratios to the corresponding field.
var violations = map[string]string{
	"power":       "DCGM_FI_DEV_POWER_VIOLATION",
	"thermal":     "DCGM_FI_DEV_THERMAL_VIOLATION",
	"sync_boost":  "DCGM_FI_DEV_SYNC_BOOST_VIOLATION",
	"board_limit": "DCGM_FI_DEV_BOARD_LIMIT_VIOLATION",
}

// If the throttle ratios of consecutive windows are weighted by observed time, their average must
// equal the throttle ratio of a longer window, even if samples are missing.
func TestThrottleTimesOfWindowsWeightedByObservedTimeAreThoseOfALongWindow(t *testing.T) {
	const long = 3 * time.Minute
	rapid.Check(t, func(r *rapid.T) {
		tl := random(r, kind{mig: true, churn: true})
		short := run(t, tl.deliveries(onResources)).windows
		for k, want := range run(t, tl.deliveries(onResources), windowOf(long)).windows {
			if k.metric != signal.ThrottleViolationRatio.Name {
				continue
			}
			throttled, observed := 0.0, 0.0
			for end := k.end - long + defaults.Window; end <= k.end; end += defaults.Window {
				ratio, ok := short[key{k.metric, k.own, k.device, end}]
				if !ok {
					continue
				}
				weight := tl.observed(violations[k.own], k.device, end, defaults.Window).Seconds()
				throttled += ratio * weight
				observed += weight
			}
			if !equal(throttled/observed, want) {
				r.Fatalf("%s is %v, but its parts add up to %v\n%s", k, want, throttled/observed, tl)
			}
		}
	})
}

// If no rows are missing, consecutive windows of the other signals can also be merged into a longer
// window. Means are averaged, weighted by the number of samples. For maxima, the highest value is
// used. The numbers of events and samples are added. Coverage is averaged over time.
func TestWindowsOfAWholeTimelineMergeIntoALongWindow(t *testing.T) {
	const long = 3 * time.Minute
	maxima := []*signal.Metric{signal.MemoryUtilizationMax, signal.DRAMActiveMax, signal.UtilizationMax}
	sums := []*signal.Metric{signal.XIDErrors, signal.WindowSamples}
	is := func(list []*signal.Metric, name string) bool {
		return slices.ContainsFunc(list, func(m *signal.Metric) bool { return m.Name == name })
	}
	rapid.Check(t, func(r *rapid.T) {
		tl := random(r, kind{mig: true, churn: true, complete: true})
		short := run(t, tl.deliveries(onResources)).windows
		for k, want := range run(t, tl.deliveries(onResources), windowOf(long)).windows {
			if k.metric == signal.ThrottleViolationRatio.Name || k.metric == signal.ThrottleTimeRatio.Name {
				continue
			}
			sum, highest, weighted, samples, windows := 0.0, math.Inf(-1), 0.0, 0.0, 0.0
			for end := k.end - long + defaults.Window; end <= k.end; end += defaults.Window {
				windows++
				v, ok := short[key{k.metric, k.own, k.device, end}]
				if !ok {
					continue
				}
				n := short[key{signal.WindowSamples.Name, "", k.device, end}]
				sum += v
				highest = max(highest, v)
				weighted += n * v
				samples += n
			}
			got := weighted / samples
			switch {
			case is(maxima, k.metric):
				got = highest
			case is(sums, k.metric):
				got = sum
			case k.metric == signal.WindowCoverage.Name:
				got = sum / windows
			}
			if !equal(got, want) {
				r.Fatalf("%s is %v, but its parts add up to %v\n%s", k, want, got, tl)
			}
		}
	})
}

// Together, the windows must contain the complete increase in a counter from its first to its last
// sample, even if samples in between are missing.
func TestNothingIsLostAtTheSeamsOfWindows(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		tl := random(r, kind{mig: true, churn: true, steady: true})
		got := run(t, tl.deliveries(onResources)).windows
		total := map[string]map[string]float64{}
		for k, ratio := range got {
			if k.metric == signal.ThrottleViolationRatio.Name {
				if total[k.device] == nil {
					total[k.device] = map[string]float64{}
				}
				total[k.device][k.own] += ratio * tl.observed(violations[k.own], k.device, k.end, defaults.Window).Seconds()
			}
		}
		for device, ratios := range total {
			for own, seconds := range ratios {
				var values []float64
				for _, s := range tl.scrapes {
					for _, one := range s.rows {
						if one.name == violations[own] && one.labels["UUID"] == device {
							values = append(values, one.value)
						}
					}
				}
				if moved := (values[len(values)-1] - values[0]) / 1e9; !equal(seconds, moved) {
					r.Fatalf("%s of %s: %v s in the windows, %v s on the counter\n%s", own, device, seconds, moved, tl)
				}
			}
		}
	})
}

// hostile returns a timeline's batches, modified in ways that no exporter should cause: with
// impossible values, jumping timestamps, and late or repeated batches.
func hostile(r *rapid.T, tl timeline) []delivery {
	junk := []float64{
		math.NaN(), math.Inf(1), math.Inf(-1), -1, 0, 1.5, 1e300, -1e300, 5e-324, math.MaxFloat64,
		2147483632, 140737488355328, 9223372036854775794, 18446744073709551615,
	}
	step := time.Duration(0)
	var out []delivery
	for _, s := range tl.scrapes {
		s.rows = slices.Clone(s.rows)
		for range len(s.rows) / 8 {
			i := rapid.IntRange(0, len(s.rows)-1).Draw(r, "row")
			s.rows[i].value = rapid.SampledFrom(junk).Draw(r, "junk")
		}
		if rapid.IntRange(0, 9).Draw(r, "step") == 9 {
			step = time.Duration(rapid.IntRange(-200, 200).Draw(r, "seconds")) * time.Second
		}
		d := delivery{s.at, onResources(s.rows, epoch.Add(s.at+step))}
		if rapid.IntRange(0, 4).Draw(r, "late") == 4 {
			d.at += time.Duration(rapid.IntRange(0, 200).Draw(r, "delay")) * time.Second
		}
		out = append(out, d)
		if rapid.IntRange(0, 4).Draw(r, "again") == 4 {
			out = append(out, delivery{d.at + time.Duration(rapid.IntRange(0, 200).Draw(r, "delay"))*time.Second, d.md})
		}
	}
	slices.SortStableFunc(out, func(a, b delivery) int { return int(a.at - b.at) })
	return out
}

// For any input, each window must be sent only once and must end at a multiple of the window
// length, ratios must be in [0, 1], counts must be integers, and every sample must be counted. The
// run function checks that windows are sent only once and that every sample is counted.
//
// A synctest bubble's clock never goes back, so only the timestamps of samples jump in this test.
// The window engine's own tests cover jumps of the wall clock.
func TestWindowsAreInBoundsForAnyInput(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		tl := random(r, kind{mig: true, churn: true})
		for k, v := range run(t, hostile(r, tl)).windows {
			m, _ := signal.Lookup(k.metric)
			switch {
			case k.end%defaults.Window != 0:
				r.Fatalf("%s does not end at a window boundary", k)
			case math.IsNaN(v) || math.IsInf(v, 0) || v < 0:
				r.Fatalf("%s is %v", k, v)
			case m.Unit == "1" && v > 1:
				r.Fatalf("%s is %v", k, v)
			case m.Int && v != math.Trunc(v):
				r.Fatalf("%s is %v", k, v)
			}
		}
	})
}

// A series that exceeds max_series must always be refused. The windows of the existing series must
// be the same as if the refused series did not exist.
func TestTooManySeriesDoNotAffectExistingOnes(t *testing.T) {
	text := ""
	for _, id := range []string{"0", "1", "2"} {
		text += `DCGM_FI_PROF_DRAM_ACTIVE{UUID="GPU-` + id + `",Hostname="n",modelName="m"} ` +
			map[string]string{"0": "_ 0.5x5", "1": "_ 0.25x5", "2": "_ _ 0.75x4"}[id] + "\n"
	}
	tl := load(t, defaults.Step, text)
	all := run(t, tl.deliveries(onResources))
	some := run(t, tl.deliveries(onResources), func(c *gpuwindowprocessor.Config) { c.MaxSeries = 2 })
	assert.Equal(t, int64(5), some.outcomes["refused"])
	for k, v := range all.windows {
		if k.device != "GPU-2" {
			assert.InDelta(t, v, some.windows[k], 0, k.String())
		} else {
			assert.NotContains(t, some.windows, k)
		}
	}
}
