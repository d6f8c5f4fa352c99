package dcgmreceiver

import (
	"context"
	"errors"
	"flag"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/pkg/golden"
	"github.com/open-telemetry/opentelemetry-collector-contrib/pkg/pdatatest/pmetrictest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/configopaque"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/dcgmreceiver/internal/metadatatest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/expositiontest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/kubetest"
)

var update = flag.Bool("update", false, "write the expected files of golden tests")

func discardLog() *log.Logger { return log.New(io.Discard, "", 0) }

// TestBatches scrapes each file testdata/batches/<name>/body.prom and compares the batch with
// expected.yaml. If the -update flag is set, TestBatches first writes the batch to expected.yaml.
func TestBatches(t *testing.T) {
	t.Setenv(componenthelper.NodeNameEnv, "")
	dirs, err := filepath.Glob("testdata/batches/*")
	require.NoError(t, err)
	require.NotEmpty(t, dirs)
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				body, err := os.ReadFile(filepath.Join(dir, "body.prom"))
				require.NoError(t, err)
				var n network
				n.listen(t, "gpu-node-1:9400", serve(string(body)))
				f := opened(t, []string{"http://gpu-node-1:9400"}, nil)
				f.transport.DialContext = n.dial
				got := f.scrape(t, 0)

				path := filepath.Join(dir, "expected.yaml")
				if *update {
					require.NoError(t, golden.WriteMetricsToFile(path, got, golden.SkipMetricTimestampNormalization()))
				}
				want, err := golden.ReadMetrics(path)
				require.NoError(t, err)
				require.NoError(t, pmetrictest.CompareMetrics(want, got))
			})
		})
	}
}

// If all agents in a cluster scrape the same URL, such as localhost, only the node distinguishes
// their exporters.
func TestExporterUpHasTheNodeOfTheExporter(t *testing.T) {
	t.Setenv(componenthelper.NodeNameEnv, "gpu-node-7")
	for endpoint, want := range map[string]string{
		"http://localhost:9400/metrics": "gpu-node-7",
		"http://127.0.0.1:9400/metrics": "gpu-node-7",
		"http://[::1]:9400/metrics":     "gpu-node-7",
		"http://10.0.0.7:9400/metrics":  "",
		"http://exporter:9400/metrics":  "",
	} {
		u, err := parseEndpoint(endpoint)
		require.NoError(t, err)
		md := batchBuilder{node: nodeOf(u)}.build(nil, endpoint, 1)
		node, _ := md.ResourceMetrics().At(0).Resource().Attributes().Get(signal.K8sNodeName)
		assert.Equal(t, want, node.Str(), endpoint)
	}
}

func TestRecordedOutputsAreComplete(t *testing.T) {
	for _, path := range expositiontest.Recordings(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			body, err := os.ReadFile(path)
			require.NoError(t, err)
			server := httptest.NewServer(serve(string(body)))
			defer server.Close()
			f := opened(t, []string{server.URL}, nil)
			first := f.scrape(t, 0)
			lines := sampleLines(body)
			if filepath.Base(path) == "intel_xpum1_flex140_issue112.prom" {
				lines-- // this file contains a duplicate series
			}
			assert.Equal(t, lines+1, first.DataPointCount(), "one point per sample line, and gpu.exporter.up")
			second := f.scrape(t, 0)
			require.NoError(t, pmetrictest.CompareMetrics(first, second, pmetrictest.IgnoreTimestamp()))
			for m, point := range points(first) {
				assert.Zero(t, point.StartTimestamp())
				if m.Type() == pmetric.MetricTypeSum {
					assert.True(t, m.Sum().IsMonotonic())
					assert.Equal(t, pmetric.AggregationTemporalityCumulative, m.Sum().AggregationTemporality())
				}
			}
		})
	}
}

func sampleLines(body []byte) int {
	n, atStart, comment := 0, true, false
	for _, c := range body {
		switch {
		case c == '\n':
			atStart, comment = true, false
		case atStart && !comment:
			if c != '#' {
				n++
			}
			atStart, comment = false, true
		}
	}
	return n
}

func TestAllPointsOfABatchHaveTheStartTimeOfTheScrape(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var servers network
		servers.listen(t, "exporter:9400", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			<-time.After(3 * time.Second)
			_, _ = w.Write([]byte(goodBody))
		}))
		f := opened(t, []string{"http://exporter:9400"}, nil)
		f.transport.DialContext = servers.dial
		start := pcommon.NewTimestampFromTime(time.Now())
		n := 0
		for _, point := range points(f.scrape(t, 0)) {
			n++
			assert.Equal(t, start, point.Timestamp())
		}
		assert.Equal(t, 3, n)
	})
}

func TestAHangingExporterDoesNotDelayOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n network
		n.listen(t, "hangs:9400", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
		n.listen(t, "works:9400", serve(goodBody))
		f := newFixture(t, []string{"http://hangs:9400", "http://works:9400"}, func(cfg *Config) { cfg.StartJitter = new(time.Duration) })
		f.start(t, &n)
		<-time.After(46 * time.Second)
		require.NoError(t, f.Shutdown(t.Context()))

		ups := map[string][]int64{}
		for _, md := range f.sink.AllMetrics() {
			value, url := exporterUpOf(t, md)
			ups[url] = append(ups[url], value)
		}
		assert.Equal(t, map[string][]int64{
			"http://works:9400/metrics": {1, 1, 1, 1},
			"http://hangs:9400/metrics": {0, 0, 0},
		}, ups)
	})
}

func TestSlowConsumerDelaysOnlyItsEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n network
		n.listen(t, "slow:9400", serve(goodBody))
		n.listen(t, "quick:9400", serve(goodBody))
		f := newFixture(t, []string{"http://slow:9400", "http://quick:9400"}, func(cfg *Config) { cfg.StartJitter = new(time.Duration) })
		sink := f.sink
		next, err := consumer.NewMetrics(func(ctx context.Context, md pmetric.Metrics) error {
			if _, url := exporterUpOf(t, md); url == "http://slow:9400/metrics" {
				<-time.After(20 * time.Second)
			}
			return sink.ConsumeMetrics(ctx, md)
		})
		require.NoError(t, err)
		f.next = next
		f.start(t, &n)
		<-time.After(51 * time.Second)
		require.NoError(t, f.Shutdown(t.Context()))

		starts := map[string][]int{}
		for _, md := range sink.AllMetrics() {
			_, url := exporterUpOf(t, md)
			ts := timestamp(md)
			starts[url] = append(starts[url], ts.Second())
		}
		assert.Equal(t, map[string][]int{
			"http://quick:9400/metrics": {0, 15, 30, 45},
			"http://slow:9400/metrics":  {0, 30},
		}, starts)
	})
}

func TestEndpointsStartAtRandomTimesWithinTheJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n network
		var endpoints []string
		for _, host := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
			n.listen(t, host+":9400", serve(goodBody))
			endpoints = append(endpoints, "http://"+host+":9400")
		}
		f := newFixture(t, endpoints, nil)
		start := time.Now()
		f.start(t, &n)
		<-time.After(defaultCollectionInterval)
		synctest.Wait()
		require.NoError(t, f.Shutdown(t.Context()))

		at := map[time.Duration]bool{}
		require.Len(t, f.sink.AllMetrics(), len(endpoints))
		for _, md := range f.sink.AllMetrics() {
			ts := timestamp(md)
			at[ts.Sub(start)] = true
		}
		assert.Greater(t, len(at), 1)
	})
}

func TestShutdown(t *testing.T) {
	t.Run("without a start", func(t *testing.T) {
		f := newFixture(t, []string{"http://localhost:9400"}, nil)
		require.NoError(t, f.Shutdown(t.Context()))
		require.NoError(t, f.Shutdown(t.Context()))
	})
	// In a build without the NVML binding, Start fails after it has acquired the caches and started
	// the stages.
	t.Run("after a start that failed before the first scrape", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := discovering(t, kubetest.NewClient(), nil)
			require.NoError(t, section(t, "stages: {gpu_window: {}}").Unmarshal(f.cfg))
			f.next = nil
			require.NoError(t, f.open(t.Context(), f.host))
			require.NoError(t, f.startStages(t.Context()))
			require.NotEmpty(t, f.discovery.caches)
			require.NoError(t, f.Shutdown(t.Context()))
			require.NoError(t, f.Shutdown(t.Context()))
			assert.Empty(t, f.discovery.caches)
			// The test fails if a goroutine of a stage is still running.
		})
	})
	t.Run("cancels a request in progress and records nothing", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var n network
			n.listen(t, "exporter:9400", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
			f := newFixture(t, []string{"http://exporter:9400"}, func(cfg *Config) { cfg.StartJitter = new(time.Duration) })
			f.start(t, &n)
			<-time.After(time.Second)
			start := time.Now()
			require.NoError(t, f.Shutdown(t.Context()))
			require.NoError(t, f.Shutdown(t.Context()))
			assert.Zero(t, time.Since(start))
			assert.Empty(t, f.sink.AllMetrics())
			assert.Empty(t, messages(f.logs))
			assert.Empty(t, f.host.Statuses())
		})
	})
	t.Run("closes the connections regardless of the client's wrappers", func(t *testing.T) {
		states := make(chan http.ConnState, 10)
		server := httptest.NewUnstartedServer(serve(goodBody))
		server.Config.ConnState = func(_ net.Conn, state http.ConnState) { states <- state }
		server.Start()
		defer server.Close()
		scraped := make(chan struct{}, 1)
		f := newFixture(t, []string{server.URL}, func(cfg *Config) {
			cfg.StartJitter = new(time.Duration)
			cfg.HTTP.Headers = configopaque.MapList{{Name: "X-Tenant", Value: "gpu"}}
		})
		next, err := consumer.NewMetrics(func(context.Context, pmetric.Metrics) error {
			scraped <- struct{}{}
			return nil
		})
		require.NoError(t, err)
		f.next = next
		require.NoError(t, f.Start(t.Context(), f.host))
		<-scraped
		require.NoError(t, f.Shutdown(t.Context()))
		for state := range states {
			if state == http.StateClosed {
				break
			}
		}
	})
	t.Run("waits for the next consumer until its context ends", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var n network
			n.listen(t, "exporter:9400", serve(goodBody))
			f := newFixture(t, []string{"http://exporter:9400"}, func(cfg *Config) { cfg.StartJitter = new(time.Duration) })
			var ended atomic.Value
			next, err := consumer.NewMetrics(func(ctx context.Context, _ pmetric.Metrics) error {
				<-ctx.Done()
				ended.Store(time.Now())
				return ctx.Err()
			})
			require.NoError(t, err)
			f.next = next
			f.start(t, &n)
			<-time.After(time.Second)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			deadline, _ := ctx.Deadline()
			require.ErrorIs(t, f.Shutdown(ctx), context.DeadlineExceeded)
			synctest.Wait()
			assert.Equal(t, deadline, ended.Load())
		})
	})
}

func TestStartFailsIfTheClientCannotBeCreated(t *testing.T) {
	f := newFixture(t, []string{"https://localhost:9400"}, func(cfg *Config) { cfg.HTTP.TLS.CAFile = "testdata/no_such_file.pem" })
	require.ErrorContains(t, f.Start(t.Context(), f.host), "http: ")
	require.NoError(t, f.Shutdown(t.Context()))
}

// The start method starts the receiver and connects it to an in-memory network.
func (f *fixture) start(t *testing.T, n *network) {
	t.Helper()
	require.NoError(t, f.open(t.Context(), f.host))
	f.transport.DialContext = n.dial
	f.run(t.Context())
}

func TestStateChangeIsLoggedOnce(t *testing.T) {
	var answer atomic.Value
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer.Load().(http.HandlerFunc)(w, r) }))
	defer server.Close()
	refuse := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	f := opened(t, []string{server.URL}, nil)
	for _, step := range []struct {
		answer   http.HandlerFunc
		messages []string
	}{
		{serve(goodBody), nil},
		{refuse, []string{"warn: Scraping the exporter fails"}},
		{refuse, nil},
		{serve(""), []string{"warn: Scraping the exporter fails"}},
		{refuse, nil},
		{serve(""), nil},
		{serve(goodBody), []string{"info: Scraping the exporter works again"}},
		{serve(goodBody), nil},
		{refuse, []string{"warn: Scraping the exporter fails"}},
	} {
		answer.Store(step.answer)
		f.scrape(t, 0)
		assert.Equal(t, step.messages, messages(f.logs))
		f.logs.TakeAll()
	}
	assert.Equal(t, []componentstatus.Status{
		componentstatus.StatusRecoverableError, componentstatus.StatusOK, componentstatus.StatusRecoverableError,
	}, f.host.Statuses())
}

func TestTheStatusIsOKWhenAllEndpointsWorkAgain(t *testing.T) {
	var broken [2]atomic.Bool
	var endpoints []string
	for i := range broken {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if broken[i].Load() {
				w.WriteHeader(http.StatusInternalServerError)
			}
			_, _ = w.Write([]byte(goodBody))
		}))
		t.Cleanup(server.Close)
		endpoints = append(endpoints, server.URL)
	}
	f := opened(t, endpoints, nil)
	for _, step := range []struct {
		broken [2]bool
		want   []componentstatus.Status
	}{
		{[2]bool{false, false}, nil},
		{[2]bool{true, false}, []componentstatus.Status{componentstatus.StatusRecoverableError}},
		{[2]bool{true, true}, []componentstatus.Status{componentstatus.StatusRecoverableError}},
		{[2]bool{false, true}, []componentstatus.Status{componentstatus.StatusRecoverableError}},
		{[2]bool{false, false}, []componentstatus.Status{componentstatus.StatusRecoverableError, componentstatus.StatusOK}},
	} {
		for i := range broken {
			broken[i].Store(step.broken[i])
			f.scrape(t, i)
		}
		assert.Equal(t, step.want, f.host.Statuses())
	}
	assert.ErrorContains(t, f.host.Events()[0].Err(), endpoints[0]+"/metrics: HTTP status 500")
}

func TestSelfMetrics(t *testing.T) {
	answers := make(chan http.HandlerFunc, 3)
	answers <- serve(goodBody + "bad line\nx{y=\"1\"} NVIDIA\nDCGM_FI_DEV_GPU_TEMP{gpu=\"0\",UUID=\"GPU-1\"} 31\n")
	answers <- serve(goodBody)
	answers <- func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (<-answers)(w, r) }))
	defer server.Close()
	f := opened(t, []string{server.URL}, nil)
	for range cap(answers) {
		f.scrape(t, 0)
	}
	by := func(key, value string) attribute.Set { return attribute.NewSet(attribute.String(key, value)) }
	ignore := metricdatatest.IgnoreTimestamp()
	metadatatest.AssertEqualReceiverDcgmScrapes(t, f.telemetry, []metricdata.DataPoint[int64]{
		{Attributes: by("outcome", "ok"), Value: 2},
		{Attributes: by("outcome", "http_status"), Value: 1},
	}, ignore)
	metadatatest.AssertEqualReceiverDcgmSamples(t, f.telemetry, []metricdata.DataPoint[int64]{{Value: 4}}, ignore)
	metadatatest.AssertEqualReceiverDcgmSkippedLines(t, f.telemetry, []metricdata.DataPoint[int64]{
		{Attributes: by("reason", "value"), Value: 2},
		{Attributes: by("reason", "duplicate_series"), Value: 1},
	}, ignore)
	metadatatest.AssertEqualReceiverDcgmSeriesCacheSize(t, f.telemetry, []metricdata.DataPoint[int64]{{Value: 2}}, ignore)
	duration, err := f.telemetry.GetMetric("otelcol_receiver_dcgm_scrape_duration")
	require.NoError(t, err)
	assert.EqualValues(t, 3, duration.Data.(metricdata.Histogram[float64]).DataPoints[0].Count)
	// Each of the two successful scrapes returned gpu.exporter.up and two samples. The failed
	// scrape returned only gpu.exporter.up.
	assert.EqualValues(t, 7, sum(t, f.telemetry, "otelcol_receiver_accepted_metric_points"))
}

func TestRejectedBatchesAreCountedAndNotRetried(t *testing.T) {
	server := httptest.NewServer(serve(goodBody))
	defer server.Close()
	f := opened(t, []string{server.URL}, nil)
	f.next = consumertest.NewErr(errors.New("full"))
	f.endpoints[0].scrape(t.Context(), t.Context())
	assert.EqualValues(t, 3, sum(t, f.telemetry, "otelcol_receiver_refused_metric_points"))
	assert.Empty(t, f.host.Statuses(), "a failure of the next consumer is not a failure of the exporter")
}

func sum(t *testing.T, telemetry *componenttest.Telemetry, name string) (total int64) {
	t.Helper()
	m, err := telemetry.GetMetric(name)
	require.NoError(t, err)
	for _, dp := range m.Data.(metricdata.Sum[int64]).DataPoints {
		total += dp.Value
	}
	return total
}
