package faults

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/storage/filestorage"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/extension/extensiontest"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/processtest"
)

// A collector that is killed at a random time must not send incorrect windows after it restarts.
// The collector loses only the data that it received after it last stored its state.
func TestKillsAtRandomMomentsRepeatNothing(t *testing.T) {
	t.Parallel()
	kills := either(3, 20)
	tr := newTrial(t, setting{})
	var slowest, peak float64
	for range kills {
		pass(t, tr.agent, time.Now().Add(rand.N(window)))
		tr.agent.kill(t)
		peak = max(peak, tr.agent.peak)
		began := time.Now()
		tr.agent = startCollector(t, tr.setting)
		slowest = max(slowest, tr.recovered(t, began, ""))
		tr.coveredWindow(t, began)
	}
	tr.agent.peak = max(peak, tr.agent.peak)
	// Each kill loses at most the samples of half a window, which is the interval at which state is
	// stored, and the scrape in progress. The exporter serves nothing while the collector is down,
	// so nothing else can be lost. The batch that was being sent is delivered at least once.
	perKill := int(window/2/interval) + 3
	tr.finish(t, result{
		group: "process", fault: fmt.Sprintf("kill -9 at random moments, %d times", kills), recovery: slowest,
		held: fmt.Sprintf("no number is wrong, and each kill loses at most %d scrapes", perKill),
	}, tolerance{missing: kills * perKill, baseline: true, repeats: true})
}

func TestSIGTERMUnderLoadLosesNothing(t *testing.T) {
	t.Parallel()
	stops := either(2, 10)
	tr := newTrial(t, setting{})
	var slowest, peak float64
	for range stops {
		pass(t, tr.agent, time.Now().Add(rand.N(window)))
		began := time.Now()
		tr.agent.stop(t)
		slowest = max(slowest, time.Since(began).Seconds())
		peak = max(peak, tr.agent.peak)
		began = time.Now()
		tr.agent = startCollector(t, tr.setting)
		tr.coveredWindow(t, began)
	}
	tr.agent.peak = max(peak, tr.agent.peak)
	tr.finish(t, result{
		group: "process", fault: fmt.Sprintf("SIGTERM under load, %d times", stops), recovery: slowest,
		held: "the process exits with status 0 and loses at most the scrape in progress; recovery is the time to exit",
	}, tolerance{missing: stops})
}

func TestAFullDiskLosesWindowsAndCountsThem(t *testing.T) {
	t.Parallel()
	processtest.Binary(t, "otelcol-gpu")
	requireMounts(t)
	dir := t.TempDir()
	// Use a small file system that another process fills, as can happen on a node.
	tr := newTrial(t, setting{
		mounts: fmt.Sprintf("mount -t tmpfs -o size=8m none %s", dir),
		env:    map[string]string{"STORAGE_DIR": dir},
	})
	// The path goes through /proc, because only the collector sees the mounted file system.
	filler := fmt.Sprintf("/proc/%d/root%s/filler", tr.agent.Cmd.Process.Pid, dir)
	full, err := os.Create(filler)
	require.NoError(t, err)
	chunk := make([]byte, 4096)
	for err == nil {
		_, err = full.Write(chunk)
	}
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NoError(t, full.Close())
	// Add devices, because the storage database reuses its free pages and needs more space only if
	// the data grows.
	tr.exporter.adds(nil, func(int) string {
		var b strings.Builder
		for i := range 400 {
			fmt.Fprintf(&b, "DCGM_FI_DEV_FB_USED{gpu=\"9\",UUID=\"GPU-other-%d\"} 1\nDCGM_FI_DEV_FB_FREE{gpu=\"9\",UUID=\"GPU-other-%d\"} 1\n", i, i)
		}
		return b.String()
	})
	processtest.Until(t, "a failed write", func() bool {
		return tr.agent.metric(t, "otelcol_processor_gpu_window_storage_errors", "")+
			tr.agent.metric(t, "otelcol_exporter_enqueue_failed_metric_points", "") > 0
	}, tr.agent.Process)
	pass(t, tr.agent, time.Now().Add(outage))
	writes := tr.agent.metric(t, "otelcol_processor_gpu_window_storage_errors", "")
	points := tr.agent.metric(t, "otelcol_exporter_enqueue_failed_metric_points", "")
	tr.exporter.adds(nil, nil)
	require.NoError(t, os.Remove(filler))
	mended := time.Now()
	tr.coveredWindow(t, mended)
	took := time.Since(mended).Seconds()
	tr.finish(t, result{
		group: "process", fault: "disk full under file_storage", recovery: took,
		held: fmt.Sprintf("the process does not crash, and windows are correct once space is available; the losses are counted: %.0f writes failed, and %.0f points did not fit in the queue", writes, points),
	}, tolerance{missing: 1 << 20, dropped: true})
}

// firstPlace is a placeholder for the first key that a component stores.
const firstPlace = "the first place"

// damage modifies the value that a processor stored under the given key.
func damage(t *testing.T, dir, processor, key string, change func([]byte) []byte) {
	t.Helper()
	factory := filestorage.NewFactory()
	config, ok := factory.CreateDefaultConfig().(*filestorage.Config)
	require.True(t, ok)
	config.Directory = dir
	ext, err := factory.Create(t.Context(), extensiontest.NewNopSettings(factory.Type()), config)
	require.NoError(t, err)
	require.NoError(t, ext.Start(t.Context(), componenttest.NewNopHost()))
	client, err := ext.(storage.Extension).GetClient(t.Context(), component.KindProcessor, component.MustNewID(processor), "")
	require.NoError(t, err)
	if key == firstPlace {
		list, err := client.Get(t.Context(), "places")
		require.NoError(t, err)
		require.Greater(t, len(list), 4, "the list of places and its checksum")
		var stored struct{ Places []string }
		require.NoError(t, json.Unmarshal(list[:len(list)-4], &stored))
		require.NotEmpty(t, stored.Places)
		key = "place/" + stored.Places[0]
	}
	old, err := client.Get(t.Context(), key)
	require.NoError(t, err)
	require.NotEmpty(t, old, "%s is stored", key)
	require.NoError(t, client.Set(t.Context(), key, change(old)))
	require.NoError(t, client.Close(t.Context()))
	require.NoError(t, ext.Shutdown(t.Context()))
}

// overwrite replaces a file's content with the result of the change function.
func overwrite(t *testing.T, file string, change func([]byte) []byte) {
	t.Helper()
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, change(content), 0o600))
}

// noise overwrites bytes at regular intervals with random values. The first overwritten byte is
// content[from], and the distance between overwritten bytes is step.
func noise(content []byte, from, step int) []byte {
	for i := from; i < len(content); i += step {
		content[i] = byte(rand.IntN(256))
	}
	return content
}

func TestADamagedStateIsDroppedAndLogged(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]struct {
		processor, key string
		change         func([]byte) []byte
		held           string
	}{
		"damaged window state": {
			"gpu_window", firstPlace, func([]byte) []byte { return []byte("not the state of a node") },
			"the process starts, logs the damage, and starts new windows",
		},
		"empty window state": {
			"gpu_window", firstPlace, func([]byte) []byte { return []byte{} },
			"the process starts, logs the damage, and starts new windows",
		},
		// If a digit is changed, the stored text remains valid but contains a wrong number of
		// errors.
		"a flipped bit in the stored XID counts": {
			"gpu_synthesizer", firstPlace, func(state []byte) []byte {
				digit := bytes.LastIndexAny(state[:len(state)-4], "0123456789")
				require.Positive(t, digit)
				state[digit] ^= 1
				return state
			},
			"the process starts, logs the damage, and does not count XID errors that did not occur",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			tr := newTrial(t, setting{
				env: map[string]string{"STORAGE_DIR": dir},
			})
			tr.agent.kill(t)
			peak := tr.agent.peak
			damage(t, dir, f.processor, f.key, f.change)
			began := time.Now()
			tr.agent = startCollector(t, tr.setting)
			took := tr.recovered(t, began, "")
			tr.coveredWindow(t, began)
			assert.InDelta(t, 1, tr.agent.metric(t, "otelcol_processor_"+f.processor+"_storage_errors", ""), 0)
			tr.agent.peak = max(peak, tr.agent.peak)
			tr.finish(t, result{
				group: "process", fault: name, recovery: took,
				held: f.held,
			}, tolerance{missing: unsaved, baseline: true, repeats: true})
		})
	}
}

// The cleared function sets the bytes in b[from:to] to zero. Indices beyond the end of b are
// ignored.
func cleared(b []byte, from, to int) []byte {
	clear(b[min(from, len(b)):min(to, len(b))])
	return b
}

// The collector must start without manual intervention, no matter how a power failure damaged a
// storage file. If the collector cannot use a file, the collector renames the file and logs the new
// name.
func TestADamagedStorageFileIsRenamed(t *testing.T) {
	t.Parallel()
	page := os.Getpagesize()
	for name, f := range map[string]struct {
		change func(b []byte) []byte
		aside  bool // true if the file is always renamed, false if that depends on which part is damaged
	}{
		// In this case, the file was never written.
		"empty": {func([]byte) []byte { return nil }, false},
		// The second half of the file might be free space.
		"second half cut off":    {func(b []byte) []byte { return b[:len(b)/2] }, false},
		"cut off":                {func(b []byte) []byte { return b[:2*page] }, true},
		"one meta page zeroed":   {func(b []byte) []byte { return cleared(b, 0, page) }, false},
		"both meta pages zeroed": {func(b []byte) []byte { return cleared(b, 0, 2*page) }, true},
		"page 2 zeroed":          {func(b []byte) []byte { return cleared(b, 2*page, 3*page) }, false},
		"page 3 zeroed":          {func(b []byte) []byte { return cleared(b, 3*page, 4*page) }, false},
		"second half zeroed":     {func(b []byte) []byte { return cleared(b, len(b)/2, len(b)) }, false},
		"every 97th byte wrong":  {func(b []byte) []byte { return noise(b, 0, 97) }, false}, // this damage might affect only unused parts of the file
		"overwritten":            {func(b []byte) []byte { return noise(b, 0, 1) }, true},
		"pages overwritten":      {func(b []byte) []byte { return noise(b, 2*page, 1) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			tr := newTrial(t, setting{
				env: map[string]string{"STORAGE_DIR": dir},
			})
			tr.agent.kill(t)
			peak := tr.agent.peak
			files, err := filepath.Glob(filepath.Join(dir, "*"))
			require.NoError(t, err)
			require.NotEmpty(t, files)
			for _, file := range files {
				overwrite(t, file, f.change)
			}
			began := time.Now()
			tr.agent = startCollector(t, tr.setting)
			took := tr.recovered(t, began, "")
			tr.coveredWindow(t, began)
			for _, file := range files {
				renamed, err := filepath.Glob(file + ".*.backup")
				require.NoError(t, err)
				if f.aside {
					assert.NotEmpty(t, renamed, "%s is renamed", file)
				}
				for _, r := range renamed {
					assert.Contains(t, tr.agent.Output.String(), r, "the log names the file")
				}
			}
			tr.agent.peak = max(peak, tr.agent.peak)
			tr.finish(t, result{
				group: "process", fault: "storage files: " + name, recovery: took,
				held: "the process starts, logs which files it renamed, and starts new windows",
			}, tolerance{missing: unsaved, baseline: true, repeats: true})
		})
	}
}

// If the storage directory is removed, the collector must log the removal and continue to send
// windows.
func TestAStorageDirectoryThatIsRemovedIsReported(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tr := newTrial(t, setting{env: map[string]string{"STORAGE_DIR": dir}})
	require.NoError(t, os.RemoveAll(dir))
	removed := time.Now()
	processtest.Until(t, "a line in the log", func() bool {
		return strings.Contains(tr.agent.Output.String(), "The storage file was removed.") && strings.Contains(tr.agent.Output.String(), dir)
	}, tr.agent.Process)
	tr.coveredWindow(t, removed)
	tr.finish(t, result{
		group: "process", fault: "storage directory removed", recovery: -1,
		held: "the process logs the file's name, and still sends windows",
	}, tolerance{missing: unsaved})
}

// If memory use exceeds memory_limit, the receiver must skip and count scrapes, and the process
// must continue to run.
func TestAboveTheMemoryLimitScrapesAreSkipped(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, setting{set: []string{
		"receivers.dcgm.memory_limit=50331648", stages + ".gpu_synthesizer.max_devices=1000000",
		"receivers.dcgm.collection_interval=200ms", "receivers.dcgm.timeout=200ms",
		stages + ".gpu_window.max_series=1000000",
	}})
	tr.exporter.adds(nil, func(n int) string {
		var b strings.Builder
		for i := range 4000 {
			fmt.Fprintf(&b, "DCGM_FI_DEV_FB_USED{gpu=\"9\",UUID=\"GPU-%d-%d\"} 1\nDCGM_FI_DEV_FB_FREE{gpu=\"9\",UUID=\"GPU-%d-%d\"} 1\n", n, i, n, i)
		}
		return b.String()
	})
	processtest.Until(t, "skipped scrapes", func() bool {
		return tr.agent.metric(t, "otelcol_receiver_dcgm_scrapes", "memory_limit") > 0
	}, tr.agent.Process)
	pass(t, tr.agent, time.Now().Add(outage))
	tr.exporter.adds(nil, nil)
	skipped := tr.agent.metric(t, "otelcol_receiver_dcgm_scrapes", "memory_limit")
	tr.finish(t, result{
		group: "process", fault: "memory limit reached", recovery: -1,
		held: fmt.Sprintf("the process does not crash; %.0f scrapes are skipped and counted", skipped),
	}, tolerance{missing: 1 << 20})
}

// The clock of a sender is set an hour forward and an hour back. Samples that are timestamped an
// hour off must not result in windows, and the windows for the current hour must be correct. (The
// test in clock_test.go sets the collector's own clock instead.)
func TestSamplesOfAnotherHourMakeNoWindow(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	in := processtest.FreeAddress(t)
	c := startCollector(t, setting{file: "testdata/gateway.yaml", env: map[string]string{
		"HTTP_ENDPOINT": in, "OTLP_ENDPOINT": b.url(),
	}})
	processtest.Until(t, "the receiver", func() bool { return send(t, in, time.Now()) }, c.Process)
	steps := []time.Duration{0, time.Hour, 0, -time.Hour, 0}
	began := time.Now()
	for _, step := range steps {
		until := time.Now().Add(either(window, 5*window))
		processtest.Until(t, "samples sent", func() bool {
			now := time.Now()
			require.True(t, send(t, in, now.Add(step)))
			return now.After(until)
		}, c.Process)
	}
	future := c.metric(t, "otelcol_processor_gpu_window_samples", "future")
	late := c.metric(t, "otelcol_processor_gpu_window_samples", "late")
	assert.Positive(t, future)
	assert.Positive(t, late)
	c.stop(t)
	windows := 0
	for _, p := range b.all() {
		if p.metric == signal.MemoryUtilizationAvg.Name {
			windows++
			assert.WithinRange(t, p.end, began.Add(-2*window), time.Now().Add(window))
			assert.InDelta(t, occupancy(0), p.value, 1e-9)
		}
		if p.metric == signal.ThrottleViolationRatio.Name {
			assert.InDelta(t, 0.5, p.value, 1e-3)
		}
	}
	assert.Positive(t, windows)
	report(t, result{
		group: "process", fault: "the sender's clock is set an hour forward and back", windows: windows, peak: c.peak, recovery: -1,
		held: fmt.Sprintf("%.0f future samples and %.0f late samples are dropped and counted; other windows are correct", future, late),
	})
}

// send sends samples for one device, which is throttled half of the time, over OTLP, and reports
// whether the samples were accepted.
func send(t *testing.T, address string, at time.Time) bool {
	t.Helper()
	metrics := pmetric.NewMetrics()
	rm := metrics.ResourceMetrics().AppendEmpty()
	rm.Resource().Attributes().PutStr(signal.K8sNodeName, "sender")
	list := rm.ScopeMetrics().AppendEmpty().Metrics()
	gauge := list.AppendEmpty()
	gauge.SetName(signal.HwGPUMemoryUtilization.Name)
	used := gauge.SetEmptyGauge().DataPoints().AppendEmpty()
	used.SetDoubleValue(occupancy(0))
	sum := list.AppendEmpty()
	sum.SetName(signal.GPUClockThrottleTime.Name)
	sum.SetEmptySum().SetIsMonotonic(true)
	sum.Sum().SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	throttled := sum.Sum().DataPoints().AppendEmpty()
	throttled.SetDoubleValue(float64(at.UnixNano()%int64(24*time.Hour)) / 2e9)
	throttled.Attributes().PutStr(signal.ClockViolation, "power")
	for _, dp := range []pmetric.NumberDataPoint{used, throttled} {
		dp.SetTimestamp(pcommon.NewTimestampFromTime(at))
		dp.Attributes().PutStr(signal.HardwareID, "GPU-sender")
	}
	body, err := pmetricotlp.NewExportRequestFromMetrics(metrics).MarshalProto()
	require.NoError(t, err)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/v1/metrics", bytes.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/x-protobuf")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	require.NoError(t, response.Body.Close())
	return response.StatusCode == http.StatusOK
}
