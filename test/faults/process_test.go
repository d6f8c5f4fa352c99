package faults

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/notruntest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/processtest"
)

// agentFile is the path of the configuration under test, which is the example that users start
// from.
const agentFile = "../../examples/agent.yaml"

// long is true if the long form of the tests is enabled.
var long = os.Getenv("OTELCOL_GPU_FAULTS_LONG") != ""

// The either function returns ofLong if the long form of the tests runs, and short otherwise.
func either[T any](short, ofLong T) T {
	if long {
		return ofLong
	}
	return short
}

const (
	window   = time.Second
	grace    = 3 * time.Second // longer than any delay on a busy machine, because late samples are dropped
	interval = 100 * time.Millisecond
)

// unsaved is the maximum number of responses in windows that have not yet been sent.
const unsaved = int((window + grace) / interval)

// fast contains settings that shorten the intervals in agentFile and change nothing else.
var fast = []string{
	"receivers.dcgm.collection_interval=" + interval.String(),
	"receivers.dcgm.timeout=" + interval.String(),
	"receivers.dcgm.start_jitter=0s",
	stages + ".gpu_window.window=" + window.String(),
	stages + ".gpu_window.grace=" + grace.String(),
	stages + ".gpu_window.max_gap=10s",
	"exporters.otlp_http.retry_on_failure.initial_interval=100ms",
	"exporters.otlp_http.retry_on_failure.max_interval=500ms",
}

// stages is the configuration key in agentFile that contains the settings of gpu_synthesizer and
// gpu_window.
const stages = "receivers.dcgm.stages"

// If asProcessors is true, the stages in agentFile run as processors of the pipeline.
var asProcessors = false

// processorsFile converts stages to processors, writes the resulting configuration to a file, and
// returns the file's path. The conversion covers all stages that are configured in agentFile or in
// the given settings.
func processorsFile(t *testing.T, set []string) string {
	t.Helper()
	content, err := os.ReadFile(agentFile)
	require.NoError(t, err)
	var config tree
	require.NoError(t, yaml.Unmarshal(content, &config))
	dcgm := within(t, config, "receivers", "dcgm")
	processors := within(t, dcgm, "stages")
	delete(dcgm, "stages")
	var order []any
	for _, id := range []string{"gpu_synthesizer", "gpu_k8s", "gpu_window"} {
		isSet := slices.ContainsFunc(set, func(s string) bool { return strings.HasPrefix(s, stages+"."+id+".") })
		if _, exists := processors[id]; exists || isSet {
			order = append(order, id)
		}
	}
	config["processors"] = processors
	within(t, config, "service", "pipelines", "metrics")["processors"] = order
	content, err = yaml.Marshal(config)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "agent.yaml")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}

// collector is a running collector process.
type collector struct {
	*processtest.Process
	// telemetry is the address that serves the collector's self-metrics.
	telemetry string
	// peak is the highest value of VmHWM that has been read, in MiB.
	peak float64
}

// setting describes how to start a collector.
type setting struct {
	// file is the path of the configuration file. The default is agentFile.
	file string
	// The over field is the path of a file that is merged over the first file.
	over string
	// set contains the values of the --set flags.
	set []string
	// env contains additional environment variables.
	env map[string]string
	// mounts is a shell script that changes the file system that the process sees. The script runs
	// in a separate mount namespace.
	mounts string
	clock  *clock // the process's wall clock, or nil for the machine's clock
}

// startCollector starts a collector that runs until the end of the test.
func startCollector(t *testing.T, s setting) *collector {
	t.Helper()
	telemetry := processtest.FreeAddress(t)
	if s.file == "" {
		s.file = agentFile
	}
	path := processtest.Binary(t, "otelcol-gpu")
	if s.file == agentFile && asProcessors {
		s.file = processorsFile(t, s.set)
		s.set = slices.Clone(s.set)
		for i := range s.set {
			s.set[i] = strings.Replace(s.set[i], stages, "processors", 1)
		}
	}
	args := []string{path, "--config", s.file}
	if s.over != "" {
		args = append(args, "--config", s.over)
	}
	for _, set := range s.set {
		args = append(args, "--set", set)
	}
	attributes := &syscall.SysProcAttr{}
	if s.mounts != "" {
		args = append([]string{"/bin/sh", "-ec", s.mounts + "\nexec \"$@\"", "sh"}, args...)
		attributes.Cloneflags = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS
		attributes.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		attributes.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.SysProcAttr = attributes
	cmd.Env = append([]string{"TELEMETRY_PORT=" + processtest.Port(t, telemetry), "HEALTH_ENDPOINT=127.0.0.1:0"}, processtest.Environment(s.env)...)
	start := cmd.Start
	if s.clock != nil {
		start = func() error {
			s.clock.start(t, cmd)
			return nil
		}
	}
	return &collector{Process: processtest.StartBy(t, cmd, start), telemetry: telemetry}
}

// requireMounts skips the test if the machine does not allow creating mount namespaces.
func requireMounts(t *testing.T) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", "mount -t tmpfs none /tmp")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	if output, err := cmd.CombinedOutput(); err != nil {
		notruntest.Skip(t, fmt.Sprintf("a full disk: this machine does not allow mount namespaces: %v %s", err, output))
	}
}

// readPeak updates the collector's peak resident memory.
func (c *collector) readPeak(t *testing.T) {
	t.Helper()
	c.peak = max(c.peak, float64(c.Status(t).VmHWM)/(1<<20))
}

// stop stops the collector the way an orchestrator does. The collector must exit with status 0.
func (c *collector) stop(t *testing.T) {
	t.Helper()
	c.readPeak(t)
	c.Stop(t)
}

// kill sends SIGKILL to the collector and waits for it to exit.
func (c *collector) kill(t *testing.T) {
	t.Helper()
	c.readPeak(t)
	c.Kill()
}

// metric returns the sum of a self-metric of the collector over all series whose label text
// contains label.
func (c *collector) metric(t *testing.T, name, label string) float64 {
	t.Helper()
	page := processtest.Get(t, "http://"+c.telemetry+"/metrics")
	sum := 0.0
	for _, match := range regexp.MustCompile(`(?m)^`+name+`(?:_total|_bytes)?(\{.*\})? (\S+)$`).FindAllStringSubmatch(page, -1) {
		if strings.Contains(match[1], label) {
			v, err := strconv.ParseFloat(match[2], 64)
			require.NoError(t, err)
			sum += v
		}
	}
	return sum
}

// listen listens on the given loopback address or, if the address is empty, on a free port.
func listen(t *testing.T, address string) net.Listener {
	t.Helper()
	var listener net.Listener
	processtest.Until(t, "an address to listen at", func() bool {
		at := address
		if at == "" {
			at = processtest.FreeAddress(t)
		}
		var err error
		listener, err = new(net.ListenConfig).Listen(t.Context(), "tcp", at)
		return err == nil
	})
	return listener
}
