package examples

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/processtest"
)

// If an agent is killed with SIGKILL in the middle of a window, at most the samples of one snapshot
// interval are lost. The window is still sent exactly once. The window's ratio is correct, because
// it includes the counter's increase during the gap.
func TestAKilledAgentLosesAtMostOneSnapshotInterval(t *testing.T) {
	processtest.Binary(t, "otelcol-gpu")
	const (
		window   = 6 * time.Second
		interval = 250 * time.Millisecond
		snapshot = window / 2 // the processor's default
	)
	exporter := newThrottledExporter(t)
	backend := processtest.StartBackend(t, nil)
	storage := t.TempDir()
	agent := func() *collector {
		return startCollector(t, files("agent.yaml"), []string{
			"receivers.dcgm.collection_interval=" + interval.String(),
			"receivers.dcgm.timeout=" + interval.String(),
			stages + ".gpu_window.window=" + window.String(),
			stages + ".gpu_window.grace=1s",
			stages + ".gpu_window.max_gap=5s",
		}, map[string]string{
			"DCGM_ENDPOINT": exporter.URL + "/metrics", "OTLP_ENDPOINT": backend.URL, "STORAGE_DIR": storage,
		})
	}

	first := agent()
	backend.Until(t, first.Process, "a complete window", func(md pmetric.Metrics) bool { return len(coverage(md, 0.9)) > 0 })
	// Kill the agent when between half and two-thirds of the window has elapsed. At that time, a
	// snapshot of the window exists, and no window is about to be sent.
	processtest.Until(t, "the middle of a window", func() bool {
		into := time.Duration(time.Now().UnixNano()) % window
		return into > window/2 && into < window*2/3
	}, first.Process)
	killed := time.Now()
	first.Kill()

	second := agent()
	end := killed.Truncate(window).Add(window)
	require.Zero(t, time.Unix(0, 0).UnixNano()%int64(window), "windows are aligned to the epoch")
	backend.Until(t, second.Process, "the window of the kill and the next one", func(md pmetric.Metrics) bool {
		ends := coverage(md, 0)
		return ends[end.UnixNano()] && ends[end.Add(window).UnixNano()]
	})
	second.stop(t)

	left := map[string]int{}
	values := map[string]float64{}
	for p := range points.All(backend.All()) {
		contract, ok := signal.Lookup(p.Metric.Name())
		if !ok || contract.Stage != signal.StageWindow || p.Flags().NoRecordedValue() {
			continue
		}
		left[fmt.Sprint(p.Metric.Name(), p.Attributes().AsRaw(), p.Timestamp())]++
		if p.Timestamp().AsTime().Equal(end) {
			values[p.Metric.Name()] = p.DoubleValue() + float64(p.IntValue())
		}
	}
	for point, times := range left {
		assert.Equal(t, 1, times, "%s was sent more than once", point)
	}

	served := exporter.scrapes(end.Add(-window), end)
	// The window may lack the samples of one snapshot interval and of the scrape in progress. The
	// window may also lack one sample at each edge, because samples are timestamped by the
	// collector and not by the exporter.
	allowed := int(snapshot/interval) + 3
	got := int(values[signal.WindowSamples.Name])
	assert.GreaterOrEqual(t, got, served-allowed, "%d scrapes in the window of the kill", served)
	assert.LessOrEqual(t, got, served+1)
	assert.InDelta(t, 0.5, values[signal.ThrottleViolationRatio.Name], 0.1, "throttled half of the time")
	assert.InDelta(t, 0.75, values[signal.MemoryUtilizationAvg.Name], 1e-9)
}

// coverage returns the end times of the windows that have at least the given coverage.
func coverage(md pmetric.Metrics, atLeast float64) map[int64]bool {
	ends := map[int64]bool{}
	for p := range points.All(md) {
		if p.Metric.Name() == signal.WindowCoverage.Name && p.DoubleValue() >= atLeast {
			ends[p.Timestamp().AsTime().UnixNano()] = true
		}
	}
	return ends
}

// throttledExporter is an exporter for a GPU that is throttled half of the time.
type throttledExporter struct {
	*httptest.Server
	start time.Time

	mu    sync.Mutex
	times []time.Time
}

func newThrottledExporter(t *testing.T) *throttledExporter {
	t.Helper()
	e := &throttledExporter{start: time.Now()}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		now := time.Now()
		e.mu.Lock()
		e.times = append(e.times, now)
		e.mu.Unlock()
		const labels = `{gpu="0",UUID="GPU-1",device="nvidia0",modelName="NVIDIA L4",Hostname="n1"}`
		var b strings.Builder
		fmt.Fprintf(&b, "DCGM_FI_DEV_POWER_VIOLATION%s %d\n", labels, now.Sub(e.start).Nanoseconds()/2)
		fmt.Fprintf(&b, "DCGM_FI_DEV_FB_USED%s 750\nDCGM_FI_DEV_FB_FREE%s 250\n", labels, labels)
		_, _ = w.Write([]byte(b.String()))
	}))
	t.Cleanup(e.Close)
	return e
}

// scrapes returns the number of scrapes in the interval (start, end].
func (e *throttledExporter) scrapes(start, end time.Time) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for _, t := range e.times {
		if t.After(start) && !t.After(end) {
			n++
		}
	}
	return n
}
