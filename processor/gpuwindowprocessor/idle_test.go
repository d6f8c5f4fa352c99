package gpuwindowprocessor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor/internal/metadata"
)

// arrival describes when a scrape arrives. The at field is the arrival time, relative to a full
// minute. The age field is the age of the samples when the scrape arrives.
type arrival struct{ at, age time.Duration }

func each(interval, from, to time.Duration) (out []arrival) {
	for at := from; at <= to; at += interval {
		out = append(out, arrival{at: at})
	}
	return out
}

// A series ends when idle_timeout has passed since its last scrape arrived. The timestamp of the
// end mark is 1 ms before the end of the last window that closed before the series ended. If a
// point with that timestamp or a later one was already sent, the mark is 1 ms after that point.
func TestTheTimeOfAnEndDependsOnlyOnTheLastScrapeOfTheSeries(t *testing.T) {
	const ms = time.Millisecond
	for name, tt := range map[string]struct {
		idle     time.Duration // 10 min if 0
		arrivals []arrival
		// The expected timestamps of the end marks of the window metrics (mark) and of the counter
		// (ofCounter, if it differs).
		mark, ofCounter time.Duration
	}{
		"regular scrapes": {
			arrivals: each(15*time.Second, 15*time.Second, 3*time.Minute+45*time.Second),
			// The series ends at 13:45, after the window that ends at 13:00 closed at 13:05.
			mark: 13*time.Minute - ms,
		},
		"a series that ends just before a window closes": {
			arrivals: []arrival{{at: time.Minute}, {at: 3*time.Minute + 5*time.Second - ms}},
			mark:     12*time.Minute - ms,
		},
		"a series that ends when a window closes": {
			arrivals: []arrival{{at: time.Minute}, {at: 3*time.Minute + 5*time.Second}},
			mark:     13*time.Minute - ms,
		},
		"irregular scrapes": {
			arrivals: []arrival{{at: 7 * time.Second}, {at: 8 * time.Second}, {at: 9*time.Minute + 59*time.Second}, {at: 12 * time.Minute}, {at: 12*time.Minute + 3*time.Second}},
			mark:     21*time.Minute - ms, // the series ends at 22:03, before a window closes at 22:05
		},
		"a late scrape in an open window": {
			arrivals: []arrival{{at: 50 * time.Second}, {at: 64 * time.Second, age: 5 * time.Second}},
			mark:     10*time.Minute - ms, // the series ends at 11:04, before a window closes at 11:05
		},
		"a late scrape in a closed window": {
			// The late scrape is dropped, so the previous scrape determines when the series ends.
			arrivals: []arrival{{at: 50 * time.Second}, {at: 2 * time.Minute, age: 65 * time.Second}},
			mark:     10*time.Minute - ms, // the series ends at 10:50, after a window closed at 10:05
		},
		"an early scrape": {
			// The samples belong to the next window, which is sent at 2:05.
			arrivals: []arrival{{at: 50 * time.Second, age: -30 * time.Second}},
			mark:     10*time.Minute - ms,
		},
		"a timeout shorter than a window": {
			// The window that ends at 1:00 is sent at 1:05, after the series has ended.
			idle:      5 * time.Second,
			arrivals:  []arrival{{at: 30 * time.Second}},
			mark:      time.Minute + ms,
			ofCounter: 30*time.Second + ms,
		},
	} {
		// The collector may start at any time within a window. The times at which the collector
		// searches for idle series depend on the scrapes of other devices.
		for _, phase := range []time.Duration{0, ms, 4999 * ms, 5 * time.Second, 17 * time.Second, 59999 * ms} {
			for _, other := range []time.Duration{0, 7 * time.Second, 15 * time.Second, 47 * time.Second} {
				t.Run(fmt.Sprintf("%s, start at %s, other device each %s", name, phase, other), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						cfg := testConfig()
						cfg.Passthrough = passthroughLast
						if tt.idle > 0 {
							cfg.IdleTimeout = tt.idle
						}
						// Windows begin at full minutes. The arrival times are relative to a full
						// minute.
						origin := time.Hour
						got := idleRun(t, cfg, origin-time.Minute-phase, origin, tt.arrivals, other)

						assert.Equal(t, map[string][]time.Duration{
							"gpu.saturation.sm.active.avg": {tt.mark},
							"gpu.saturation.xid.errors":    {tt.mark},
							"gpu.window.coverage":          {tt.mark},
							"gpu.window.samples":           {tt.mark},
							"hw.errors":                    {cmp.Or(tt.ofCounter, tt.mark)},
						}, got.marks, "one mark of each series")
						assert.Equal(t, got.accepted, got.windowed, "no samples are lost or counted twice")

						windowsSent := got.lastAccepted.Truncate(time.Minute) + time.Minute + cfg.Grace
						earliest := got.lastAccepted + cfg.IdleTimeout
						latest := max(earliest, windowsSent) + cfg.IdleTimeout/20 + maxWait
						assert.GreaterOrEqual(t, got.markedAt, earliest)
						assert.LessOrEqual(t, got.markedAt, latest)
					})
				})
			}
		}
	}
}

type idleResult struct {
	marks              map[string][]time.Duration // Timestamps of the end marks, by series.
	markedAt           time.Duration              // Time at which the marks were sent.
	lastAccepted       time.Duration              // Arrival time of the last scrape that was not dropped.
	accepted, windowed int                        // Samples of GPU-a.
}

// idleRun starts a processor and sends scrapes of GPU-a at the given arrival times. If an interval
// is given, idleRun also sends samples of another device at this interval. All times in the result
// are relative to origin.
func idleRun(t *testing.T, cfg *Config, startAt, origin time.Duration, arrivals []arrival, interval time.Duration) (got idleResult) {
	t.Helper()
	got.marks = map[string][]time.Duration{}
	zero := bubbleStart.Add(origin)
	next, err := consumer.NewMetrics(func(_ context.Context, md pmetric.Metrics) error {
		for dp := range points.All(md) {
			name := dp.Metric.Name()
			switch id, _ := dp.Attributes().Get(signal.HardwareID); {
			case id.Str() != "GPU-a":
			case dp.Flags().NoRecordedValue():
				got.marks[name] = append(got.marks[name], dp.Timestamp().AsTime().Sub(zero))
				got.markedAt = time.Since(zero)
			case name == signal.WindowSamples.Name:
				got.windowed += int(dp.IntValue())
			}
		}
		return nil
	})
	require.NoError(t, err)
	until(startAt)
	p := start(t, processortest.NewNopSettings(metadata.Type), cfg, componenttest.NewNopHost(), next)
	var all []scrapeAt
	for _, a := range arrivals {
		all = append(all, scrapeAt{origin + a.at, a.age, "GPU-a"})
		if closed := (a.at - cfg.Grace).Truncate(cfg.Window); a.at-a.age > closed {
			got.accepted, got.lastAccepted = got.accepted+1, a.at
		}
	}
	end := origin + arrivals[len(arrivals)-1].at + cfg.IdleTimeout + 5*time.Minute
	for at := startAt; interval > 0 && at < end; at += interval {
		all = append(all, scrapeAt{at, 0, "GPU-b"})
	}
	slices.SortStableFunc(all, func(a, b scrapeAt) int { return cmp.Compare(a.at, b.at) })
	for _, s := range all {
		until(s.at)
		md := sample(time.Now().Add(-s.age), 0.5, 0)
		for dp := range points.All(md) {
			dp.Attributes().PutStr(signal.HardwareID, s.device)
		}
		require.NoError(t, p.ConsumeMetrics(t.Context(), md))
	}
	until(end)
	require.NoError(t, p.Shutdown(t.Context()))
	return got
}

type scrapeAt struct {
	at, age time.Duration
	device  string
}
