package faults

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// verdict contains the results of comparing the received windows with the responses of one
// exporter.
type verdict struct {
	// windows is the number of compared windows.
	windows int
	// lost is the number of valid responses between the first and the last window that are not in
	// any window.
	lost int
	// doubled is the number of windows that were received more than once, with equal values.
	doubled int
}

// tolerance describes which effects of a fault are permitted. The zero value permits no effects.
type tolerance struct {
	// missing is the number of valid responses that are allowed to be missing from all windows.
	missing int
	// If repeats is true, a window may be received more than once, with the same values.
	repeats bool
	// If baseline is true, counters may start from a new baseline, which excludes the increase
	// during a gap.
	baseline bool
	// across is the maximum number of XID errors that a window may contain from the time before its
	// first listed response. across is used only if baseline is true, and is needed only if the
	// list of responses is incomplete.
	across int
	// If dropped is true, complete windows may have been lost after they were computed. Later
	// windows then do not include a counter's increase during the lost windows.
	dropped bool
}

// row contains the values of one window of a device, keyed by metric.
type row map[string]float64

// windowsOf returns the windows of a device, keyed by end time, and the number of windows that were
// received more than once. Repeated windows must have equal values.
func windowsOf(t *testing.T, points []point, node, device string) (rows map[time.Time]row, doubled int) {
	t.Helper()
	rows = map[time.Time]row{}
	for _, p := range points {
		contract, ok := signal.Lookup(p.metric)
		if !ok || contract.Stage != signal.StageWindow || p.device != device || p.node != node || p.pod != "" || p.ended {
			continue
		}
		if rows[p.end] == nil {
			rows[p.end] = row{}
		}
		if v, again := rows[p.end][p.metric]; again {
			assert.InDelta(t, v, p.value, 0, "%s of %s at %s was received with two values", p.metric, device, p.end)
			if p.metric == signal.WindowCoverage.Name {
				doubled++
			}
		}
		rows[p.end][p.metric] = p.value
	}
	return rows, doubled
}

// judge checks that every received window matches the responses that the exporter served. Each
// valid response is one sample, and the samples in a window determine all values of the window.
func judge(t *testing.T, e *exporter, points []point, allow tolerance) verdict {
	t.Helper()
	return judgeAnswers(t, e, e.served(), points, allow)
}

// judgeAnswers is like judge, but for the given responses, which are timestamped with the
// collector's clock.
func judgeAnswers(t *testing.T, e *exporter, answers []answer, points []point, allow tolerance) verdict {
	t.Helper()
	// A response that was too late for its scrape may be missing. For each late response, the
	// receiver reports a failed scrape.
	failed := 0
	for _, p := range ups(points, e.url(), time.Time{}) {
		if p.value == 0 {
			failed++
		}
	}
	var v verdict
	for gpu := range gpus {
		rows, doubled := windowsOf(t, points, e.node, e.device(gpu))
		if !allow.repeats {
			assert.Zero(t, doubled, "windows were received more than once")
		}
		var ends []time.Time
		for end := range rows {
			ends = append(ends, end)
		}
		slices.SortFunc(ends, time.Time.Compare)
		before, lost := -1, 0 // before is the index of the last response in the previous window
		for i, end := range ends {
			got := rows[end]
			took := find(answers, before+1, end, got)
			if !assert.NotEmpty(t, took, "the window ending at %s of %s matches no answers of the exporter: %v", end, e.device(gpu), got) {
				return v
			}
			if i > 0 {
				lost += took[0] - before - 1
			}
			lost += took[len(took)-1] - took[0] + 1 - len(took)
			assert.InDelta(t, occupancy(gpu), got[signal.MemoryUtilizationAvg.Name], 1e-9)
			assert.InDelta(t, occupancy(gpu), got[signal.MemoryUtilizationMax.Name], 1e-9)
			coverage, ok := got[signal.WindowCoverage.Name]
			assert.True(t, ok && coverage >= 0 && coverage <= 1, "coverage %v", coverage)
			// If the window before this one was lost after it was computed, skip this check,
			// because the counters' values at its end are unknown.
			if i == 0 {
				checkCounters(t, answers, took, got, allow)
			} else if !allow.dropped || ends[i-1].Equal(end.Add(-window)) {
				checkCounters(t, answers, append([]int{before}, took...), got, allow)
			}
			before = took[len(took)-1]
		}
		v.windows += len(ends)
		v.doubled += doubled
		v.lost = max(v.lost, lost)
	}
	require.Positive(t, v.windows, "no window to judge")
	assert.LessOrEqual(t, v.lost, allow.missing+failed, "valid answers that are in no window; %d scrapes failed", failed)
	return v
}

// The find function returns the indices of the responses that a window consists of. The function
// considers only responses from the given index onward. The responses must match the window's
// number of samples and its mean and maximum utilization. Because some responses may have timed
// out, the function tries all subsets of the responses near the window. If no subset matches, the
// function returns no indices.
func find(answers []answer, from int, end time.Time, got row) []int {
	var near []int
	for i := from; i < len(answers); i++ {
		// A sample is timestamped with the start time of its scrape. The exporter reads its clock
		// after the scrape starts, but before the scrape times out.
		if at := answers[i].at; at.After(end.Add(-window)) && at.Before(end.Add(5*interval)) {
			near = append(near, i)
		}
	}
	n := int(got[signal.WindowSamples.Name])
	var chosen []int
	var choose func(next int, sum, highest float64) bool
	choose = func(next int, sum, highest float64) bool {
		if len(chosen) == n {
			return n > 0 && math.Abs(sum/float64(n)-got[signal.UtilizationAvg.Name]) < 1e-10 &&
				math.Abs(highest-got[signal.UtilizationMax.Name]) < 1e-10
		}
		for i := next; len(near)-i >= n-len(chosen); i++ {
			u := answers[near[i]].utilization / 100
			chosen = append(chosen, near[i])
			if choose(i+1, sum+u, max(highest, u)) {
				return true
			}
			chosen = chosen[:len(chosen)-1]
		}
		return false
	}
	choose(0, 0, 0)
	return chosen
}

// checkCounters compares the counter values in a window with the given responses. Unless
// allow.baseline is true, the numbers of XID errors must be equal. The throttled time may differ by
// up to the duration of a scrape, because the exporter reads its clock later than the collector.
func checkCounters(t *testing.T, answers []answer, between []int, got row, allow tolerance) {
	t.Helper()
	xids, throttled, last := 0, 0.0, answers[between[0]]
	for _, at := range between[1:] {
		now := answers[at]
		since := last
		if now.throttled < last.throttled { // the exporter was restarted
			since.xids, since.throttled = 0, 0
		}
		xids += now.xids - since.xids
		throttled += now.throttled - since.throttled
		last = now
	}
	if seen, ok := got[signal.XIDErrors.Name]; allow.baseline {
		assert.LessOrEqual(t, seen, float64(xids+allow.across), "XID errors")
	} else if ok {
		assert.InDelta(t, xids, seen, 0, "XID errors of %d answers", len(between))
	}
	if ratio, ok := got[signal.ThrottleViolationRatio.Name]; ok {
		assert.True(t, ratio >= 0 && ratio <= 1, "ratio %v", ratio)
		observed := last.at.Sub(answers[between[0]].at)
		if observed >= window/2 && !allow.baseline {
			want, slack := throttled/observed.Seconds(), 0.02+float64(interval)/float64(observed-interval)
			assert.InDelta(t, want, ratio, slack, "throttled share, observed %s", observed)
		}
	}
}
