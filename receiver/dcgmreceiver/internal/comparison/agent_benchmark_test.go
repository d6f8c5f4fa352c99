package comparison

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/cpumeter"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/dcgmreceiver/internal/expositiontest"
)

// BenchmarkAgent runs the built collector as an agent at node scale: the
// reference load in, OTLP/HTTP out to a backend that throws it away. "windows" is
// the dcgm receiver with the synthesizer and windows, "prometheus" the prometheus
// receiver that sends what it scraped. An iteration is one scrape. An agent
// scrapes every 15s into windows of 60s; here everything is fifteen times as
// fast, so that the figures for a scrape come in half a minute. They are of the
// collector's process alone: CPU time over the run, resident memory at its end and
// at its highest.
func BenchmarkAgent(b *testing.B) {
	dir := os.Getenv("OTELCOL_GPU_BIN")
	if dir == "" {
		b.Skip("OTELCOL_GPU_BIN does not name the directory of the built commands: `make bench` does")
	}
	for _, agent := range []struct{ name, receiver, pipeline string }{
		{"windows", `
  dcgm:
    endpoints: ["http://%s/metrics"]
    collection_interval: 1s
    timeout: 1s
processors:
  gpu_synthesizer:
  gpu_window: {window: 4s, grace: 500ms}
`, `{receivers: [dcgm], processors: [gpu_synthesizer, gpu_window], exporters: [otlp_http]}`},
		{"prometheus", `
  prometheus:
    config:
      scrape_configs:
        - job_name: dcgm
          scrape_interval: 1s
          scrape_timeout: 1s
          static_configs: [{targets: ["%s"]}]
`, `{receivers: [prometheus], exporters: [otlp_http]}`},
	} {
		b.Run(agent.name, func(b *testing.B) {
			body := expositiontest.Node(gpus, instances)
			scrapes, done := make(chan struct{}), make(chan struct{})
			exporter := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
				_, _ = w.Write(body)
				select {
				case scrapes <- struct{}{}:
				case <-done:
				}
			}))
			received := make(chan struct{}, 1)
			backend := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				select {
				case received <- struct{}{}:
				default:
				}
			}))
			defer backend.Close()
			defer exporter.Close()
			defer close(done)

			config := filepath.Join(b.TempDir(), "config.yaml")
			require.NoError(b, os.WriteFile(config, fmt.Appendf(nil, `
receivers:`+agent.receiver+`
exporters:
  otlp_http: {endpoint: %q}
service:
  pipelines: {metrics: `+agent.pipeline+`}
  telemetry: {metrics: {level: none}, logs: {level: warn}}
`, exporter.Listener.Addr(), backend.URL), 0o600))
			p := startProcess(b, filepath.Join(dir, "otelcol-gpu"), "--config", config)

			const warmUp = 10
			for range warmUp {
				p.await(b, scrapes)
			}
			p.await(b, received)
			cpu := cpumeter.Of(b, p.cmd.Process.Pid)
			for b.Loop() {
				p.await(b, scrapes)
			}
			cpu = cpumeter.Of(b, p.cmd.Process.Pid) - cpu
			p.await(b, received)
			b.ReportMetric(float64(cpu.Microseconds())/float64(b.N), "cpu-µs/scrape")
			b.ReportMetric(p.status(b, "VmRSS")/1024, "MiB-resident")
			b.ReportMetric(p.status(b, "VmHWM")/1024, "MiB-peak")
			p.stop(b)
		})
	}
}

// process is a collector under measurement.
type process struct {
	cmd    *exec.Cmd
	output bytes.Buffer
	ended  chan struct{}
}

func startProcess(b *testing.B, path string, args ...string) *process {
	b.Helper()
	p := &process{cmd: exec.CommandContext(b.Context(), path, args...), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	require.NoError(b, p.cmd.Start())
	go func() {
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	return p
}

func (p *process) await(b *testing.B, event <-chan struct{}) {
	b.Helper()
	select {
	case <-event:
	case <-p.ended:
		b.Fatalf("the collector ended: %s", &p.output)
	case <-time.After(time.Minute):
		b.Fatal("the collector scrapes or sends nothing")
	}
}

func (p *process) stop(b *testing.B) {
	b.Helper()
	require.NoError(b, p.cmd.Process.Signal(syscall.SIGTERM))
	<-p.ended
	require.Empty(b, p.output.String(), "the collector complained")
}

// status returns a figure of /proc/<pid>/status in KiB.
func (p *process) status(b *testing.B, key string) float64 {
	b.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	require.NoError(b, err)
	for line := range strings.Lines(string(content)) {
		if value, ok := strings.CutPrefix(line, key+":"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 64)
			require.NoError(b, err)
			return kib
		}
	}
	b.Fatalf("no %s", key)
	return 0
}
