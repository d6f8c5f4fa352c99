package oracle

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// A departure is a rule of the output contract that causes a difference between a window and the
// result of a plain query. A departure contains the result of the plain query, the reason for the
// difference, and a query that expresses the rule.
type departure struct {
	rule string
	why  string
	load string
	of   key
	// The plain field is the straightforward query. "" means the query in the definition.
	plain string
	// plainResult is the result of the plain query. NaN means that the result is NaN or that there
	// is no result.
	plainResult float64
	// form is the query that expresses the rule. "" means the query in the definition.
	form string
	// lookback is the lookback delta for the query in form. 0 means Prometheus' default.
	lookback time.Duration
	// want is the expected value of the window and the expected result of the query in form.
	want float64
	// outcome is the outcome that gpu_window reports for the sample that is not counted.
	outcome string
}

var departures = []departure{
	{
		rule:        "a step that is larger than time allows is impossible, and its pair is dropped",
		why:         "190 s of throttling cannot fit between two samples that are 10 s apart",
		load:        power + `0 5e9 10e9 200e9 205e9 210e9 215e9`,
		of:          at(signal.ThrottleViolationRatio, "power", 1),
		plainResult: 1,
		form:        `(increase(DCGM_FI_DEV_POWER_VIOLATION[20s] anchored offset 40s) + increase(DCGM_FI_DEV_POWER_VIOLATION[30s] anchored)) / 1e9 / 50`,
		want:        0.5, outcome: "impossible_step",
	},
	{
		rule:        "a fall to more than time allows is impossible too",
		why:         "a counter that restarted 10 s ago cannot have a value of 40 s",
		load:        power + `50e9 51e9 40e9 41e9 42e9 43e9 44e9`,
		of:          at(signal.ThrottleViolationRatio, "power", 1),
		plainResult: 45.0 / 60,
		form:        `(increase(DCGM_FI_DEV_POWER_VIOLATION[10s] anchored offset 50s) + increase(DCGM_FI_DEV_POWER_VIOLATION[40s] anchored)) / 1e9 / 50`,
		want:        0.1, outcome: "impossible_step",
	},
	{
		rule:        "the ratio of a window is clamped to 1",
		why:         "an exporter that repeats values brings the time of other windows into this one",
		load:        power + `0 0 0 0 0 50e9 50e9 50e9 50e9 50e9 100e9 100e9 120e9`,
		of:          at(signal.ThrottleViolationRatio, "power", 2),
		plain:       `increase(DCGM_FI_DEV_POWER_VIOLATION[$window] anchored) / 1e9 / $seconds`,
		plainResult: 70.0 / 60,
		want:        1,
	},
	{
		rule:        "a pair counts however long the gap in it",
		why:         "the counter knows what happened in the gap; Prometheus looks back for 5 minutes only",
		load:        power + `0 1e9 _x35 30e9 31e9`,
		of:          at(signal.ThrottleViolationRatio, "power", 7),
		plainResult: 0.1, lookback: time.Hour,
		want: 30.0 / 370,
	},
	{
		rule: "a board's gauge is that of the row with the lowest GPU_I_ID",
		why:  "the rows are one measurement that was read more than once; 9 is lower than 11",
		load: `
			DCGM_FI_PROF_PCIE_TX_BYTES{` + board + `,GPU_I_ID="9"}  _ 2e9 4e9 6e9
			DCGM_FI_PROF_PCIE_TX_BYTES{` + board + `,GPU_I_ID="11"} _ 1e9 1e9 1e9`,
		of:          at(signal.PCIeThroughputAvg, "transmit", 1),
		plain:       `avg without (GPU_I_ID) (avg_over_time(DCGM_FI_PROF_PCIE_TX_BYTES[$window]))`,
		plainResult: 2.5e9,
		form:        `avg_over_time(DCGM_FI_PROF_PCIE_TX_BYTES{GPU_I_ID="9"}[$window])`,
		want:        4e9,
	},
	{
		rule: "a board's counter is the highest of its rows",
		why:  "the rows are one counter; the lower one was read earlier",
		load: `
			DCGM_FI_DEV_POWER_VIOLATION{` + board + `,GPU_I_ID="7"} 0 4e9 8e9 12e9 16e9 20e9 24e9
			DCGM_FI_DEV_POWER_VIOLATION{` + board + `,GPU_I_ID="8"} 0 5e9 9e9 13e9 17e9 21e9 30e9`,
		of:          at(signal.ThrottleViolationRatio, "power", 1),
		plain:       `avg without (GPU_I_ID) (increase(DCGM_FI_DEV_POWER_VIOLATION[$window] anchored)) / 1e9 / $seconds`,
		plainResult: 27.0 / 60,
		form: `(max without (GPU_I_ID) (DCGM_FI_DEV_POWER_VIOLATION) - max without (GPU_I_ID) (DCGM_FI_DEV_POWER_VIOLATION offset $window))` +
			` / 1e9 / $seconds`,
		want: 0.5,
	},
	{
		rule: "a board's mask is all bits of its rows",
		why:  "a bit that one of the rows caught was set",
		load: `
			DCGM_FI_DEV_CLOCKS_EVENT_REASONS{` + board + `,GPU_I_ID="7"} _ 4 0 0
			DCGM_FI_DEV_CLOCKS_EVENT_REASONS{` + board + `,GPU_I_ID="8"} _ 0 8 4`,
		of:          at(signal.ThrottleReasonRatio, "sw_power_cap", 1),
		plain:       `avg without (GPU_I_ID) (avg_over_time((floor(DCGM_FI_DEV_CLOCKS_EVENT_REASONS / 4) % 2)[$window:$step]))`,
		plainResult: 1.0 / 3,
		form:        `avg_over_time((max without (GPU_I_ID) (floor(DCGM_FI_DEV_CLOCKS_EVENT_REASONS / 4) % 2))[$window:$step])`,
		want:        2.0 / 3,
	},
	{
		rule: "a counter of XID errors that appears on a known device counts from zero",
		why:  "the exporter shows the row only once there was an error, and an increase needs two samples of a series",
		load: dram + "0.5x6\n" +
			`DCGM_EXP_XID_ERRORS_TOTAL{` + board + `,xid="79"} _ _ _ 1 1 2 2`,
		of:          at(signal.XIDErrors, "", 1),
		plain:       `sum by (UUID) (increase(DCGM_EXP_XID_ERRORS_TOTAL[$window] anchored))`,
		plainResult: 1,
		form: `sum by (UUID) (increase(DCGM_EXP_XID_ERRORS_TOTAL[$window] anchored))` +
			` + sum by (UUID) (first_over_time(DCGM_EXP_XID_ERRORS_TOTAL[$window]) unless last_over_time(DCGM_EXP_XID_ERRORS_TOTAL[$lookback] offset $window))`,
		want: 2,
	},
	{
		rule:        "upward moves of a sliding count of XID errors are events",
		why:         "the count falls when an error leaves the exporter's window of 5 minutes, which is no reset",
		load:        `DCGM_EXP_XID_ERRORS_COUNT{` + board + `,xid="31",window_size_in_ms="300000"} 0 1 1 2 1 1 2`,
		of:          at(signal.XIDErrors, "", 1),
		plain:       `increase(DCGM_EXP_XID_ERRORS_COUNT[$window] anchored)`,
		plainResult: 4,
		form:        `sum_over_time(clamp_min(delta(DCGM_EXP_XID_ERRORS_COUNT[$step] anchored), 0)[$window:$step])`,
		want:        3,
	},
	{
		rule:        "a last code that returns to 0 is no XID event",
		why:         "the driver was reloaded, nothing went wrong",
		load:        lastXID + `0 31 0 43 43 0 0`,
		of:          at(signal.XIDErrors, "", 1),
		plain:       `changes(DCGM_FI_DEV_XID_ERRORS[$window] anchored)`,
		plainResult: 4,
		want:        2,
	},
	{
		rule: "err_code does not create a separate series",
		why:  "each new code is a new series to Prometheus, in which nothing changes",
		load: `
			DCGM_FI_DEV_XID_ERRORS{` + board + `,err_code="0"}  0 0 _ _ _
			DCGM_FI_DEV_XID_ERRORS{` + board + `,err_code="31"} _ _ 31 31 31`,
		of:          at(signal.XIDErrors, "", 1),
		plain:       `sum by (UUID) (changes(DCGM_FI_DEV_XID_ERRORS[$window] anchored))`,
		plainResult: 0,
		want:        1,
	},
	{
		rule: "the same XID transition on all instances of a board is one event of the board",
		why:  "exporters repeat an error of the board on each instance",
		load: `
			DCGM_FI_DEV_XID_ERRORS{` + board + `,GPU_I_ID="7"} 0 79 79 79
			DCGM_FI_DEV_XID_ERRORS{` + board + `,GPU_I_ID="8"} 0 79 79 79
			DCGM_FI_DEV_XID_ERRORS{` + board + `,GPU_I_ID="9"} 0 79 79 79`,
		of:          at(signal.XIDErrors, "", 1),
		plain:       `sum by (UUID) (changes(DCGM_FI_DEV_XID_ERRORS[$window] anchored))`,
		plainResult: 3,
		form:        `sum_over_time(gpu:xid_events{GPU_I_ID=""}[$window])`,
		want:        1,
	},
	{
		rule:        "a sentinel is no observation",
		why:         "140737488355328 is how DCGM says that it has no value",
		load:        dram + `_ 0.5 140737488355328 0.7`,
		of:          at(signal.DRAMActiveAvg, "", 1),
		plainResult: 2.2 / 3,
		form:        `avg_over_time((DCGM_FI_PROF_DRAM_ACTIVE < 140737488355328)[$window:$step])`,
		want:        0.6,
	},
	{
		rule:        "NaN is no observation",
		why:         "one unreadable value would remove the entire window",
		load:        dram + `_ 0.5 NaN 0.7`,
		of:          at(signal.DRAMActiveAvg, "", 1),
		plainResult: math.NaN(),
		form:        `avg_over_time((DCGM_FI_PROF_DRAM_ACTIVE >= 0)[$window:$step])`,
		want:        0.6,
	},
	{
		rule: "beside a row without a pod, rows with pods are processes and not the device",
		why:  "20 of 80 GiB and 15 of 80 GiB are used by the two pods, 40 of the device; free is the device's on every row",
		load: `
			DCGM_FI_DEV_FB_USED{` + board + `}         _ 40960 40960
			DCGM_FI_DEV_FB_USED{` + board + `,pod="a"} _ 20480 20480
			DCGM_FI_DEV_FB_USED{` + board + `,pod="b"} _ 15360 15360
			DCGM_FI_DEV_FB_FREE{` + board + `,pod="a"} _ 40960 40960
			DCGM_FI_DEV_FB_FREE{` + board + `,pod="b"} _ 40960 40960`,
		of:          at(signal.MemoryUtilizationAvg, "", 1),
		plain:       `max by (UUID) (avg_over_time((DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE))[$window:$step]))`,
		plainResult: 1.0 / 3,
		form: `avg_over_time((max by (UUID) (DCGM_FI_DEV_FB_USED{pod=""})` +
			` / (max by (UUID) (DCGM_FI_DEV_FB_USED{pod=""}) + max by (UUID) (DCGM_FI_DEV_FB_FREE)))[$window:$step])`,
		want: 0.5,
	},
	{
		rule:        "of a byte counter each sample is the rate since the one before, and the window is their mean",
		why:         "throughput is a sample's value, whichever field it comes from",
		load:        `DCGM_FI_PROF_PCIE_TX_BYTES_TOTAL{` + board + `} 0 10e9 _ _ 10e9 10e9 10e9`,
		of:          at(signal.PCIeThroughputAvg, "transmit", 1),
		plain:       `rate(DCGM_FI_PROF_PCIE_TX_BYTES_TOTAL[$window] anchored)`,
		plainResult: 10e9 / 60.0,
		form: `avg_over_time(((DCGM_FI_PROF_PCIE_TX_BYTES_TOTAL - last_over_time(DCGM_FI_PROF_PCIE_TX_BYTES_TOTAL[$lookback] offset $step))` +
			` / (time() - ts_of_last_over_time(DCGM_FI_PROF_PCIE_TX_BYTES_TOTAL[$lookback] offset $step)))[$window:$step])`,
		want: 0.25e9,
	},
}

func TestWhereARuleOfTheContractDepartsFromThePlainQuery(t *testing.T) {
	for _, d := range departures {
		t.Run(d.rule, func(t *testing.T) {
			t.Log("because", d.why)
			tl := load(t, defaults.Step, d.load)
			p := scraped(t, tl).capacities().derived()
			definition := ""
			for _, def := range Definitions() {
				if def.Metric.Name == d.of.metric && def.Own == d.of.own {
					definition = def.Query
				}
			}
			plain, form, with := d.plain, d.form, defaults
			if plain == "" {
				plain = definition
			}
			if form == "" {
				form = definition
			}
			says := p.value(plain, d.of.end, with)
			if math.IsNaN(d.plainResult) {
				assert.True(t, math.IsNaN(says), "the plain query returns no number")
			} else {
				assert.InEpsilon(t, 1+d.plainResult, 1+says, tolerance, "the result of the plain query")
			}
			assert.False(t, equal(says, d.want), "the two values differ")
			if d.lookback > 0 {
				with.Lookback, p.lookback = d.lookback, d.lookback
			}
			assert.InEpsilon(t, d.want, p.value(form, d.of.end, with), tolerance, "the result of the rule's query")

			got := run(t, tl.deliveries(onResources))
			require.Contains(t, got.windows, d.of)
			assert.InEpsilon(t, d.want, got.windows[d.of], tolerance, "the window")
			if d.outcome != "" {
				assert.Equal(t, int64(1), got.outcomes[d.outcome], "the sample is counted as %s", d.outcome)
			}
		})
	}
}

// value evaluates a query at the given time since epoch. The query must return at most one series.
// If the query returns no series, value returns NaN.
func (p *prometheus) value(query string, end time.Duration, with Parameters) float64 {
	series := p.query(with.Fill(query), epoch.Add(end), epoch.Add(end), time.Minute)
	if len(series) == 0 {
		return math.NaN()
	}
	require.Len(p.t, series, 1, query)
	return series[0].Floats[0].F
}

// Prometheus accepts late samples within its out-of-order time window. However, a window that
// gpu_window has sent does not change.
func TestASampleForAClosedWindowIsLateAndPrometheusCountsIt(t *testing.T) {
	tl := load(t, defaults.Step, dram+`_ 0.5 0.5 0.5 0.5 0.5 0.5 0.5 0.5`)
	late := load(t, defaults.Step, dram+`_ _ _ 0.8`).scrapes[3]
	late.at += time.Second
	p := scraped(t, tl)
	p.scrape(late)
	batches := tl.deliveries(onResources)
	batches = append(batches, delivery{at: 80 * time.Second, md: onResources(late.rows, epoch.Add(late.at))})

	k := at(signal.DRAMActiveAvg, "", 1)
	got := run(t, batches)
	assert.InDelta(t, 0.5, got.windows[k], floor)
	assert.Equal(t, int64(1), got.outcomes["late"])
	assert.InDelta(t, (6*0.5+0.8)/7, p.value(`avg_over_time(DCGM_FI_PROF_DRAM_ACTIVE[$window])`, k.end, defaults), floor)
}

// Both Prometheus and gpu_window include out-of-order samples in means. Prometheus also inserts
// out-of-order samples into counters, where a delayed sample can look like a reset. gpu_window
// skips a counter's sample if it has already received a later one.
func TestASampleOutOfOrderCountsForMeansAndIsSkippedByCounters(t *testing.T) {
	tl := load(t, defaults.Step, dram+"_ 0.5 0.5 0.5 0.5 0.5 0.5\n"+power+`0 1e9 2e9 3e9 4e9 5e9 6e9`)
	overtaken := load(t, defaults.Step, dram+"_ _ 0.8\n"+power+`_ _ 9e9`).scrapes[2]
	overtaken.at += time.Second
	p := scraped(t, tl)
	p.scrape(overtaken)
	batches := tl.deliveries(onResources)
	batches = append(batches, delivery{at: tl.end(), md: onResources(overtaken.rows, epoch.Add(overtaken.at))})

	got := run(t, batches)
	k := at(signal.DRAMActiveAvg, "", 1)
	assert.InDelta(t, (6*0.5+0.8)/7, got.windows[k], floor)
	assert.InDelta(t, got.windows[k], p.value(`avg_over_time(DCGM_FI_PROF_DRAM_ACTIVE[$window])`, k.end, defaults), floor)
	k = at(signal.ThrottleViolationRatio, "power", 1)
	assert.InDelta(t, 0.1, got.windows[k], floor)
	assert.InDelta(t, 15.0/60, p.value(`increase(DCGM_FI_DEV_POWER_VIOLATION[$window] anchored) / 1e9 / $seconds`, k.end, defaults), floor)
	assert.Equal(t, int64(2), got.outcomes["out_of_order"])
}

// If two samples of a series have the same timestamp, Prometheus and gpu_window use only the first
// one.
func TestOfTwoSamplesOfOneTimeTheFirstCounts(t *testing.T) {
	tl := load(t, defaults.Step, dram+`_ 0.5 0.5 0.5`)
	second := load(t, defaults.Step, dram+`_ _ 0.9`).scrapes[2]
	batches := append(tl.deliveries(onResources),
		delivery{at: tl.end(), md: onResources(second.rows, epoch.Add(second.at))})
	got := run(t, batches)
	assert.InDelta(t, 0.5, got.windows[at(signal.DRAMActiveMax, "", 1)], floor)
	assert.Equal(t, int64(1), got.outcomes["duplicate"])
}

// 1.8e12 ns of throttling in an hour must result in a ratio of 0.5, not 500.
func TestHalfAnHourOfThrottlingInAnHourIsAHalf(t *testing.T) {
	tl := load(t, time.Minute, power+`0+30e9x60`)
	with := tl.with()
	with.Window = time.Hour
	want := scraped(t, tl).capacities().derived().windows(Definitions(), with)
	got := run(t, tl.deliveries(onResources), windowOf(time.Hour))
	assert.Empty(t, differences(want, got.windows))
	assert.InDelta(t, 0.5, got.windows[at(signal.ThrottleViolationRatio, "power", 60)], floor)
}

// An exporter repeats a board's power for each instance and each pod, but the power must be counted
// only once.
func TestABoardsPowerIsOneSeriesHoweverManyInstancesAndPodsItHas(t *testing.T) {
	text := ""
	for _, id := range cut {
		for _, pod := range []string{"a", "b"} {
			text += `DCGM_FI_DEV_POWER_USAGE{` + board + `,GPU_I_ID="` + id + `",pod="` + pod + `"} _ 300 310 320` + "\n"
		}
	}
	tl := load(t, defaults.Step, text)
	for name, lay := range map[string]layout{"labels on Resources": onResources, "labels on points": onPoints} {
		assert.Equal(t, 1, run(t, tl.deliveries(lay)).carried["hw.power"], name)
	}
}
