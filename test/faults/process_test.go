package faults

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// patience is how long one step may take on a busy machine.
const patience = 60 * time.Second

// agentFile is what is put to the test: the example that users start from.
const agentFile = "../../examples/agent.yaml"

// long says whether the long form runs.
var long = os.Getenv("OTELCOL_GPU_FAULTS_LONG") != ""

// either returns what the form at hand takes.
func either[T any](short, ofLong T) T {
	if long {
		return ofLong
	}
	return short
}

const (
	window   = time.Second
	interval = 100 * time.Millisecond
)

// fast shortens the times of the agent's example; its shape stays as it is.
var fast = []string{
	"receivers.dcgm.collection_interval=" + interval.String(),
	"receivers.dcgm.timeout=" + interval.String(),
	"receivers.dcgm.start_jitter=0s",
	"processors.gpu_window.window=" + window.String(),
	"processors.gpu_window.grace=300ms",
	"processors.gpu_window.max_gap=10s",
	"processors.gpu_window.emit_jitter=0s",
	"processors.gpu_window.snapshot_interval=200ms",
	"exporters.otlp_http.retry_on_failure.initial_interval=100ms",
	"exporters.otlp_http.retry_on_failure.max_interval=500ms",
	"exporters.otlp_http.sending_queue.batch.flush_timeout=100ms",
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

// collector is a running process under test.
type collector struct {
	cmd       *exec.Cmd
	telemetry string // address of its own metrics
	output    lockedBuffer
	ended     chan struct{} // closed when err holds how it ended
	err       error
	peak      float64 // VmHWM in MiB when it was last looked at
}

// lockedBuffer may be read while a process writes to it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// setting is how a collector is started.
type setting struct {
	file string            // agentFile when empty
	set  []string          // --set
	env  map[string]string // beside the harness' own
	// mounts is a shell script that changes what the process sees of the file
	// system; it runs in a mount namespace of its own.
	mounts string
}

// startCollector starts a collector, which ends with the test.
func startCollector(t *testing.T, s setting) *collector {
	t.Helper()
	c := &collector{telemetry: freeAddress(t), ended: make(chan struct{})}
	_, port, err := net.SplitHostPort(c.telemetry)
	require.NoError(t, err)
	if s.file == "" {
		s.file = agentFile
	}
	path := binary(t, "otelcol-gpu")
	args := []string{path, "--config", s.file}
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
	c.cmd = exec.Command(args[0], args[1:]...)
	c.cmd.SysProcAttr = attributes
	c.cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "TMPDIR=" + os.Getenv("TMPDIR"),
		"TELEMETRY_PORT=" + port, "HEALTH_ENDPOINT=127.0.0.1:0",
	}
	for key, value := range s.env {
		c.cmd.Env = append(c.cmd.Env, key+"="+value)
	}
	c.cmd.Stdout, c.cmd.Stderr = &c.output, &c.output
	require.NoError(t, c.cmd.Start())
	go func() {
		c.err = c.cmd.Wait()
		close(c.ended)
	}()
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		<-c.ended
		if t.Failed() {
			said := c.output.String()
			t.Logf("the collector said:\n%s", said[max(0, len(said)-2<<10):])
		}
	})
	return c
}

// requireMounts skips the test where a process cannot get a mount namespace.
func requireMounts(t *testing.T) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", "mount -t tmpfs none /tmp")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("NOT RUN: this machine gives a process no mount namespace of its own: %v %s", err, output)
	}
}

// look reads the highest resident memory until now.
func (c *collector) look(t *testing.T) {
	t.Helper()
	c.peak = max(c.peak, status(t, c.cmd.Process.Pid, "VmHWM")/1024)
}

// status returns a number of /proc/<pid>/status; sizes are in KiB there.
func status(t *testing.T, pid int, field string) float64 {
	t.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	for line := range strings.Lines(string(content)) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			n, err := strconv.ParseFloat(strings.Fields(value)[0], 64)
			require.NoError(t, err)
			return n
		}
	}
	require.Fail(t, "no "+field, "a process that ended? %s", content)
	return 0
}

// stop ends the collector as an orchestrator would; it has to end with status 0.
func (c *collector) stop(t *testing.T) {
	t.Helper()
	c.look(t)
	require.NoError(t, c.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-c.ended:
		require.NoError(t, c.err, "exit status")
	case <-time.After(patience):
		require.Fail(t, "the collector does not end")
	}
	assert.NotContains(t, c.output.String(), "panic")
}

// kill ends the collector at once.
func (c *collector) kill(t *testing.T) {
	t.Helper()
	c.look(t)
	require.NoError(t, c.cmd.Process.Kill())
	<-c.ended
}

// metric sums the collector's own metric over the series that hold the label text.
func (c *collector) metric(t *testing.T, name, label string) float64 {
	t.Helper()
	page := get(t, "http://"+c.telemetry+"/metrics")
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

// get returns a page, empty while nobody answers.
func get(t *testing.T, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	response, err := client.Do(request)
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return ""
	}
	return string(body)
}

// wait asks until the answer is yes, for what other processes do; the collector,
// where one is given, has to live meanwhile.
func wait(t *testing.T, c *collector, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	end := time.After(patience)
	var ended chan struct{}
	if c != nil {
		ended = c.ended
	}
	for !done() {
		select {
		case <-tick.C:
		case <-ended:
			require.Fail(t, "the collector ended", "waiting for %s: %v", what, c.err)
		case <-end:
			require.Fail(t, "it did not happen", "waiting for %s", what)
		}
	}
}

// nextPort counts through ports below those that the kernel gives to whoever asks for
// any, so that nobody gets one while it is down.
var nextPort atomic.Uint32

func init() { nextPort.Store(20_000 + rand.Uint32N(8_000)) }

// listen listens at a loopback address, or at a free one where it is empty.
func listen(t *testing.T, address string) net.Listener {
	t.Helper()
	var listener net.Listener
	wait(t, nil, "an address to listen at", func() bool {
		at := address
		if at == "" {
			at = freeAddress(t)
		}
		var err error
		listener, err = new(net.ListenConfig).Listen(t.Context(), "tcp", at)
		return err == nil
	})
	return listener
}

// freeAddress returns a loopback address that nobody else is given.
func freeAddress(t *testing.T) string {
	t.Helper()
	for {
		address := fmt.Sprintf("127.0.0.1:%d", nextPort.Add(1))
		if listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address); err == nil {
			require.NoError(t, listener.Close())
			return address
		}
	}
}
