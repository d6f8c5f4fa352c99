package comparison

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/receiver/prometheusreceiver"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/receivertest"

	"github.com/otelcol-gpu/otelcol-gpu/receiver/dcgmreceiver"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/dcgmreceiver/internal/expositiontest"
)

// BenchmarkScrape scrapes the reference load, 8 GPUs in 7 MIG instances each
// with pod labels, over HTTP: with this receiver and with the prometheus
// receiver, both as a collector would start them, from the same server in this
// process. An iteration is one scrape. The receivers scrape in their own time,
// so ns/op is the interval: the figures to compare are those for each sample.
// They are of the whole process, garbage collection and server included; "http"
// is what the server and a client that throws the body away cost alone.
func BenchmarkScrape(b *testing.B) {
	body := expositiontest.Node(8, 7)
	samples := 8 * 7 * expositiontest.FieldCount
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body)
	}))
	defer server.Close()

	b.Run("http", func(b *testing.B) {
		perSample(b, samples, func() {
			for b.Loop() {
				req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, server.URL, http.NoBody)
				require.NoError(b, err)
				resp, err := server.Client().Do(req)
				require.NoError(b, err)
				_, err = io.Copy(io.Discard, resp.Body)
				require.NoError(b, err)
				require.NoError(b, resp.Body.Close())
			}
		})
	})
	for _, peer := range []struct {
		name    string
		factory receiver.Factory
		config  string
	}{
		{"dcgm", dcgmreceiver.NewFactory(), `
endpoints: ["` + server.URL + `/metrics"]
collection_interval: 100ms
start_jitter: 0s
`},
		{"prometheus", prometheusreceiver.NewFactory(), `
config:
  scrape_configs:
    - job_name: dcgm
      scrape_interval: 100ms
      scrape_timeout: 100ms
      static_configs:
        - targets: ["` + server.Listener.Addr().String() + `"]
`},
	} {
		b.Run(peer.name, func(b *testing.B) {
			batches := make(chan int)
			done := make(chan struct{})
			stop := start(b, peer.factory, peer.config, func(_ context.Context, md pmetric.Metrics) error {
				select {
				case batches <- md.DataPointCount():
				case <-done:
				}
				return nil
			})
			const warmUp = 5
			for range warmUp {
				<-batches
			}
			perSample(b, samples, func() {
				for b.Loop() {
					if n := <-batches; n < samples {
						b.Fatalf("a scrape failed: %d points", n)
					}
				}
			})
			close(done)
			stop()
		})
	}
}

// start starts a receiver with that configuration; stop shuts it down.
func start(b *testing.B, factory receiver.Factory, config string, next consumer.ConsumeMetricsFunc) (stop func()) {
	b.Helper()
	retrieved, err := confmap.NewRetrievedFromYAML([]byte(config))
	require.NoError(b, err)
	conf, err := retrieved.AsConf()
	require.NoError(b, err)
	cfg := factory.CreateDefaultConfig()
	require.NoError(b, conf.Unmarshal(cfg))
	require.NoError(b, confmap.Validate(cfg))
	sink, err := consumer.NewMetrics(next)
	require.NoError(b, err)
	r, err := factory.CreateMetrics(b.Context(), receivertest.NewNopSettings(factory.Type()), cfg, sink)
	require.NoError(b, err)
	require.NoError(b, r.Start(b.Context(), componenttest.NewNopHost()))
	return func() { require.NoError(b, r.Shutdown(context.Background())) }
}

// perSample reports what the b.N scrapes of run cost for each sample.
func perSample(b *testing.B, samples int, run func()) {
	b.Helper()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	cpu := cpuTime(b)
	run()
	cpu = cpuTime(b) - cpu
	runtime.ReadMemStats(&after)
	n := float64(b.N) * float64(samples)
	b.ReportMetric(float64(cpu.Nanoseconds())/n, "cpu-ns/sample")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/n, "allocs/sample")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/n, "B/sample")
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
