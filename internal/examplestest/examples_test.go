package examplestest

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.uber.org/goleak"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

const (
	// examplesDir is relative to this package, where go test runs it.
	examplesDir = "../../examples"
	// patience is how long one step of a live run may take on a busy machine.
	patience = 60 * time.Second
	// windowLength is what fastWindow sets.
	windowLength = 2 * time.Second
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// example is how one file under examples/ is run and looked at.
type example struct {
	// set shortens the times of the example; its shape stays as it is.
	set []string
	// run starts the collector with the example and checks what comes out.
	run func(t *testing.T, file string, set []string)
}

var (
	fastDCGM = []string{
		"receivers.dcgm.collection_interval=1s",
		"receivers.dcgm.timeout=1s",
	}
	fastWindow = []string{
		"processors.gpu_window.window=" + windowLength.String(),
		"processors.gpu_window.grace=1s",
	}
	fastPrometheus = []string{
		"receivers.prometheus.config.global.scrape_interval=1s",
		"receivers.prometheus.config.global.scrape_timeout=1s",
	}
)

// examples lists every file under examples/; TestEveryExampleIsRun compares.
var examples = map[string]example{
	"quickstart.yaml":              {set: join(fastDCGM, fastWindow, []string{"exporters.gpu_view.endpoint=127.0.0.1:0"}), run: runToFile},
	"agent.yaml":                   {set: join(fastDCGM, fastWindow), run: runAgent},
	"prometheus-receiver.yaml":     {set: join(fastPrometheus, fastWindow), run: runToBackend},
	"otlp-to-prometheus.yaml":      {set: join(fastDCGM, fastWindow), run: runToPrometheus},
	"prometheus-remote-write.yaml": {set: join(fastDCGM, fastWindow), run: runRemoteWrite},
	"prometheus-exporter.yaml":     {set: join(fastDCGM, fastWindow), run: runToScrapingPrometheus},
}

func join(lists ...[]string) []string {
	var all []string
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}

func TestEveryExampleIsRun(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(examplesDir, "*.yaml"))
	require.NoError(t, err)
	var found []string
	for _, file := range files {
		found = append(found, filepath.Base(file))
	}
	var listed []string
	for name := range examples {
		listed = append(listed, name)
	}
	assert.ElementsMatch(t, listed, found)
}

func TestNoExampleListensBeyondLoopback(t *testing.T) {
	for name := range examples {
		content, err := os.ReadFile(filepath.Join(examplesDir, name))
		require.NoError(t, err)
		assert.NotContains(t, string(content), "0.0.0.0", name)
		assert.NotContains(t, string(content), "[::]", name)
	}
}

func TestValidate(t *testing.T) {
	collector := binary(t, "otelcol-gpu")
	for name := range examples {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), collector, "validate", "--config", filepath.Join(examplesDir, name))
			cmd.Env = environment(nil)
			output, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", output)
		})
	}
}

func TestRun(t *testing.T) {
	binary(t, "otelcol-gpu")
	for name, example := range examples {
		t.Run(name, func(t *testing.T) {
			example.run(t, filepath.Join(examplesDir, name), example.set)
		})
	}
}

// runToBackend looks at what an OTLP backend gets.
func runToBackend(t *testing.T, file string, set []string) {
	t.Helper()
	backend := newSink(t, nil)
	c := startCollector(t, file, set, map[string]string{"OTLP_ENDPOINT": backend.URL})
	backend.waitFor(t, c, "two windows", twoWindows)
	c.stop(t)
	checkWindows(t, backend.all(), windowLength)
}

// runAgent also looks at the agent's health and its own metrics, and restarts it:
// no window may be sent twice.
func runAgent(t *testing.T, file string, set []string) {
	t.Helper()
	backend := newSink(t, nil)
	health, telemetry := freeAddress(t), freeAddress(t)
	_, port, err := net.SplitHostPort(telemetry)
	require.NoError(t, err)
	env := map[string]string{
		"OTLP_ENDPOINT": backend.URL, "STORAGE_DIR": t.TempDir(),
		"HEALTH_ENDPOINT": health, "TELEMETRY_PORT": port,
	}
	// Long enough for the restart to happen inside a window.
	length := 3 * windowLength
	set = append(slices.Clone(set), "processors.gpu_window.window="+length.String(),
		"processors.gpu_window.emit_jitter=0s", "receivers.dcgm.start_jitter=0s")

	c := startCollector(t, file, set, env, health, telemetry)
	backend.waitFor(t, c, "two windows", twoWindows)
	assert.Contains(t, get(t, "http://"+health), "Server available")
	assert.Contains(t, get(t, "http://"+telemetry+"/metrics"), "otelcol_receiver_accepted_metric_points")
	c.stop(t)

	// Once the next window is out, the one that was open at the restart is as well.
	open := time.Now().Truncate(length).Add(length)
	c = startCollector(t, file, set, env, health, telemetry)
	backend.waitFor(t, c, "the window after the restart", func(metrics pmetric.Metrics) bool {
		return slices.ContainsFunc(windowEnds(metrics), open.Before)
	})
	c.stop(t)
	checkWindows(t, backend.all(), length)
	for key, times := range windowPoints(backend.all()) {
		assert.Equal(t, 1, times, "sent more than once: %s", key)
	}
}

// windowPoints counts how often each point of a window was sent.
func windowPoints(metrics pmetric.Metrics) map[string]int {
	counts := map[string]int{}
	points(metrics, func(resource pmetric.ResourceMetrics, metric pmetric.Metric, point pmetric.NumberDataPoint) {
		if m, ok := signal.Lookup(metric.Name()); ok && m.Stage == signal.StageWindow {
			key := fmt.Sprint(metric.Name(), resource.Resource().Attributes().AsRaw(), point.Attributes().AsRaw(), point.Timestamp())
			counts[key]++
		}
	})
	return counts
}

// runToFile looks at the lines that the file exporter writes.
func runToFile(t *testing.T, file string, set []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "windows.jsonl")
	c := startCollector(t, file, set, map[string]string{"WINDOWS_FILE": path})
	read := func() pmetric.Metrics {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		all := pmetric.NewMetrics()
		for line := range bytes.Lines(content) {
			if !bytes.HasSuffix(line, []byte("\n")) {
				break // still being written
			}
			metrics, err := (&pmetric.JSONUnmarshaler{}).UnmarshalMetrics(line)
			require.NoError(t, err)
			metrics.ResourceMetrics().MoveAndAppendTo(all.ResourceMetrics())
		}
		return all
	}
	poll(t, c.ended, "two windows in the file", func() bool {
		_, err := os.Stat(path)
		return err == nil && twoWindows(read())
	})
	c.stop(t)
	checkWindows(t, read(), windowLength)
}

// simulator is a simulated exporter that can be taken away and brought back.
type simulator struct {
	listen string
	cmd    *exec.Cmd
	output bytes.Buffer
}

// startSimulator starts a simulated exporter, which ends with the test.
func startSimulator(t *testing.T) *simulator {
	t.Helper()
	s := &simulator{listen: freeAddress(t)}
	s.start(t)
	t.Cleanup(func() {
		s.kill()
		if t.Failed() {
			t.Logf("dcgmsim said:\n%s", s.output.String())
		}
	})
	return s
}

func (s *simulator) url() string { return "http://" + s.listen + "/metrics" }

func (s *simulator) start(t *testing.T) {
	t.Helper()
	s.cmd = exec.CommandContext(t.Context(), binary(t, "dcgmsim"), "--listen", s.listen, "--scenario", "mixed", "--gpus", "8")
	s.cmd.Stdout, s.cmd.Stderr = &s.output, &s.output
	require.NoError(t, s.cmd.Start())
	poll(t, nil, "the simulated exporter", func() bool { return get(t, s.url()) != "" })
}

func (s *simulator) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// get returns a page, empty while nobody listens yet.
func get(t *testing.T, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return string(body)
}

// twoWindows says whether two windows have left.
func twoWindows(metrics pmetric.Metrics) bool {
	return len(windowEnds(metrics)) >= 2
}

// windowEnds returns the ends of the windows with a signal that every scenario
// and exporter generation gives.
func windowEnds(metrics pmetric.Metrics) []time.Time {
	var ends []time.Time
	points(metrics, func(_ pmetric.ResourceMetrics, metric pmetric.Metric, point pmetric.NumberDataPoint) {
		end := point.Timestamp().AsTime()
		if metric.Name() == signal.MemoryUtilizationAvg.Name && !slices.Contains(ends, end) {
			ends = append(ends, end)
		}
	})
	return ends
}

// checkWindows checks what the contract fixes for every window of that length:
// its alignment, its start, the range of a ratio and where the identity is.
func checkWindows(t *testing.T, metrics pmetric.Metrics, length time.Duration) {
	t.Helper()
	windowed := 0
	points(metrics, func(resource pmetric.ResourceMetrics, metric pmetric.Metric, point pmetric.NumberDataPoint) {
		m, ok := signal.Lookup(metric.Name())
		if !ok || m.Stage != signal.StageWindow || point.Flags().NoRecordedValue() {
			return
		}
		windowed++
		assert.Zero(t, point.Timestamp()%pcommon.Timestamp(length), "%s ends between windows", metric.Name())
		if start := point.StartTimestamp(); start != 0 {
			assert.Equal(t, pcommon.Timestamp(length), point.Timestamp()-start, metric.Name())
		}
		if metric.Unit() == "1" {
			assert.GreaterOrEqual(t, point.DoubleValue(), 0.0, metric.Name())
			assert.LessOrEqual(t, point.DoubleValue(), 1.0, metric.Name())
		}
		_, ok = point.Attributes().Get(signal.HardwareID)
		assert.True(t, ok, "%s without hw.id", metric.Name())
		_, ok = resource.Resource().Attributes().Get(signal.K8sNodeName)
		assert.True(t, ok, "%s without a node", metric.Name())
	})
	assert.Positive(t, windowed)
	got := names(metrics)
	for _, want := range []*signal.Metric{
		signal.MemoryUtilizationAvg, signal.MemoryUtilizationMax, signal.MemoryPressureRatio,
		signal.XIDErrors, signal.UtilizationAvg, signal.WindowCoverage, signal.WindowSamples,
	} {
		assert.Positive(t, got[want.Name], "%s is missing; got %v", want.Name, got)
	}
}

// collector is a running process under test.
type collector struct {
	cmd     *exec.Cmd
	stderr  *bytes.Buffer
	ended   chan struct{} // closed when err holds how it ended
	err     error
	listens []string
}

// startCollector starts the collector on an example, and a simulated exporter
// unless env names a DCGM_ENDPOINT. listens are the addresses that the collector has to let go at its end.
func startCollector(t *testing.T, file string, set []string, env map[string]string, listens ...string) *collector {
	t.Helper()
	all := maps.Clone(env)
	if all["DCGM_ENDPOINT"] == "" {
		exporter := startSimulator(t)
		all["DCGM_ENDPOINT"], all["DCGM_TARGET"] = exporter.url(), exporter.listen
	}
	args := []string{"--config", file}
	for _, s := range set {
		args = append(args, "--set", s)
	}
	c := &collector{stderr: &bytes.Buffer{}, ended: make(chan struct{}), listens: listens}
	c.cmd = exec.Command(binary(t, "otelcol-gpu"), args...)
	c.cmd.Env = environment(all)
	c.cmd.Stderr = c.stderr
	require.NoError(t, c.cmd.Start())
	go func() {
		c.err = c.cmd.Wait()
		close(c.ended)
	}()
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		<-c.ended
		if t.Failed() {
			t.Logf("the collector said:\n%s", c.stderr)
		}
	})
	return c
}

// stop ends the collector as an orchestrator would. It has to leave in good
// order: status 0, nothing to complain of, no port held.
func (c *collector) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, c.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-c.ended:
		require.NoError(t, c.err, "exit status")
	case <-timeout(t):
		require.Fail(t, "the collector does not end")
	}
	for line := range strings.Lines(c.stderr.String()) {
		if strings.Contains(line, "Scraping the exporter fails") {
			continue // a second is short on a busy machine
		}
		for _, level := range []string{"\terror\t", `"level":"error"`, "\twarn\t", `"level":"warn"`, "panic"} {
			assert.NotContains(t, line, level, "the collector complained")
		}
	}
	for _, address := range c.listens {
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
		if assert.NoError(t, err, "the port is still held") {
			assert.NoError(t, listener.Close())
		}
	}
}

// binary returns the path of a built command, or skips the test.
func binary(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("OTELCOL_GPU_BIN")
	if dir == "" {
		t.Skip("OTELCOL_GPU_BIN does not name the directory of the built commands: `make examples` runs this")
	}
	path := filepath.Join(dir, name)
	require.FileExists(t, path)
	return path
}

// environment is the caller's without its own settings for the examples.
func environment(set map[string]string) []string {
	var env []string
	for _, key := range []string{"PATH", "HOME", "TMPDIR"} {
		env = append(env, key+"="+os.Getenv(key))
	}
	for key, value := range set {
		env = append(env, fmt.Sprintf("%s=%s", key, value))
	}
	return env
}

// freeAddress returns a loopback address on which nobody listens now.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	return listener.Addr().String()
}

func timeout(t *testing.T) <-chan time.Time {
	t.Helper()
	return time.After(patience)
}

// poll asks until the answer is yes, for what another process does; there is
// nothing to wait for once that process ended.
func poll(t *testing.T, ended <-chan struct{}, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	end := timeout(t)
	for !done() {
		select {
		case <-tick.C:
		case <-ended:
			require.Fail(t, "the process ended", "waiting for %s", what)
		case <-end:
			require.Fail(t, "nothing came", "waiting for %s", what)
		}
	}
}
