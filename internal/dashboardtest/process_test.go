package dashboardtest

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience is how long one step of a live run may take on a busy machine.
const patience = 60 * time.Second

// client keeps no connection, and so no goroutine, behind.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}

// tool returns the path of a binary that the environment names, or skips the test.
func tool(t *testing.T, variable string, elements ...string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		t.Skip(variable + " is not set: `make examples` builds what it names and runs this")
	}
	path = filepath.Join(append([]string{path}, elements...)...)
	require.FileExists(t, path)
	return path
}

// process is a running command; it ends with the test.
type process struct {
	output lockedBuffer
	ended  chan struct{}
}

// start runs a command with the environment given and nothing else of ours.
func start(t *testing.T, env map[string]string, path string, args ...string) *process {
	t.Helper()
	cmd := exec.Command(path, args...)
	cmd.Env = environment(env)
	p := &process{ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.output, &p.output
	require.NoError(t, cmd.Start())
	go func() {
		_ = cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.ended:
		case <-time.After(patience):
			_ = cmd.Process.Kill()
			<-p.ended
		}
		if t.Failed() {
			t.Logf("%s said:\n%s", filepath.Base(path), p.output.String())
		}
	})
	return p
}

func environment(set map[string]string) []string {
	var env []string
	for _, key := range []string{"PATH", "HOME", "TMPDIR"} {
		env = append(env, key+"="+os.Getenv(key))
	}
	for key, value := range set {
		env = append(env, key+"="+value)
	}
	return env
}

// lockedBuffer is written by a process while a test may read it.
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

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	return listener.Addr().String()
}

// poll asks until the answer is yes, for what other processes do.
func poll(t *testing.T, p *process, within time.Duration, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	end := time.After(within)
	for !done() {
		select {
		case <-tick.C:
		case <-p.ended:
			require.Fail(t, "the process ended", "waiting for %s", what)
		case <-end:
			require.Fail(t, "nothing came", "waiting for %s", what)
		}
	}
}

// get returns a page, empty while nobody listens yet.
func get(t *testing.T, page string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, page, http.NoBody)
	require.NoError(t, err)
	response, err := client.Do(request)
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return string(body)
}

// prometheus is a running Prometheus that has our alerts for rules.
type prometheus struct {
	*process
	url string
}

func startPrometheus(t *testing.T) *prometheus {
	t.Helper()
	binary := tool(t, "OTELCOL_GPU_PROMETHEUS")
	dir, listen := t.TempDir(), freeAddress(t)
	alerts, err := filepath.Abs(examplesDir + "/prometheus/alerts.yaml")
	require.NoError(t, err)
	gate, err := filepath.Abs(examplesDir + "/keda/gate-rules.yaml")
	require.NoError(t, err)
	config := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(config, []byte(
		"global: {evaluation_interval: 1s}\n"+
			"rule_files: ['"+alerts+"', '"+gate+"']\n"+
			"storage: {tsdb: {out_of_order_time_window: 10m}}\n"), 0o600))
	p := &prometheus{url: "http://" + listen}
	p.process = start(t, nil, binary, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+listen, "--web.enable-otlp-receiver", "--log.level=warn")
	poll(t, p.process, patience, "Prometheus", func() bool { return strings.Contains(get(t, p.url+"/-/ready"), "Ready") })
	return p
}

// query returns the label sets of what an expression has a value for now.
func (p *prometheus) query(t *testing.T, expr string) []map[string]string {
	t.Helper()
	var data struct {
		Result []struct{ Metric map[string]string }
	}
	p.api(t, "query?"+url.Values{"query": {expr}}.Encode(), &data)
	var found []map[string]string
	for _, series := range data.Result {
		found = append(found, series.Metric)
	}
	return found
}

func (p *prometheus) api(t *testing.T, path string, data any) {
	t.Helper()
	body := get(t, p.url+"/api/v1/"+path)
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	require.NoError(t, json.Unmarshal([]byte(body), &answer), body)
	require.Equal(t, "success", answer.Status, "%s: %s", path, answer.Error)
}
