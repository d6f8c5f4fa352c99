package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/receiver/prometheusreceiver"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/receivertest"

	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/dcgmreceiver"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/cpumeter"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/expositiontest"
)

const (
	// gpus and instances define the reference load: 1,624 samples in 550 kB.
	gpus, instances = 8, 7
	// interval and windowLength are the agent's production values, 15 s and 60 s, divided by sixty.
	interval, windowLength = "250ms", "1s"
)

// samplesPerScrape is the number of samples in the reference load.
var samplesPerScrape = gpus * instances * expositiontest.FieldCount

// BenchmarkScrape scrapes the reference load over HTTP: 8 GPUs with 7 MIG instances each, and pod
// labels. The benchmark compares the dcgm receiver alone, the dcgm receiver followed by processors,
// and the prometheus receiver. The benchmark starts each receiver the way a collector does, and all
// receivers scrape the same server in this process. Each benchmark iteration is one scrape. The
// receivers scrape at a fixed interval, so ns/op equals that interval; compare the per-sample
// results instead. The per-sample results cover the entire process, including garbage collection
// and the server. "http" is the cost of the server and of a client that discards the body.
// "http-at-intervals" is the same cost when the client waits for the receivers' scrape interval
// before each request.
func BenchmarkScrape(b *testing.B) {
	server := serveNode(b)

	b.Run("http", func(b *testing.B) { fetches(b, server, 0) })
	b.Run("http-at-intervals", func(b *testing.B) {
		between, err := time.ParseDuration(interval)
		require.NoError(b, err)
		fetches(b, server, between)
	})
	dcgm := `
endpoints: ["` + server.URL + `/metrics"]
collection_interval: ` + interval + `
start_jitter: 0s
`
	prometheus := `
config:
  scrape_configs:
    - job_name: dcgm
      scrape_interval: ` + interval + `
      scrape_timeout: ` + interval + `
      static_configs:
        - targets: ["` + server.Listener.Addr().String() + `"]
`
	for _, peer := range []struct {
		name       string
		factory    receiver.Factory
		config     string
		processors []stage
	}{
		{"dcgm", dcgmreceiver.NewFactory(), dcgm, nil},
		{"dcgm-synthesizer", dcgmreceiver.NewFactory(), dcgm, []stage{{gpusynthesizerprocessor.NewFactory(), ""}}},
		{"dcgm-synthesizer-window", dcgmreceiver.NewFactory(), dcgm, []stage{
			{gpusynthesizerprocessor.NewFactory(), ""},
			{gpuwindowprocessor.NewFactory(), `
window: ` + windowLength + `
grace: 0s
`},
		}},
		{"prometheus", prometheusreceiver.NewFactory(), prometheus, nil},
	} {
		b.Run(peer.name, func(b *testing.B) { scrapes(b, peer.factory, peer.config, peer.processors) })
	}
}

// BenchmarkScrapeMany is like BenchmarkScrape, but with ten exporters, each of which is scraped ten
// times per second. BenchmarkScrapeMany represents a collector that scrapes many nodes. CPU caches
// stay warm between scrapes.
func BenchmarkScrapeMany(b *testing.B) {
	server := serveNode(b)
	var endpoints, targets []string
	for i := range 10 {
		endpoints = append(endpoints, fmt.Sprintf("%s/%d/metrics", server.URL, i))
		targets = append(targets, fmt.Sprintf("{targets: [%q], labels: {__metrics_path__: /%d/metrics}}", server.Listener.Addr(), i))
	}
	b.Run("dcgm", func(b *testing.B) {
		scrapes(b, dcgmreceiver.NewFactory(), `
endpoints: [`+strings.Join(endpoints, ", ")+`]
collection_interval: 100ms
`, nil)
	})
	b.Run("prometheus", func(b *testing.B) {
		scrapes(b, prometheusreceiver.NewFactory(), `
config:
  scrape_configs:
    - job_name: dcgm
      scrape_interval: 100ms
      scrape_timeout: 100ms
      static_configs: [`+strings.Join(targets, ", ")+`]
`, nil)
	})
}

// The scrapes function benchmarks a receiver and the processors that follow it. Each benchmark
// iteration is one scrape.
func scrapes(b *testing.B, factory receiver.Factory, config string, processors []stage) {
	b.Helper()
	// Count the receiver's output before it is passed on, so that a failed scrape is not mistaken
	// for a cheap one.
	counts, done := make(chan int), make(chan struct{})
	next, stopProcessors := chain(b, processors)
	stopReceiver := start(b, factory, config, func(ctx context.Context, md pmetric.Metrics) error {
		exposed := md.DataPointCount()
		err := next.ConsumeMetrics(ctx, md)
		select {
		case counts <- exposed:
		case <-done:
		}
		return err
	})
	// The first scrapes of every endpoint fill the receivers' caches.
	const warmUp = 30
	for range warmUp {
		<-counts
	}
	perSample(b, func() {
		for b.Loop() {
			if n := <-counts; n < samplesPerScrape {
				b.Fatalf("a scrape failed: %d points", n)
			}
		}
	})
	close(done)
	stopReceiver()
	stopProcessors()
}

// The fetches function benchmarks the server and a client that pauses before each request and
// discards the body.
func fetches(b *testing.B, server *httptest.Server, pause time.Duration) {
	b.Helper()
	perSample(b, func() {
		for b.Loop() {
			time.Sleep(pause)
			req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, server.URL, http.NoBody)
			require.NoError(b, err)
			resp, err := server.Client().Do(req)
			require.NoError(b, err)
			_, err = io.Copy(io.Discard, resp.Body)
			require.NoError(b, err)
			require.NoError(b, resp.Body.Close())
		}
	})
}

// serveNode serves the reference load until the benchmark ends.
func serveNode(b *testing.B) *httptest.Server {
	b.Helper()
	body := expositiontest.Node(gpus, instances)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body)
	}))
	b.Cleanup(server.Close)
	return server
}

// stage is a processor in a pipeline and the processor's YAML configuration.
type stage struct {
	factory processor.Factory
	config  string
}

// chain starts the processors and connects them; the last processor's output is discarded.
func chain(b *testing.B, stages []stage) (first consumer.Metrics, stop func()) {
	b.Helper()
	first = consumertest.NewNop()
	stops := make([]func(), len(stages))
	for i := len(stages) - 1; i >= 0; i-- {
		cfg := stages[i].factory.CreateDefaultConfig()
		configure(b, cfg, stages[i].config)
		p, err := stages[i].factory.CreateMetrics(b.Context(), processortest.NewNopSettings(stages[i].factory.Type()), cfg, first)
		require.NoError(b, err)
		require.NoError(b, p.Start(b.Context(), componenttest.NewNopHost()))
		stops[i] = func() { require.NoError(b, p.Shutdown(context.Background())) }
		first = p
	}
	return first, func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// start starts a receiver with the given configuration and returns a function that shuts the
// receiver down.
func start(b *testing.B, factory receiver.Factory, config string, next consumer.ConsumeMetricsFunc) (stop func()) {
	b.Helper()
	cfg := factory.CreateDefaultConfig()
	configure(b, cfg, config)
	sink, err := consumer.NewMetrics(next)
	require.NoError(b, err)
	r, err := factory.CreateMetrics(b.Context(), receivertest.NewNopSettings(factory.Type()), cfg, sink)
	require.NoError(b, err)
	require.NoError(b, r.Start(b.Context(), componenttest.NewNopHost()))
	return func() { require.NoError(b, r.Shutdown(context.Background())) }
}

func configure(b *testing.B, cfg component.Config, yaml string) {
	b.Helper()
	retrieved, err := confmap.NewRetrievedFromYAML([]byte(yaml))
	require.NoError(b, err)
	conf, err := retrieved.AsConf()
	require.NoError(b, err)
	require.NoError(b, conf.Unmarshal(cfg))
	require.NoError(b, confmap.Validate(cfg))
}

// perSample calls the run function, which performs b.N scrapes, and reports the cost per sample.
func perSample(b *testing.B, run func()) {
	b.Helper()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var cpu cpumeter.Meter
	cpu.Start(b)
	run()
	cpu.Stop(b)
	runtime.ReadMemStats(&after)
	n := float64(b.N) * float64(samplesPerScrape)
	cpu.Report(b, samplesPerScrape)
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/n, "allocs/sample")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/n, "B/sample")
}
