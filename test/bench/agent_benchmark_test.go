package bench

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/cpumeter"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/expositiontest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/processtest"
)

// BenchmarkAgent runs the built collector as an agent at node scale. The collector scrapes the
// reference load and sends OTLP/HTTP requests to a backend that discards them. "windows" uses the
// dcgm receiver with gpu_synthesizer and gpu_window. "prometheus" uses the prometheus receiver,
// which sends what it scrapes. Each benchmark iteration is one scrape. In production, an agent
// scrapes every 15 s and computes 60-second windows. The benchmark runs fifteen times as fast as
// production, so one result takes half a minute. The results are the collector process's CPU time
// during the run, its resident memory at the end, and its peak resident memory.
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
			p := processtest.Start(b, exec.Command(filepath.Join(dir, "otelcol-gpu"), "--config", config))

			const warmUp = 10
			for range warmUp {
				await(b, p, scrapes)
			}
			await(b, p, received)
			before, err := cpumeter.Of(p.Cmd.Process.Pid)
			require.NoError(b, err)
			for b.Loop() {
				await(b, p, scrapes)
			}
			after, err := cpumeter.Of(p.Cmd.Process.Pid)
			require.NoError(b, err)
			await(b, p, received)
			b.ReportMetric(float64((after-before).Microseconds())/float64(b.N), "cpu-µs/scrape")
			b.ReportMetric(float64(p.Status(b).VmRSS)/(1<<20), "MiB-resident")
			b.ReportMetric(float64(p.Status(b).VmHWM)/(1<<20), "MiB-peak")
			p.Stop(b)
			require.Empty(b, p.Output.String(), "the collector logged problems")
		})
	}
}

// await waits for an event that the collector under test triggers.
func await(b *testing.B, p *processtest.Process, event <-chan struct{}) {
	b.Helper()
	select {
	case <-event:
	case <-p.Ended:
		b.Fatalf("the collector ended: %v", p.Err)
	case <-time.After(processtest.Patience):
		b.Fatal("the collector scrapes or sends nothing")
	}
}
