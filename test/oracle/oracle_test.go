package oracle

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/dcgm"
	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// defaults contains the parameters for gpu_window's default configuration and a scrape interval of
// 10 s.
var defaults = Parameters{Window: time.Minute, Step: 10 * time.Second, Lookback: lookback, Threshold: 0.9}

// models lists GPU models with the capacity of their links in one direction, in bytes per second.
// The values are from the models' data sheets, for PCIe 3.0, 4.0, and 5.0 with 16 lanes. For
// NVLink, the capacity is half of the data sheet's bidirectional value.
var models = []struct {
	name         string
	pcie, nvlink float64
}{
	{"Tesla T4", 15.76e9, 0},
	{"NVIDIA L40S", 31.504e9, 0},
	{"NVIDIA A100-SXM4-40GB", 31.504e9, 300e9},
	{"NVIDIA H100 80GB HBM3", 63.008e9, 450e9},
	{"NVIDIA L4", 0, 0},
}

// tolerance is the permitted relative difference between two values, and floor is the permitted
// absolute difference. The absolute limit is needed for very small values, because converting times
// to seconds can cause rounding errors that exceed the relative limit.
const (
	tolerance = 1e-9
	floor     = 1e-12
)

func equal(a, b float64) bool {
	return a == b || math.Abs(a-b) <= max(tolerance*max(math.Abs(a), math.Abs(b)), floor)
}

// differences lists the points that are missing or have different values in one of two sets of
// windows. If there are no differences, the result is "".
func differences(prometheus, ours windows) string {
	var lines []string
	for k, want := range prometheus {
		got, ok := ours[k]
		switch {
		case !ok:
			lines = append(lines, k.String()+": absent, Prometheus says "+number(want))
		case !equal(got, want):
			lines = append(lines, k.String()+": "+number(got)+", Prometheus says "+number(want))
		}
	}
	for k, got := range ours {
		if _, ok := prometheus[k]; !ok {
			lines = append(lines, k.String()+": "+number(got)+", Prometheus has none")
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

func TestEveryWindowedMetricHasADefinition(t *testing.T) {
	defined := map[*signal.Metric][]string{}
	for _, d := range Definitions() {
		defined[d.Metric] = append(defined[d.Metric], d.Own)
	}
	others := map[*signal.Metric]bool{} // metrics that only other vendors have, so no timeline contains them
	for m := range dcgm.Exporter.Gaps {
		for _, w := range m.Windows {
			others[w.Metric] = true
		}
	}
	for _, m := range signal.All() {
		if m.Stage != signal.StageWindow || m.Off || others[m] {
			continue
		}
		own := defined[m]
		require.NotEmpty(t, own, m.Name)
		assert.Equal(t, len(m.Attributes) == 0, own[0] == "", m.Name)
		slices.Sort(own)
		assert.Len(t, slices.Compact(own), len(own), "%s is defined twice", m.Name)
	}
}

// An example is a timeline and the expected values of some windows. The timeline is written in the
// notation of Prometheus' tests and is scraped every 10 s, starting at 0 s. In addition, all
// windows must equal the results that the definitions return for the raw series.
type example struct {
	name string
	load string
	want windows
}

// These are the names and labels of GPU-0's rows.
const (
	board    = `UUID="GPU-0",Hostname="n",modelName="NVIDIA H100 80GB HBM3"`
	power    = `DCGM_FI_DEV_POWER_VIOLATION{` + board + `} `
	used     = `DCGM_FI_DEV_FB_USED{` + board + `} `
	free     = `DCGM_FI_DEV_FB_FREE{` + board + `} `
	mask     = `DCGM_FI_DEV_CLOCKS_EVENT_REASONS{` + board + `} `
	oldMask  = `DCGM_FI_DEV_CLOCK_THROTTLE_REASONS{` + board + `} `
	exact    = `DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS{` + board + `} `
	lastXID  = `DCGM_FI_DEV_XID_ERRORS{` + board + `} `
	dram     = `DCGM_FI_PROF_DRAM_ACTIVE{` + board + `} `
	smActive = `DCGM_FI_PROF_SM_ACTIVE{` + board + `} `
	pcieTX   = `DCGM_FI_PROF_PCIE_TX_BYTES{` + board + `} `
	nvlinkRX = `DCGM_FI_PROF_NVLINK_RX_BYTES{` + board + `} `
	engineOn = `DCGM_FI_PROF_GR_ENGINE_ACTIVE{` + board + `} `
	gpuUtil  = `DCGM_FI_DEV_GPU_UTIL{` + board + `} `
)

// The at function returns the key of a GPU-0 metric in the window that ends the given number of
// minutes after epoch.
func at(m *signal.Metric, own string, minutes int) key {
	return key{m.Name, own, "GPU-0", time.Duration(minutes) * time.Minute}
}

var examples = []example{
	{
		name: "violations count nanoseconds",
		load: power + `0+5e9x12`,
		want: windows{
			at(signal.ThrottleViolationRatio, "power", 1): 0.5,
			at(signal.ThrottleViolationRatio, "power", 2): 0.5,
		},
	},
	{
		name: "the first sample is a baseline and no pair",
		load: power + `_ _ _ 7e9 7e9 17e9 17e9`,
		want: windows{
			at(signal.ThrottleViolationRatio, "power", 1): 10.0 / 30,
			at(signal.WindowSamples, "", 1):               4,
			at(signal.WindowCoverage, "", 1):              0.5,
		},
	},
	{
		name: "a pair belongs to the window that holds its end",
		load: power + `0x6 10e9 10e9x5`,
		want: windows{
			at(signal.ThrottleViolationRatio, "power", 1): 0,
			at(signal.ThrottleViolationRatio, "power", 2): 1.0 / 6,
		},
	},
	{
		name: "a pair across a gap counts where it ends, over the whole gap",
		load: power + `0 1e9 2e9 _ _ _ _ _ 9e9 9e9 9e9 9e9 9e9`,
		want: windows{
			at(signal.ThrottleViolationRatio, "power", 1): 2.0 / 20,
			at(signal.ThrottleViolationRatio, "power", 2): 7.0 / 100,
			at(signal.WindowCoverage, "", 2):              1,
			at(signal.WindowSamples, "", 2):               5,
		},
	},
	{
		name: "a gap of more than max_gap is not covered",
		load: power + `0 1e9 _ _ _ _ _ _ _ _ _ 2e9 3e9`,
		want: windows{
			at(signal.ThrottleViolationRatio, "power", 2): 2.0 / 110,
			at(signal.WindowCoverage, "", 2):              10.0 / 60,
		},
	},
	{
		name: "a series that was idle for idle_timeout starts anew",
		load: power + `0 1e9 _x74 30e9 31e9`,
		want: windows{at(signal.ThrottleViolationRatio, "power", 13): 0.1},
	},
	{
		name: "a counter that decreases restarts from zero",
		load: power + `50e9 52e9 54e9 1e9 2e9 2e9 2e9`,
		want: windows{at(signal.ThrottleViolationRatio, "power", 1): 6.0 / 60},
	},
	{
		name: "an exporter that repeats a value for 30 s and then moves by 30 s is believed",
		load: power + `0 0 0 30e9 30e9 30e9 60e9 60e9 60e9 90e9 90e9 90e9 120e9`,
		want: windows{
			at(signal.ThrottleViolationRatio, "power", 1): 1,
			at(signal.ThrottleViolationRatio, "power", 2): 1,
		},
	},
	{
		name: "repeated values may bring more than a window's time into it, which is clamped",
		load: power + `0 0 0 0 0 50e9 50e9 50e9 50e9 50e9 100e9 100e9 120e9`,
		want: windows{at(signal.ThrottleViolationRatio, "power", 2): 1},
	},
	{
		name: "the exact time of a reason is a counter like the violations",
		load: exact + `0+4e9x6`,
		want: windows{at(signal.ThrottleTimeRatio, "sw_power_cap", 1): 0.4},
	},
	{
		name: "a reason's ratio is the share of samples with its bit",
		load: mask + `_ 4 0 12 8 1 385`,
		want: windows{
			at(signal.ThrottleReasonRatio, "sw_power_cap", 1):   2.0 / 6,
			at(signal.ThrottleReasonRatio, "hw_slowdown", 1):    2.0 / 6,
			at(signal.ThrottleReasonRatio, "hw_power_brake", 1): 1.0 / 6,
			at(signal.ThrottleReasonRatio, "sw_thermal", 1):     0,
		},
	},
	{
		name: "both names of the mask are one field",
		load: oldMask + "4 4 4 4\n" + mask + `_ _ _ _ 0 0 64`,
		want: windows{
			at(signal.ThrottleReasonRatio, "sw_power_cap", 1): 0.5,
			at(signal.ThrottleReasonRatio, "hw_thermal", 1):   1.0 / 6,
		},
	},
	{
		name: "occupancy is used of used and free, in every sample",
		load: used + "_ 12000 8000 0 16000\n" + free + `_ 4000 8000 16000 0`,
		want: windows{
			at(signal.MemoryUtilizationAvg, "", 1): (0.75 + 0.5 + 0 + 1) / 4,
			at(signal.MemoryUtilizationMax, "", 1): 1,
			at(signal.MemoryPressureRatio, "", 1):  0.25,
		},
	},
	{
		name: "pressure begins at the threshold",
		load: used + "_ 9000 8999 9001 1000\n" + free + `_ 1000 1001 999 9000`,
		want: windows{at(signal.MemoryPressureRatio, "", 1): 0.5},
	},
	{
		name: "a sample with only half of the memory fields is none",
		load: used + "_ 5000 5000 5000\n" + free + `_ 5000 _ 15000`,
		want: windows{
			at(signal.MemoryUtilizationAvg, "", 1): (0.5 + 0.25) / 2,
			at(signal.WindowSamples, "", 1):        2,
		},
	},
	{
		name: "an XID event is a new last code that is not 0",
		load: lastXID + `0 31 31 43 0 31 0`,
		want: windows{at(signal.XIDErrors, "", 1): 3},
	},
	{
		name: "what the last code is at the first scrape is old news",
		load: lastXID + `_ 31 31 31 31 31 31`,
		want: windows{at(signal.XIDErrors, "", 1): 0},
	},
	{
		name: "a row that appears non-zero on a known device is an event",
		load: dram + "0.5x6\n" + lastXID + `_ _ _ 79 79 79 79`,
		want: windows{at(signal.XIDErrors, "", 1): 1},
	},
	{
		name: "a device is known by any of its rows, also by one that no window is made of",
		load: used + "_ 1x6\n" + lastXID + `_ _ _ 79 79 79 79`,
		want: windows{
			at(signal.XIDErrors, "", 1):     1,
			at(signal.WindowSamples, "", 1): 4,
		},
	},
	{
		name: "an event at the first scrape of a window is not lost at the seam",
		load: lastXID + `0x6 31 31x5`,
		want: windows{
			at(signal.XIDErrors, "", 1): 0,
			at(signal.XIDErrors, "", 2): 1,
		},
	},
	{
		name: "activities are means and maxima over samples, clamped to 1",
		load: dram + "_ 0.5 0.7 1.29 0 _ 0.1\n" + smActive + `_ 1.294 0.706 _ _ _ _`,
		want: windows{
			at(signal.DRAMActiveAvg, "", 1): (0.5 + 0.7 + 1 + 0 + 0.1) / 5,
			at(signal.DRAMActiveMax, "", 1): 1,
			at(signal.SMActiveAvg, "", 1):   (1 + 0.706) / 2,
		},
	},
	{
		name: "link bytes are rates already and their utilization is of the link's capacity",
		load: pcieTX + "_ 63.008e9 31.504e9 70e9 0\n" + nvlinkRX + `_ 90e9 45e9 _ _`,
		want: windows{
			at(signal.PCIeThroughputAvg, "transmit", 1):   (63.008e9 + 31.504e9 + 70e9) / 4,
			at(signal.PCIeUtilizationAvg, "transmit", 1):  (1 + 0.5 + 1) / 4,
			at(signal.NVLinkUtilizationAvg, "receive", 1): 0.15,
		},
	},
	{
		name: "utilization is engine activity, else the driver's percentage",
		load: engineOn + "_ 0.25 0.75 _ _ _ _\n" + gpuUtil + `_ 100 100 100 50 _ 0`,
		want: windows{
			at(signal.UtilizationAvg, "", 1): (0.25 + 0.75 + 1 + 0.5 + 0) / 5,
			at(signal.UtilizationMax, "", 1): 1,
		},
	},
	{
		name: "a window without a sample says nothing",
		load: dram + `0.5x6 _ _ _ _ _ _ 0.25x5`,
		want: windows{at(signal.DRAMActiveAvg, "", 3): 0.25},
	},
}

func TestExamplesEqualPrometheus(t *testing.T) {
	for _, e := range examples {
		t.Run(e.name, func(t *testing.T) {
			tl := load(t, defaults.Step, e.load)
			want := scraped(t, tl).capacities().derived().windows(Definitions(), defaults)
			for k, v := range e.want {
				got, ok := want[k]
				require.True(t, ok, "Prometheus has no %s", k)
				assert.InDelta(t, v, got, floor, "Prometheus' value of %s", k)
			}
			got := run(t, tl.deliveries(onResources))
			assert.Empty(t, differences(want, got.windows), "the dcgm receiver's layout")
			got = run(t, tl.deliveries(onPoints))
			assert.Empty(t, differences(want, got.windows), "the prometheus receiver's layout")
			got = runOverHTTP(t, tl.step, tl.texts())
			assert.Empty(t, differences(want, got.windows), "scraped over HTTP")
		})
	}
}

// Check that every query has a result, because without a result, a query would match a signal that
// is never sent.
func TestABoardWithEveryFieldHasEverySignalAndEveryDefinitionAValue(t *testing.T) {
	text := ""
	for i, field := range slices.Concat(instanceFields, boardFields, maskFields[:1]) {
		step := strconv.Itoa(i + 1)
		if slices.Contains(ratioFields, field) {
			step = "0.0" + step
		}
		text += field + "{" + board + "} 0+" + step + "x6\n"
	}
	tl := load(t, defaults.Step, text)
	want := scraped(t, tl).capacities().derived().windows(Definitions(), defaults)
	got := run(t, tl.deliveries(onResources)).windows
	assert.Empty(t, differences(want, got))
	for _, d := range Definitions() {
		assert.Contains(t, want, at(d.Metric, d.Own, 1))
	}
}

// percentiles contains the definitions of signals that are disabled by default.
var percentiles = []Definition{
	{signal.MemoryUtilizationP95, "", `quantile_over_time(0.95, ` + occupancy + `[$window:$step])`},
	{signal.UtilizationP95, "", `quantile_over_time(0.95, ` + utilization + `[$window:$step])`},
}

func TestPercentilesEqualPrometheus(t *testing.T) {
	on := func(c *gpuwindowprocessor.Config) {
		c.Metrics = componenthelper.Metrics{}
		for _, d := range percentiles {
			c.Metrics[d.Metric.Name] = componenthelper.MetricSwitch{Enabled: new(true)}
		}
	}
	compared := 0
	rapid.Check(t, func(r *rapid.T) {
		tl := random(r, kind{})
		want := scraped(r, tl).windows(percentiles, tl.with())
		got := run(t, tl.deliveries(onResources), on).windows
		maps.DeleteFunc(got, func(k key, _ float64) bool {
			return !slices.ContainsFunc(percentiles, func(d Definition) bool { return d.Metric.Name == k.metric })
		})
		if d := differences(want, got); d != "" {
			r.Fatalf("%s\n%s", d, tl)
		}
		compared += len(want)
	})
	assert.Positive(t, compared)
}

// The with method returns the default parameters, adapted to the timeline's scrape interval.
func (tl timeline) with() Parameters {
	p := defaults
	p.Step = tl.step
	return p
}

// runSomehow sends a timeline through the pipeline in a randomly selected way, and returns the
// windows.
func runSomehow(t *testing.T, r *rapid.T, tl timeline) windows {
	t.Helper()
	switch rapid.SampledFrom([]string{"labels on Resources", "labels on points", "over HTTP"}).Draw(r, "way") {
	case "labels on Resources":
		return run(t, tl.deliveries(onResources)).windows
	case "labels on points":
		return run(t, tl.deliveries(onPoints)).windows
	default:
		return runOverHTTP(t, tl.step, tl.texts()).windows
	}
}

func TestRandomTimelinesOfWholeBoardsEqualPrometheusOverTheRawSeries(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		tl := random(r, kind{})
		want := scraped(r, tl).capacities().derived().windows(Definitions(), tl.with())
		if d := differences(want, runSomehow(t, r, tl)); d != "" {
			r.Fatalf("%s\n%s", d, tl)
		}
	})
}

func TestRandomTimelinesWithInstancesAndPodsEqualPrometheusOverRecordedDevices(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		tl := random(r, kind{mig: true, churn: true})
		want := scraped(r, tl).folded().capacities().derived().windows(Definitions(), tl.with())
		if d := differences(want, runSomehow(t, r, tl)); d != "" {
			r.Fatalf("%s\n%s", d, tl)
		}
	})
}
