package examples

import (
	"bytes"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.uber.org/goleak"

	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/pointtest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/processtest"
)

const (
	// examplesDir is the path of examples/, relative to this package.
	examplesDir = "../../examples"
	// windowLength is the window length that fastWindow and fastStage set.
	windowLength = 2 * time.Second
	// stages is the key of the settings for processors that run inside the receiver.
	stages = "receivers.dcgm.stages"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// example defines how to run and check a configuration in examples/.
type example struct {
	// The over field lists the files that precede the example's own file on the command line.
	over []string
	// set contains settings that shorten the example's intervals and change nothing else.
	set []string
	// run starts the collector with the given files and settings, and checks its output.
	run func(t *testing.T, files, set []string)
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
	// fastStage is the equivalent of fastWindow for examples in which gpu_window is a stage of the
	// receiver.
	fastStage = []string{
		stages + ".gpu_window.window=" + windowLength.String(),
		stages + ".gpu_window.grace=1s",
	}
	fastNVML       = []string{"receivers.dcgm.nvml.collection_interval=1s"}
	fastPrometheus = []string{
		"receivers.prometheus.config.global.scrape_interval=1s",
		"receivers.prometheus.config.global.scrape_timeout=1s",
	}
)

// overAgent is the value of the over field for overlays of agent.yaml.
var overAgent = []string{"agent.yaml"}

// examples lists the configurations in examples/. TestEveryExampleIsRun checks that the list is
// complete. Files in backends/ that require a vendor account are not listed, because they are only
// validated.
var examples = map[string]example{
	"quickstart.yaml":                       {set: join(fastDCGM, fastWindow, []string{"exporters.gpu_view.endpoint=127.0.0.1:0", "service.telemetry.logs.level=info"}), run: runToFile},
	"agent.yaml":                            {set: join(fastDCGM, fastStage), run: runAgent},
	"overlays/inference.yaml":               {over: []string{"agent.yaml", "backends/prometheus.yaml"}, set: join(fastDCGM, fastStage, fastPrometheus), run: runInference},
	"overlays/usage.yaml":                   {over: overAgent, set: join(fastDCGM, fastStage), run: runUsage},
	"overlays/events.yaml":                  {over: overAgent, set: join(fastDCGM, fastStage, []string{stages + ".gpu_events.interval=1s", stages + ".gpu_events.for=5s"}), run: runEvents},
	"overlays/slurm.yaml":                   {over: overAgent, set: join(fastDCGM, fastStage, fastNVML), run: runSlurm},
	"overlays/gateway.yaml":                 {over: overAgent, run: runGateway},
	"overlays/gateway-agent.yaml":           {over: overAgent, run: runGateway},
	"overlays/prometheus-receiver.yaml":     {over: []string{"quickstart.yaml"}, set: join(fastPrometheus, fastWindow, []string{"exporters.gpu_view.endpoint=127.0.0.1:0", "service.telemetry.logs.level=info"}), run: runToBackend},
	"backends/prometheus.yaml":              {over: overAgent, set: join(fastDCGM, fastStage), run: runToPrometheus},
	"backends/prometheus-remote-write.yaml": {over: overAgent, set: join(fastDCGM, fastStage), run: runRemoteWrite},
	"backends/prometheus-scrape.yaml":       {over: overAgent, set: join(fastDCGM, fastStage), run: runToScrapingPrometheus},
}

// files returns the paths of an example's file and of the files that it is merged with, in the
// order of the --config flags.
func files(name string) []string {
	return paths(append(slices.Clone(examples[name].over), name)...)
}

// paths returns the paths of the given files in examples/.
func paths(names ...string) []string {
	var all []string
	for _, name := range names {
		all = append(all, filepath.Join(examplesDir, name))
	}
	return all
}

func join(lists ...[]string) []string {
	var all []string
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}

func TestEveryExampleIsRun(t *testing.T) {
	var found []string
	for _, pattern := range []string{"*.yaml", "overlays/*.yaml", "backends/prometheus*.yaml"} {
		matches, err := filepath.Glob(filepath.Join(examplesDir, pattern))
		require.NoError(t, err)
		for _, file := range matches {
			name, err := filepath.Rel(examplesDir, file)
			require.NoError(t, err)
			if name != composeFile { // the Compose file starts one of the other examples
				found = append(found, name)
			}
		}
	}
	assert.ElementsMatch(t, slices.Collect(maps.Keys(examples)), found)
}

func TestValidate(t *testing.T) {
	collector := processtest.Binary(t, "otelcol-gpu")
	for name := range examples {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), collector, append([]string{"validate"}, configFlags(files(name))...)...)
			cmd.Env = processtest.Environment(nil)
			output, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", output)
		})
	}
}

// The comment at the top of an overlay must contain the command that runs the overlay.
func TestTheHeaderOfAnOverlayNamesTheFilesBelowIt(t *testing.T) {
	for name, example := range examples {
		if !strings.HasPrefix(name, "overlays/") {
			continue
		}
		content, err := os.ReadFile(filepath.Join(examplesDir, name))
		require.NoError(t, err)
		command := "otelcol-gpu"
		for _, file := range append(slices.Clone(example.over), name) {
			command += " --config examples/" + file
		}
		head, _, _ := strings.Cut(string(content), "\nreceivers:")
		head = strings.ReplaceAll(head, " \\\n#    ", "")
		assert.Contains(t, head, "#   "+command+"\n", name)
	}
}

func TestRun(t *testing.T) {
	processtest.Binary(t, "otelcol-gpu")
	for name, example := range examples {
		t.Run(name, func(t *testing.T) { example.run(t, files(name), example.set) })
	}
}

func configFlags(files []string) []string {
	var flags []string
	for _, file := range files {
		flags = append(flags, "--config", file)
	}
	return flags
}

// agentEnv adds a state directory and ports to the given environment variables, so that several
// agents can run on one machine.
func agentEnv(t *testing.T, env map[string]string) map[string]string {
	t.Helper()
	all := map[string]string{
		"STORAGE_DIR": t.TempDir(), "HEALTH_ENDPOINT": processtest.FreeAddress(t), "TELEMETRY_PORT": processtest.Port(t, processtest.FreeAddress(t)),
	}
	maps.Copy(all, env)
	return all
}

// runToBackend runs an example and checks the windows that an OTLP backend receives.
func runToBackend(t *testing.T, files, set []string) {
	t.Helper()
	backend := processtest.StartBackend(t, nil)
	c := startCollector(t, files, set, map[string]string{"OTLP_ENDPOINT": backend.URL})
	backend.Until(t, c.Process, "two windows", twoWindows)
	c.stop(t)
	checkWindows(t, backend.All(), windowLength)
}

// runUsage checks that the counters of GPU time and cost continue after a restart.
func runUsage(t *testing.T, files, set []string) {
	t.Helper()
	backend := processtest.StartBackend(t, nil)
	env := agentEnv(t, map[string]string{"OTLP_ENDPOINT": backend.URL, "PRICES_FILE": filepath.Join(examplesDir, "usage", "prices.yaml")})
	c := startCollector(t, files, set, env)
	backend.Until(t, c.Process, "two windows", twoWindows)
	c.stop(t)
	before := startOfUsage(backend.All())
	restarted := time.Now().Truncate(windowLength).Add(windowLength)
	c = startCollector(t, files, set, env)
	backend.Until(t, c.Process, "a window after the restart", func(metrics pmetric.Metrics) bool {
		return slices.ContainsFunc(windowEnds(metrics), restarted.Before)
	})
	c.stop(t)
	assert.Equal(t, before, startOfUsage(backend.All()), "counters continue")
	units := map[string]string{}
	for p := range points.All(backend.All()) {
		units[p.Metric.Name()] = p.Metric.Unit()
	}
	for name, unit := range map[string]string{
		"k8s.container.gpu.allocated.time": "s", "k8s.container.gpu.active.time": "s", "k8s.container.gpu.idle.time": "s",
		"gpu.unallocated.time": "s", "gpu.unobserved.time": "s",
		"k8s.container.gpu.cost": "{USD}", "k8s.container.gpu.cost.idle": "{USD}", "gpu.unallocated.cost": "{USD}",
	} {
		assert.Equal(t, unit, units[name], name)
	}
}

// startOfUsage returns the distinct start timestamps of each board's usage counter.
func startOfUsage(metrics pmetric.Metrics) map[string]map[pcommon.Timestamp]bool {
	starts := map[string]map[pcommon.Timestamp]bool{}
	for p := range points.All(metrics) {
		if p.Metric.Name() == signal.GPUUnobservedTime.Name {
			id := pointtest.Text(p.Attributes())
			if starts[id] == nil {
				starts[id] = map[pcommon.Timestamp]bool{}
			}
			starts[id][p.StartTimestamp()] = true
		}
	}
	return starts
}

// runAgent checks the agent's windows, health endpoint, and self-metrics. runAgent also restarts
// the agent and checks that no window is sent twice.
func runAgent(t *testing.T, files, set []string) {
	t.Helper()
	backend := processtest.StartBackend(t, nil)
	health, telemetry := processtest.FreeAddress(t), processtest.FreeAddress(t)
	env := map[string]string{
		"OTLP_ENDPOINT": backend.URL, "STORAGE_DIR": t.TempDir(),
		"HEALTH_ENDPOINT": health, "TELEMETRY_PORT": processtest.Port(t, telemetry),
	}
	// Make windows long enough for the restart to finish within one window.
	length := 3 * windowLength
	set = append(slices.Clone(set), stages+".gpu_window.window="+length.String(), "receivers.dcgm.start_jitter=0s")

	c := startCollector(t, files, set, env, health, telemetry)
	backend.Until(t, c.Process, "two windows", twoWindows)
	assert.Contains(t, processtest.Get(t, "http://"+health), "Server available")
	assert.Contains(t, processtest.Get(t, "http://"+telemetry+"/metrics"), "otelcol_receiver_accepted_metric_points")
	c.stop(t)

	// Wait for the window after the one that was open at the restart. By the time the later window
	// arrives, the window that was open at the restart has also been sent.
	open := time.Now().Truncate(length).Add(length)
	c = startCollector(t, files, set, env, health, telemetry)
	backend.Until(t, c.Process, "the window after the restart", func(metrics pmetric.Metrics) bool {
		return slices.ContainsFunc(windowEnds(metrics), open.Before)
	})
	c.stop(t)
	checkWindows(t, backend.All(), length)
	for key, times := range windowPoints(backend.All()) {
		assert.Equal(t, 1, times, "sent more than once: %s", key)
	}
}

// windowPoints returns how many times each point of a window was sent.
func windowPoints(metrics pmetric.Metrics) map[string]int {
	counts := map[string]int{}
	for p := range points.All(metrics) {
		if m, ok := signal.Lookup(p.Metric.Name()); ok && m.Stage == signal.StageWindow {
			key := fmt.Sprint(p.Metric.Name(), p.Resource.Attributes().AsRaw(), p.Attributes().AsRaw(), p.Timestamp())
			counts[key]++
		}
	}
	return counts
}

// runToFile adds a file exporter to the pipeline and checks the lines that the exporter writes.
func runToFile(t *testing.T, files, set []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "windows.jsonl")
	c := startCollector(t, files, append(slices.Clip(set), "exporters.file.path="+path, "service.pipelines.metrics.exporters=[gpu_view, file]"), nil)
	read := func() pmetric.Metrics {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		all := pmetric.NewMetrics()
		for line := range bytes.Lines(content) {
			if !bytes.HasSuffix(line, []byte("\n")) {
				break // the last line is incomplete
			}
			metrics, err := (&pmetric.JSONUnmarshaler{}).UnmarshalMetrics(line)
			require.NoError(t, err)
			metrics.ResourceMetrics().MoveAndAppendTo(all.ResourceMetrics())
		}
		return all
	}
	processtest.Until(t, "two windows in the file", func() bool {
		_, err := os.Stat(path)
		return err == nil && twoWindows(read())
	}, c.Process)
	c.stop(t)
	checkWindows(t, read(), windowLength)
}

// twoWindows reports whether two windows have been sent.
func twoWindows(metrics pmetric.Metrics) bool {
	return len(windowEnds(metrics)) >= 2
}

// windowEnds returns the end times of the windows, based on a signal that all scenarios and
// exporter versions provide.
func windowEnds(metrics pmetric.Metrics) []time.Time {
	var ends []time.Time
	for p := range points.All(metrics) {
		end := p.Timestamp().AsTime()
		if p.Metric.Name() == signal.MemoryUtilizationAvg.Name && !slices.Contains(ends, end) {
			ends = append(ends, end)
		}
	}
	return ends
}

// checkWindows checks that every window of the given length complies with the contract. The checks
// cover the alignment, the start timestamp, the range of ratios, and the attributes that identify a
// series.
func checkWindows(t *testing.T, metrics pmetric.Metrics, length time.Duration) {
	t.Helper()
	windowed := 0
	for p := range points.All(metrics) {
		m, ok := signal.Lookup(p.Metric.Name())
		if !ok || m.Stage != signal.StageWindow || p.Flags().NoRecordedValue() {
			continue
		}
		windowed++
		assert.Zero(t, p.Timestamp()%pcommon.Timestamp(length), "%s does not end at a window boundary", p.Metric.Name())
		if start := p.StartTimestamp(); start != 0 {
			assert.Equal(t, pcommon.Timestamp(length), p.Timestamp()-start, p.Metric.Name())
		}
		if p.Metric.Unit() == "1" {
			assert.GreaterOrEqual(t, p.DoubleValue(), 0.0, p.Metric.Name())
			assert.LessOrEqual(t, p.DoubleValue(), 1.0, p.Metric.Name())
		}
		_, ok = p.Attributes().Get(signal.HardwareID)
		assert.True(t, ok, "%s without hw.id", p.Metric.Name())
		_, ok = p.Resource.Attributes().Get(signal.K8sNodeName)
		assert.True(t, ok, "%s without a node", p.Metric.Name())
	}
	assert.Positive(t, windowed)
	got := map[string]int{}
	for p := range points.All(metrics) {
		got[p.Metric.Name()]++
	}
	for _, want := range []*signal.Metric{
		signal.MemoryUtilizationAvg, signal.MemoryUtilizationMax, signal.MemoryPressureRatio,
		signal.XIDErrors, signal.UtilizationAvg, signal.WindowCoverage, signal.WindowSamples,
	} {
		assert.Positive(t, got[want.Name], "%s is missing; got %v", want.Name, got)
	}
}

// collector is a running collector process.
type collector struct {
	*processtest.Process
	listens []string
}

// startCollector starts the collector with an example's files. Unless env contains DCGM_ENDPOINT,
// startCollector also starts a simulated exporter. listens contains the addresses that must be free
// after the collector has stopped.
func startCollector(t *testing.T, files, set []string, env map[string]string, listens ...string) *collector {
	t.Helper()
	all := map[string]string{}
	maps.Copy(all, env)
	if all["DCGM_ENDPOINT"] == "" {
		exporter := processtest.FreeAddress(t)
		processtest.StartSimulator(t, exporter)
		all["DCGM_ENDPOINT"], all["DCGM_TARGET"] = "http://"+exporter+"/metrics", exporter
	}
	args := configFlags(files)
	for _, s := range set {
		args = append(args, "--set", s)
	}
	cmd := exec.Command(processtest.Binary(t, "otelcol-gpu"), args...)
	cmd.Env = processtest.Environment(all)
	c := &collector{Process: processtest.Start(t, cmd), listens: listens}
	processtest.Until(t, processtest.Ready, func() bool { return strings.Contains(c.Output.String(), processtest.Ready) }, c.Process)
	for _, address := range processtest.Listens(t, c.Cmd.Process.Pid) {
		assert.True(t, address.Addr().IsLoopback(), "%s listens beyond loopback, on %s", files, address)
	}
	return c
}

// stop stops the collector the way an orchestrator does. The collector must exit with status 0,
// must not log any problems, and must release all ports.
func (c *collector) stop(t *testing.T) {
	t.Helper()
	c.Stop(t)
	for line := range strings.Lines(c.Output.String()) {
		if strings.Contains(line, "Scraping the exporter fails") {
			continue // on a busy machine, a timeout of one second can be too short
		}
		for _, level := range []string{"\terror\t", `"level":"error"`, "\twarn\t", `"level":"warn"`} {
			assert.NotContains(t, line, level, "the collector logged problems")
		}
	}
	for _, address := range c.listens {
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
		if assert.NoError(t, err, "the port is still held") {
			assert.NoError(t, listener.Close())
		}
	}
}
