package faults

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/notruntest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/processtest"
)

const (
	// soakScrapes is the total number of scrapes in the soak test. The scrapes are distributed over
	// soakNodes exporters.
	soakScrapes = 100_000
	soakNodes   = 16
)

// vitals contains values that are read from the collector process once per second.
type vitals struct {
	seconds                       float64
	resident, heap, threads, open float64 // MiB, MiB, goroutines, file handles
}

// TestSoak scrapes at a high rate for a long time, while pods, devices, and exporters appear and
// disappear. The process's memory, goroutines, and open files must not grow over time.
func TestSoak(t *testing.T) {
	if os.Getenv("OTELCOL_GPU_SOAK") == "" {
		notruntest.Skip(t, "the soak: `make soak` runs it")
	}
	processtest.Binary(t, "otelcol-gpu")
	b := newBackend(t)
	b.keepsNothing = true
	var exporters []*exporter
	var endpoints []string
	for n := range soakNodes {
		e := newExporter(t, "soak-"+strconv.Itoa(n))
		e.keepsNothing = true
		e.adds(func(n int) string { // a new pod every second
			return fmt.Sprintf(`,namespace="ml",pod="job-%d",container="main"`, n/50)
		}, func(n int) string { // many new devices, which soon fill the caches
			return fmt.Sprintf("DCGM_FI_DEV_FB_USED{gpu=\"9\",UUID=\"GPU-%s-%d\"} 1\nDCGM_FI_DEV_FB_FREE{gpu=\"9\",UUID=\"GPU-%s-%d\"} 1\n", e.node, n/3, e.node, n/3)
		})
		exporters = append(exporters, e)
		endpoints = append(endpoints, e.url())
	}
	profile := processtest.FreeAddress(t)
	dir := t.TempDir()
	c := startCollector(t, setting{
		set: append(slices.Clone(fast),
			"receivers.dcgm.endpoints=["+strings.Join(endpoints, ",")+"]",
			"receivers.dcgm.collection_interval=20ms", "receivers.dcgm.timeout=5s",
			stages+".gpu_window.idle_timeout=5s", stages+".gpu_window.max_gap=1s",
			"extensions.pprof.endpoint="+profile, "service.extensions=[health_check,file_storage,pprof]",
		),
		env: map[string]string{"DCGM_ENDPOINT": exporters[0].url(), "OTLP_ENDPOINT": b.url(), "STORAGE_DIR": dir},
	})
	began := time.Now()
	var seen []vitals
	scrapes, restarted := 0.0, 0
	next := began
	for scrapes < soakScrapes {
		next = next.Add(time.Second)
		tick := time.NewTimer(time.Until(next))
		select {
		case <-tick.C:
		case <-c.Ended:
			require.Fail(t, "the collector stopped", "%v", c.Err)
		}
		if len(seen)%5 == 4 {
			exporters[restarted%soakNodes].restart(t)
			restarted++
		}
		scrapes = c.metric(t, "otelcol_receiver_dcgm_scrapes", `outcome="ok"`)
		seen = append(seen, readVitals(t, c, profile, time.Since(began).Seconds()))
		require.Less(t, time.Since(began), 20*time.Minute, "only %.0f scrapes", scrapes)
	}
	series := c.metric(t, "otelcol_processor_gpu_window_series", "")
	ended := c.metric(t, "otelcol_processor_gpu_window_series_ended", "")
	failed := c.metric(t, "otelcol_receiver_dcgm_scrapes", "") - scrapes
	refused := c.metric(t, "otelcol_processor_gpu_synthesizer_points_dropped", "device_limit")
	dropped := c.metric(t, "otelcol_processor_gpu_window_points", "dropped") + c.metric(t, "otelcol_exporter_enqueue_failed_metric_points", "") +
		c.metric(t, "otelcol_exporter_send_failed_metric_points", "")
	size := 0.0
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	for _, f := range files {
		info, err := os.Stat(f)
		require.NoError(t, err)
		size += float64(info.Size()) / (1 << 20)
	}
	took := time.Since(began)
	c.stop(t)

	// Ignore the first fifth of the run, because caches and pools are still filling.
	steady := seen[len(seen)/5:]
	minutes := took.Minutes()
	t.Logf("%.0f scrapes in %s, %d restarts of exporters, %.0f series live, %.0f ended, %.0f scrapes failed, %.0f points dropped, %.0f of devices beyond max_devices, %.1f MiB on disk",
		scrapes, took.Round(time.Second), restarted, series, ended, failed, dropped, refused, size)
	for _, q := range []struct {
		name  string
		of    func(vitals) float64
		bound float64 // permitted growth over the run as a fraction of the mean
	}{
		{"resident MiB", func(v vitals) float64 { return v.resident }, 0.10},
		{"heap MiB after a collection", func(v vitals) float64 { return v.heap }, 0.10},
		{"goroutines", func(v vitals) float64 { return v.threads }, 0.05},
		{"file handles", func(v vitals) float64 { return v.open }, 0.05},
	} {
		slope, mean := line(steady, q.of)
		grown := slope * (steady[len(steady)-1].seconds - steady[0].seconds)
		t.Logf("%s: mean %.1f, slope %+.3f a minute, grown by %+.2f%% of the mean over the run", q.name, mean, slope*60, 100*grown/mean)
		assert.LessOrEqual(t, grown/mean, q.bound, "%s grow by %.1f in %.1f minutes", q.name, grown, minutes)
	}
	assert.Zero(t, dropped)
	assert.Positive(t, refused, "samples of devices beyond max_devices: the limit was never reached")
	assert.Positive(t, ended, "series ended")
	assert.Less(t, size, 128.0, "MiB on disk")
}

// readVitals reads the current vitals of the collector process.
func readVitals(t *testing.T, c *collector, profile string, at float64) vitals {
	t.Helper()
	pid := c.Cmd.Process.Pid
	handles, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	require.NoError(t, err)
	v := vitals{seconds: at, resident: float64(c.Status(t).VmRSS) / (1 << 20), open: float64(len(handles))}
	// The first line of the goroutine profile contains the number of goroutines. With gc=1, garbage
	// is collected before the heap profile is taken, so that the profile contains only live memory.
	_, err = fmt.Sscanf(processtest.Get(t, "http://"+profile+"/debug/pprof/goroutine?debug=1"), "goroutine profile: total %g", &v.threads)
	require.NoError(t, err)
	heap := processtest.Get(t, "http://"+profile+"/debug/pprof/heap?gc=1&debug=1")
	_, after, found := strings.Cut(heap, "# HeapAlloc = ")
	require.True(t, found, "%.200s", heap)
	text, _, _ := strings.Cut(after, "\n")
	bytes, err := strconv.ParseFloat(text, 64)
	require.NoError(t, err)
	v.heap = bytes / (1 << 20)
	return v
}

// The line function fits a straight line to the values by least squares, and returns the slope per
// second and the mean.
func line(seen []vitals, of func(vitals) float64) (slope, mean float64) {
	var x, y, xx, xy float64
	n := float64(len(seen))
	for _, v := range seen {
		x += v.seconds
		y += of(v)
		xx += v.seconds * v.seconds
		xy += v.seconds * of(v)
	}
	slope = (n*xy - x*y) / (n*xx - x*x)
	if math.IsNaN(slope) {
		return 0, y / n
	}
	return slope, y / n
}
