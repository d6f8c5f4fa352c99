package findings

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

const (
	spinningGPU = "util=0.98 power=70.1 limit=400 tensor=0 dram=0.004 pcie=0.001 holder=p0"
	latchedGPU  = "util=1 power=20.4 idle=19 holder=nobody"
	trainingGPU = "util=1 power=390.4 limit=400 tensor=0.4 dram=0.5 pcie=0.1 sm=1.8e9 active_hw_thermal=0 energy=+390"
)

func TestAConditionBecomesAFindingAfterItsDuration(t *testing.T) {
	for name, c := range map[string]struct {
		timeline string
		want     []string
	}{
		"spinning": {"0s G " + spinningGPU + "\n20m G util=0.3\n30m end", []string{"5m0s start spinning G", "21m0s end spinning G"}},
		"latched":  {"0s G " + latchedGPU + "\n20m G util=0\n30m end", []string{"10m0s start latched_utilization G", "22m15s end latched_utilization G"}},
		"frozen": {
			"0s G power=70.123 temp=40 sm=1e9 mem=1e9\n20m G power=70.124\n21m G power=70.125\n25m end",
			[]string{"5m15s start frozen_telemetry G"},
		},
		"slow": {
			"0s A,B,C,D " + trainingGPU + " holder=p/job\n5m D sm=1.6e9 active_hw_thermal=1\n20m D sm=1.8e9\n30m end",
			[]string{"8m0s start slow_device D", "20m30s end slow_device D"},
		},
		"pending row remap":                                {"0s G pending=0\n5m G pending=1\n6m G pending=0\n9m end", []string{"5m0s start memory_degrading G", "6m0s end memory_degrading G"}},
		"growth of remapped rows":                          {"every 60s\n0s G row_remap_correctable=3\n5m G row_remap_correctable=4\n2h end", []string{"5m0s start memory_degrading G", "1h5m0s end memory_degrading G"}},
		"corrected errors":                                 {"every 60s\n0s G corrected=+0.3\n3h G corrected=3240\n5h end", []string{"1h0m0s start memory_degrading G", "4h0m0s end memory_degrading G"}},
		"too few corrected errors":                         {"every 60s\n0s G corrected=+0.25\n5h end", nil},
		"a board's first remapped row count is a baseline": {"0s G corrected=0\n5m G row_remap_uncorrectable=2\n10m end", nil},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, found(t, c.timeline)) })
	}
}

func TestSimilarSituationsAreNoFindings(t *testing.T) {
	for name, timeline := range map[string]string{
		"a busy GPU":                         "0s G " + trainingGPU + " holder=p\n2h end",
		"kernels of integers":                "0s G " + spinningGPU + " power=260.2\n2h end",
		"kernels bound by memory":            "0s G " + spinningGPU + " dram=0.7\n2h end",
		"a transfer over NVLink":             "0s G " + spinningGPU + " nvlink_rate=1e10 nvlink=0.02\n2h end",
		"spinning of a GPU without a holder": "0s G " + spinningGPU + " holder=nobody\n2h end",
		"a barrier of 4 minutes":             "0s G " + spinningGPU + "\n4m G tensor=0.4\n6m G tensor=0\n10m G tensor=0.4\n20m end",
		"work at idle power":                 "0s G " + latchedGPU + " holder=p processes=1\n2h end",
		"utilization at more than idle":      "0s G " + latchedGPU + " power=21.1\n2h end",
		"slow without a reason":              "0s A,B,C,D " + trainingGPU + " holder=p/job\n5m D sm=1.6e9\n2h end",
		"slow among three":                   "0s A,B,C " + trainingGPU + " holder=p/job\n5m C sm=1.6e9 active_hw_thermal=1\n2h end",
		"slow among other models":            "0s A,B,C,D " + trainingGPU + " holder=p/job\n0s D model=L4 sm=1.6e9 active_hw_thermal=1\n2h end",
		"slow among other workloads":         "0s A,B,C,D " + trainingGPU + " holder=p/job\n0s D holder=q/other sm=1.6e9 active_hw_thermal=1\n2h end",
		"whole watts of an idle board":       "0s G power=25 temp=31 sm=2.1e8 mem=4.05e8\n2h end",
		"an energy counter that is always 0": "0s G energy=0\n2h end",
		"an exporter that caches for 30s":    "0s G energy=1\n15s G energy=1\n30s G energy=2\n60s G energy=3\n90s G energy=4\n2m G energy=+1\n2h end",
		"an instance without its own power":  "0s B energy=+1\n0s B/gi1 parent=B util=1 tensor=0 dram=0 pcie=0 holder=p\n2h end",
	} {
		t.Run(name, func(t *testing.T) { assert.Empty(t, found(t, timeline)) })
	}
}

func TestOneSampleThatDoesNotMeetTheConditionEndsNoFinding(t *testing.T) {
	assert.Equal(t, []string{"6m30s start spinning G"},
		found(t, "0s G "+spinningGPU+"\n4m G util=0.2\n4m15s G util=0.98\n20m G util=0.2\n20m15s G util=0.98\n30m end"))
}

func TestExactTimesExplainAClockWithoutReasons(t *testing.T) {
	slow := "0s A,B,C,D sm=1.8e9 %s=0 holder=p/job\n5m D sm=1.6e9 %[1]s=%s\n20m end"
	assert.Equal(t, []string{"8m0s start slow_device D"}, found(t, fmt.Sprintf(slow, "time_sw_power_cap", "+0.5")))
	assert.Equal(t, []string{"8m0s start slow_device D"}, found(t, fmt.Sprintf(slow, "violation_power", "+0.5")))
	assert.Empty(t, found(t, fmt.Sprintf(slow, "violation_power", "+0.05")))
}

// Intel's exporter exposes the clock event reasons of Level Zero but no exact times.
func TestAReasonOfAnyVendorExplainsAClock(t *testing.T) {
	for _, reason := range signal.Values(signal.ClockEventReason) {
		slow := "0s A,B,C,D sm=1.8e9 active_%[1]s=0 holder=p/job\n5m D sm=1.6e9 active_%[1]s=1\n20m end"
		got := run(t, parseTimeline(t, fmt.Sprintf(slow, reason)), DefaultSettings())
		assert.Contains(t, got, "8m0s start slow_device D\n")
		assert.Contains(t, got, "\n\tgpu.finding.cause="+reason+"\n")
	}
}

func TestAPCIeLinkWithLessCapacityExplainsAClockWithoutReasons(t *testing.T) {
	link := "0s A,B,C,D sm=1.8e9 active_hw_thermal=0 pcie=0.1 pcie_rate=6.3e9 holder=p/job\n5m D sm=1.6e9 pcie=%s pcie_rate=%s\n20m end"
	assert.Equal(t, []string{"8m0s start slow_device D"}, found(t, fmt.Sprintf(link, "0.1", "3.15e9")), "half the lanes")
	assert.Empty(t, found(t, fmt.Sprintf(link, "0.1", "6.3e9")), "the same capacity")
	assert.Empty(t, found(t, fmt.Sprintf(link, "1", "31.5e9")), "a utilization that may have been clamped")
	assert.Empty(t, found(t, fmt.Sprintf(link, "0", "0")), "an idle link shows no capacity")
}

// Some GPUs use fewer lanes while they are idle, so the link width is evidence only while the GPU
// is busy.
func TestAPCIeLinkWithFewerLanesExplainsTheClockOfABusyGPU(t *testing.T) {
	link := "0s A,B,C,D util=0.9 sm=1.8e9 active_hw_thermal=0 lanes=16 holder=p/job\n5m D sm=1.6e9 util=%s lanes=%s\n20m end"
	assert.Contains(t, run(t, parseTimeline(t, fmt.Sprintf(link, "0.9", "8")), DefaultSettings()), "gpu.finding.cause=pcie_link")
	assert.Empty(t, found(t, fmt.Sprintf(link, "0.9", "16")), "the same width")
	assert.Empty(t, found(t, fmt.Sprintf(link, "0.9", "-")), "an unknown width")
	assert.Empty(t, found(t, fmt.Sprintf(link, "0", "8")), "an idle GPU")
}

func TestGapsAreNoEvidence(t *testing.T) {
	t.Run("during a condition that is not yet a finding", func(t *testing.T) {
		assert.Equal(t, []string{"1h5m0s start spinning G"}, found(t, "0s G "+spinningGPU+"\n4m all gap=true\n60m all gap=false\n70m end"))
	})
	t.Run("during a finding", func(t *testing.T) {
		assert.Equal(t, []string{"5m0s start spinning G"}, found(t, "0s G "+spinningGPU+"\n6m all gap=true\n60m all gap=false\n70m end"))
	})
	t.Run("between equal energies", func(t *testing.T) {
		assert.Empty(t, found(t, "every 2m\n0s G energy=1\n2h end"))
	})
	t.Run("between counts of errors", func(t *testing.T) {
		assert.Empty(t, found(t, "every 60s\n0s G corrected=5\n30m all gap=true\n50m G corrected=5000\n60m all gap=false\n5h end"))
	})
}

func TestASampleExistsWhileTheRuleCanBeEvaluated(t *testing.T) {
	timeline := "0s G " + spinningGPU + "\n10m G tensor=-\n11m G tensor=0\n12m end"
	assert.Equal(t, []float64{0}, samples(t, timeline, "G", "spinning", time.Minute))
	assert.Equal(t, []float64{1}, samples(t, timeline, "G", "spinning", 5*time.Minute))
	assert.Empty(t, samples(t, timeline, "G", "spinning", 10*time.Minute))
	assert.Equal(t, []float64{1}, samples(t, timeline, "G", "spinning", 11*time.Minute))
	assert.Empty(t, samples(t, timeline, "G", "latched_utilization", time.Minute))
}

// If a signal that a rule requires is absent, the rule produces neither a sample of gpu.finding nor
// an event.
func TestARuleIsSilentIfASignalIsAbsent(t *testing.T) {
	for rule, devices := range map[string]struct {
		text   string
		needed []string
	}{
		"spinning":            {"G " + spinningGPU, []string{"util", "tensor", "dram", "pcie", "power", "limit", "holder"}},
		"latched_utilization": {"G " + latchedGPU, []string{"util", "power", "idle", "holder"}},
		"slow_device":         {"G,B,C,D sm=1.8e9 active_hw_thermal=1 holder=p/job\n0s G sm=1e9", []string{"sm", "active_hw_thermal", "holder"}},
		"memory_degrading":    {"G pending=1", []string{"pending"}},
		"frozen_telemetry":    {"G power=1.5 temp=3 sm=5e8 mem=5e8", []string{"power", "temp", "sm", "mem"}},
	} {
		whole := "0s " + devices.text + "\n30m end"
		require.NotEmpty(t, found(t, whole), rule)
		for _, key := range devices.needed {
			timeline := "0s " + devices.text + "\n0s G " + key + "=-\n30m end"
			assert.Empty(t, found(t, timeline), "%s without %s", rule, key)
			assert.Empty(t, samples(t, timeline, "G", rule, 20*time.Minute), "%s without %s", rule, key)
		}
	}
}

func TestAPendingRowRemapIsFoundBehindAWorseStatus(t *testing.T) {
	assert.Equal(t, []string{"5m0s start memory_degrading G"}, found(t, "0s G pending=0 failed=1\n5m G predicted=true\n9m end"))
	assert.Equal(t, []string{"5m0s start memory_degrading G", "9m0s end memory_degrading G"},
		found(t, "0s G pending=0 failed=0\n5m G pending=1 predicted=true\n6m G pending=0 failed=1\n9m G failed=0 predicted=false\n12m end"))
}

// hw.status contains only the worst state. A failed board may also have a pending row remap, but
// frames that were read from data points do not show the pending remap.
func TestAPendingRowRemapIsNotKnownWhileTheStatusIsWorse(t *testing.T) {
	const worse = "0s G pending=0 failed=1 row_remap_correctable=0\n"
	assert.Empty(t, samples(t, worse+"20m end", "G", "memory_degrading", 10*time.Minute))
	assert.Equal(t, []string{"5m0s start memory_degrading G"},
		found(t, "0s G pending=0 failed=0 row_remap_correctable=0\n5m G pending=1\n6m G pending=0 failed=1\n20m end"), "the finding stays")
	assert.Equal(t, []string{"5m0s start memory_degrading G"},
		found(t, worse+"5m G row_remap_correctable=1\n20m end"), "the number of remapped rows is known")
}

func TestSpinningWithoutTheCapacityOfNVLinkIsNotJudged(t *testing.T) {
	assert.Empty(t, samples(t, "0s G "+spinningGPU+" nvlink_rate=5\n20m end", "G", "spinning", 10*time.Minute))
}

func TestFrozenValuesAreNoEvidenceForOtherRules(t *testing.T) {
	assert.Equal(t, []string{"5m15s start frozen_telemetry G"}, found(t, "0s G "+spinningGPU+" energy=7\n2h end"))
}

// While values are frozen, the condition of another rule is as unknown as during a gap.
func TestEvidenceFromBeforeFrozenValuesIsForgotten(t *testing.T) {
	assert.Equal(t, []string{"8m15s start frozen_telemetry G", "31m0s end frozen_telemetry G", "35m0s start spinning G"},
		found(t, "0s G "+spinningGPU+"\n3m G energy=7\n30m G energy=+1\n36m end"))
}

func TestAWorkloadThatSpinsIsOneFinding(t *testing.T) {
	start := "0s A,B,C " + spinningGPU + " holder=p/job\n"
	for name, c := range map[string]struct {
		timeline string
		want     []string
	}{
		"all devices":                       {start + "20m A util=0\n25m B,C util=0\n30m end", []string{"5m0s start spinning workload", "26m0s end spinning workload"}},
		"all but one":                       {start + "0s D " + trainingGPU + " util=0 holder=p/job\n9m end", []string{"5m0s start spinning workload"}},
		"all but two":                       {start + "0s D,E " + trainingGPU + " util=0 holder=p/job\n9m end", []string{"5m0s start spinning A", "5m0s start spinning B", "5m0s start spinning C"}},
		"one device that starts later":      {"0s A,B,C " + spinningGPU + " holder=p/job\n0s A util=0\n2m A util=1\n9m end", []string{"5m0s start spinning workload"}},
		"one device that starts much later": {"0s A,B,C " + spinningGPU + " holder=p/job\n0s A util=0\n3m A util=1\n9m end", []string{"5m0s start spinning B", "5m0s start spinning C", "8m0s start spinning A"}},
		"a single device":                   {"0s A " + spinningGPU + " holder=p/job\n9m end", []string{"5m0s start spinning A"}},
		"a pod without owner":               {"0s A,B " + spinningGPU + " holder=p\n9m end", []string{"5m0s start spinning workload"}},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, found(t, c.timeline)) })
	}
}

// While one job hangs for two days, another job on the node hangs and recovers every ten minutes.
func TestEveryFindingAboutAWorkloadEndsHoweverManyThereAre(t *testing.T) {
	const cycles = 300
	text := "0s C,D " + spinningGPU + " holder=q/long\n0s A,B " + spinningGPU + " holder=p/job\n"
	for i := range cycles {
		from := time.Duration(i) * 10 * time.Minute
		text += fmt.Sprintf("%s A,B util=0.98\n%s A,B util=0\n", from, from+6*time.Minute)
	}
	counts := map[string]int{}
	for _, l := range found(t, fmt.Sprintf("%s%s end\n", text, cycles*10*time.Minute)) {
		_, what, _ := strings.Cut(l, " ")
		counts[what]++
	}
	assert.Equal(t, map[string]int{"start spinning workload": cycles + 1, "end spinning workload": cycles}, counts, "the long job has not ended")
}

func TestAFindingEndsWhenItsSignalsStayAbsent(t *testing.T) {
	assert.Equal(t, []string{"5m0s start spinning G", "14m45s end spinning G"}, found(t, "0s G "+spinningGPU+"\n10m G holder=-\n30m end"))
}

func TestAFindingOfADeviceThatIsGoneEndsAfterAnHour(t *testing.T) {
	got := found(t, "0s H energy=+1\n0s G "+spinningGPU+"\n10m G gone=true\n90m end")
	require.Len(t, got, 2)
	assert.Equal(t, "1h10m0s end spinning G", got[1], "an hour after its last sample, in the next frame")
}

// The at function returns a frame that contains one spinning GPU. The frame's time is s seconds
// after the start of the timeline.
func at(s int64) *gpudata.Frame {
	f := &gpudata.Frame{Place: node, Time: epoch.Unix()*1e9 + s*1e9}
	d := f.Device("G")
	d.Observed = true
	d.User(gpudata.Holder{Namespace: "n", Pod: "p"}).Holds = true
	for key, v := range map[string]float64{"util": 1, "tensor": 0, "dram": 0, "pcie": 0, "power": 50, "limit": 400} {
		sample := series[key]
		sample.Value = v
		d.Samples.Add(sample)
	}
	return f
}

func TestAClockThatIsSetBackIsNoEvidence(t *testing.T) {
	tracker := New(DefaultSettings())
	var got []string
	see := func(wall, sample int64) {
		f := at(sample)
		tracker.Frame(f, epoch.Add(time.Duration(wall)*time.Second))
		for i := range f.Findings {
			got = append(got, lineOf(time.Duration(wall)*time.Second, &f.Findings[i]))
		}
	}
	for s := int64(0); s < 240; s += 15 {
		see(s, s)
	}
	for s := int64(240); s < 800; s += 15 {
		see(s, s-3600)
	}
	// The tracker does not evaluate frames that are older than the newest frame, so there is a gap
	// of 345 s until the tracker accepts that the clock was set back. Because the gap is longer
	// than max_gap, the evidence decreases by 91 s, from 225 s to 134 s. The rule requires 300 s of
	// evidence, so another 166 s are needed.
	assert.Equal(t, []string{"8m45s start spinning G"}, got)
	assert.EqualValues(t, 1, tracker.SetBack.Load())
	see(900, 90_000)
	assert.EqualValues(t, 1, tracker.Future.Load())
	assert.Len(t, got, 1)
}

func TestRepeatedFramesAreNoEvidence(t *testing.T) {
	tracker := New(DefaultSettings())
	for range 100 {
		f := at(0)
		tracker.Frame(f, epoch)
		assert.Empty(t, f.Findings)
	}
}

func TestMoreDevicesThanTheLimitAreNotJudged(t *testing.T) {
	tracker := New(DefaultSettings())
	f := &gpudata.Frame{Place: node, Time: epoch.UnixNano()}
	for i := range maxDevices + 3 {
		f.Device(fmt.Sprint(i)).Observed = true
	}
	tracker.Frame(f, epoch)
	assert.EqualValues(t, 3, tracker.Refused.Load())
}

func TestPlacesWithoutFramesAreDeleted(t *testing.T) {
	tracker := New(DefaultSettings())
	tracker.Frame(at(0), epoch)
	other := at(90_000)
	other.Place.Node = "n2"
	tracker.Frame(other, epoch.Add(25*time.Hour))
	assert.Equal(t, 1, tracker.places.Len())
}

func TestADisabledRuleIsNotJudged(t *testing.T) {
	set := DefaultSettings()
	set.Spinning.Enabled = false
	assert.Empty(t, run(t, parseTimeline(t, "0s G "+spinningGPU+"\n30m end"), set))
}

func TestTheRulesMatchTheSignalTable(t *testing.T) {
	var names []string
	for _, r := range signal.Findings() {
		names = append(names, r.Name)
		inputs := slices.Clone(r.Signals)
		for replaced, sets := range r.Alternatives {
			assert.Contains(t, r.Signals, replaced)
			inputs = append(inputs, slices.Concat(sets...)...)
		}
		for _, s := range inputs {
			name, _, _ := strings.Cut(s, "{")
			m, ok := signal.Lookup(name)
			require.True(t, ok, s)
			assert.True(t, Wants(m), s)
		}
		assert.NotEmpty(t, r.Condition)
		assert.NotEmpty(t, r.Action)
		assert.Contains(t, r.Action, ".")
	}
	assert.Equal(t, signal.Values(signal.Finding), names)
	assert.Len(t, names, numRules)
	assert.Len(t, causes, numCauses)
	assert.LessOrEqual(t, int(numValues), maxValues)
}

// For samples in any order and with any values, the rules do not panic, the state does not grow,
// and each finding that starts ends at most once.
func TestAnyTimelineCanBeEvaluated(t *testing.T) {
	keys := []string{"util", "tensor", "dram", "pcie", "power", "limit", "idle", "temp", "sm", "mem", "energy", "corrected", "row_remap_correctable", "pending", "active_hw_thermal", "time_hw_thermal", "violation_power"}
	rapid.Check(t, func(t *rapid.T) {
		set := DefaultSettings()
		for _, d := range []*time.Duration{&set.Spinning.For, &set.LatchedUtilization.For, &set.SlowDevice.For, &set.MemoryDegrading.For, &set.FrozenTelemetry.For} {
			*d = time.Minute
		}
		tracker := New(set)
		open := map[string]bool{}
		wall := int64(0)
		for range rapid.IntRange(1, 60).Draw(t, "frames") {
			wall += rapid.Int64Range(0, 100).Draw(t, "step")
			f := &gpudata.Frame{Place: node, Time: (epoch.Unix() + wall + rapid.SampledFrom([]int64{0, 0, 0, 0, -500, 70}).Draw(t, "ahead")) * 1e9}
			for i := range rapid.IntRange(0, 5).Draw(t, "devices") {
				d := f.Device(fmt.Sprint("G", i))
				d.Observed, d.HoldersKnown = true, rapid.Bool().Draw(t, "known")
				if rapid.Bool().Draw(t, "held") {
					d.User(gpudata.Holder{Pod: "p"}).Holds = true
				}
				for _, k := range keys {
					if rapid.IntRange(0, 9).Draw(t, "absent") > 0 {
						s := series[k]
						s.Value = rapid.SampledFrom([]float64{0, 0.005, 0.97, 1, 20, 400, 1.5e9, 1e18}).Draw(t, k)
						d.Samples.Add(s)
					}
				}
			}
			f.MarkIncoming()
			tracker.Frame(f, epoch.Add(time.Duration(wall)*time.Second))
			for i := range f.Findings {
				x := &f.Findings[i]
				if x.Workload {
					continue
				}
				require.Equal(t, x.Start, !open[x.Name+x.Device], x.Body)
				open[x.Name+x.Device] = x.Start
			}
			for _, d := range f.Devices {
				for _, s := range d.Samples.Added() {
					require.Contains(t, []float64{0, 1}, s.Value)
				}
			}
		}
	})
}

// The state of each device takes at most 200 bytes, even while all conditions hold.
func TestBytesOfADevice(t *testing.T) {
	const nodes, devices = 500, 8
	tracker := New(DefaultSettings())
	heap := func() uint64 {
		var s runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	build := func(n int, s int64) *gpudata.Frame {
		f := at(s)
		f.Place.Node = fmt.Sprint("node-", n)
		f.Devices = nil
		whole := &gpudata.Frame{Place: f.Place, Time: f.Time}
		for i := range devices {
			d := whole.Device(fmt.Sprint("G", i))
			d.Observed = true
			for _, x := range at(s).Devices[0].Samples.All() {
				d.Samples.Add(x)
			}
			d.User(gpudata.Holder{Namespace: "n", Pod: "p"}).Holds = true
		}
		return whole
	}
	var ids []gpudata.Device // other stages keep the same device identities
	for n := range nodes {
		for _, d := range build(n, 0).Devices {
			ids = append(ids, d.Device)
		}
	}
	before := heap()
	for n := range nodes {
		for s := int64(0); s <= 30; s += 15 {
			tracker.Frame(build(n, s), epoch.Add(time.Duration(s)*time.Second))
		}
	}
	each := float64(heap()-before) / nodes / devices
	runtime.KeepAlive(ids)
	runtime.KeepAlive(tracker)
	t.Logf("%.0f bytes per device", each)
	assert.Less(t, each, 200.0)
}
