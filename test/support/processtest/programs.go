package processtest

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// StartSimulator starts a simulated exporter that listens on the given address, and returns after
// the exporter has responded to a request for /metrics. By default, the exporter simulates a mixed
// node with eight GPUs. flags are appended to the command line.
func StartSimulator(t testing.TB, address string, flags ...string) *Process {
	t.Helper()
	args := append([]string{"--listen", address, "--scenario", "mixed", "--gpus", "8"}, flags...)
	p := Start(t, exec.Command(Binary(t, "dcgmsim"), args...))
	Until(t, "the simulated exporter", func() bool { return Get(t, "http://"+address+"/metrics") != "" }, p)
	return p
}

// Prometheus is a running Prometheus server.
type Prometheus struct {
	*Process
	URL string
}

// StartPrometheus starts a Prometheus server with the given configuration and returns when the
// server is ready. The server accepts OTLP and remote write. If the prometheus binary is not
// available, StartPrometheus skips the test.
func StartPrometheus(t testing.TB, config string) *Prometheus {
	t.Helper()
	path, dir, address := Tool(t, "OTELCOL_GPU_PROMETHEUS"), t.TempDir(), FreeAddress(t)
	file := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	p := &Prometheus{URL: "http://" + address}
	p.Process = Start(t, exec.Command(path, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address, "--web.enable-otlp-receiver", "--web.enable-remote-write-receiver", "--log.level=warn"))
	Until(t, "Prometheus", func() bool { return strings.Contains(Get(t, p.URL+"/-/ready"), "Ready") }, p.Process)
	return p
}

// API sends a request to Prometheus' HTTP API and decodes the data in the response. The path
// parameter is relative to /api/v1/.
func (p *Prometheus) API(t testing.TB, path string, data any) {
	t.Helper()
	body := Get(t, p.URL+"/api/v1/"+path)
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	require.NoError(t, json.Unmarshal([]byte(body), &answer), body)
	require.Equal(t, "success", answer.Status, "%s: %s", path, answer.Error)
}
