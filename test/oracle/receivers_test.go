package oracle

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/receiver/prometheusreceiver"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/receivertest"

	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/dcgmreceiver"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/expositiontest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/pointtest"
)

// For every fixture and every available recorded response, gpu_synthesizer must send the same
// samples with both receivers.
func TestBothReceiversGiveTheSameSamples(t *testing.T) {
	files, err := filepath.Glob("../../testdata/exposition/*.prom")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	files = append(files, expositiontest.Recordings(t)...)
	exporter := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		http.ServeFile(w, r, files[index(r.URL.Path)])
	}))
	defer exporter.Close()
	target, err := url.Parse(exporter.URL)
	require.NoError(t, err)

	// A single prometheus receiver scrapes all files, with one job per file, because starting a
	// prometheus receiver takes seconds.
	jobs := make([]any, len(files))
	endpoints := make([]any, len(files))
	for i := range files {
		path := "/" + strconv.Itoa(i)
		endpoints[i] = exporter.URL + path
		jobs[i] = map[string]any{
			"job_name": path, "metrics_path": path, "scrape_interval": "1s", "scrape_timeout": "1s",
			"static_configs": []any{map[string]any{"targets": []any{target.Host}}},
		}
	}
	theirs := scrapeAll(t, prometheusreceiver.NewFactory(), len(files),
		map[string]any{"config": map[string]any{"scrape_configs": jobs}},
		func(md pmetric.Metrics) string {
			job, _ := md.ResourceMetrics().At(0).Resource().Attributes().Get("service.name")
			return job.Str()
		})
	ours := scrapeAll(t, dcgmreceiver.NewFactory(), len(files),
		map[string]any{"endpoints": endpoints, "collection_interval": "1s", "timeout": "1s"},
		func(md pmetric.Metrics) string {
			var path string
			each(md, func(_ pmetric.ResourceMetrics, m pmetric.Metric, dp pmetric.NumberDataPoint) {
				if m.Name() == signal.GPUExporterUp.Name {
					full, _ := dp.Attributes().Get(signal.URLFull)
					path = strings.TrimPrefix(full.Str(), exporter.URL)
				}
			})
			return path
		})

	both := 0
	for i, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".prom"), func(t *testing.T) {
			require.True(t, ours[i].up)
			if !theirs[i].up {
				t.Log("the prometheus receiver rejects this text")
				return
			}
			both++
			assert.Equal(t, theirs[i].samples, ours[i].samples)
		})
	}
	assert.GreaterOrEqual(t, both, 12, "too few texts that both receivers read")
}

func index(path string) int {
	i, err := strconv.Atoi(strings.TrimPrefix(path, "/"))
	if err != nil {
		return 0
	}
	return i
}

// first contains the samples from the first scrape of a file.
type first struct {
	up      bool
	samples []string
}

// scrapeAll runs a receiver until every file has been scraped once. Each scrape is sent through a
// separate gpu_synthesizer. The file function returns the path of the file from which a batch was
// scraped.
func scrapeAll(t *testing.T, factory receiver.Factory, files int, config map[string]any, file func(pmetric.Metrics) string) []first {
	t.Helper()
	ctx := context.Background()
	cfg := factory.CreateDefaultConfig()
	require.NoError(t, confmap.NewFromStringMap(config).Unmarshal(cfg))
	require.NoError(t, confmap.Validate(cfg))

	var mu sync.Mutex
	seen := map[int]first{}
	all := make(chan struct{})
	sink, err := consumer.NewMetrics(func(ctx context.Context, md pmetric.Metrics) error {
		mu.Lock()
		defer mu.Unlock()
		i := index(file(md))
		if _, again := seen[i]; again {
			return nil
		}
		f := first{up: up(md)}
		f.samples = synthesize(ctx, t, md)
		seen[i] = f
		if len(seen) == files {
			close(all)
		}
		return nil
	})
	require.NoError(t, err)
	set := receivertest.NewNopSettings(factory.Type())
	set.ID = component.NewID(factory.Type())
	r, err := factory.CreateMetrics(ctx, set, cfg, sink)
	require.NoError(t, err)
	require.NoError(t, r.Start(ctx, componenttest.NewNopHost()))
	select {
	case <-all:
	case <-time.After(2 * time.Minute):
		assert.Fail(t, "not every file was scraped in two minutes")
	}
	require.NoError(t, r.Shutdown(ctx))
	out := make([]first, files)
	for i, f := range seen {
		out[i] = f
	}
	return out
}

// The up function reports whether the scrape succeeded, according to the receiver.
func up(md pmetric.Metrics) bool {
	ok := false
	each(md, func(_ pmetric.ResourceMetrics, m pmetric.Metric, dp pmetric.NumberDataPoint) {
		switch m.Name() {
		case "up":
			ok = dp.DoubleValue() == 1
		case signal.GPUExporterUp.Name:
			ok = dp.IntValue() == 1
		}
	})
	return ok
}

func synthesize(ctx context.Context, t *testing.T, md pmetric.Metrics) []string {
	t.Helper()
	sink := &consumertest.MetricsSink{}
	factory := gpusynthesizerprocessor.NewFactory()
	p, err := factory.CreateMetrics(ctx, processortest.NewNopSettings(factory.Type()),
		factory.CreateDefaultConfig(), sink)
	if assert.NoError(t, err) {
		assert.NoError(t, p.ConsumeMetrics(ctx, md))
	}
	var lines []string
	for _, out := range sink.AllMetrics() {
		lines = append(lines, render(out)...)
	}
	return lines
}

// render returns one line of text, without the timestamp, for each point whose metric is in the
// output contract.
func render(md pmetric.Metrics) []string {
	var lines []string
	each(md, func(rm pmetric.ResourceMetrics, m pmetric.Metric, dp pmetric.NumberDataPoint) {
		if _, ours := signal.Lookup(m.Name()); !ours || m.Name() == signal.GPUExporterUp.Name {
			return
		}
		lines = append(lines, fmt.Sprintf("%s %s %s = %s", pointtest.Text(rm.Resource().Attributes()),
			m.Name(), pointtest.Text(dp.Attributes()), valueText(dp)))
	})
	slices.Sort(lines)
	return lines
}

func each(md pmetric.Metrics, do func(pmetric.ResourceMetrics, pmetric.Metric, pmetric.NumberDataPoint)) {
	for _, rm := range md.ResourceMetrics().All() {
		for _, sm := range rm.ScopeMetrics().All() {
			for _, m := range sm.Metrics().All() {
				for _, dp := range points.Of(m).All() {
					do(rm, m, dp)
				}
			}
		}
	}
}

func valueText(dp pmetric.NumberDataPoint) string {
	if dp.ValueType() == pmetric.NumberDataPointValueTypeInt {
		return strconv.FormatInt(dp.IntValue(), 10)
	}
	return strconv.FormatFloat(dp.DoubleValue(), 'g', -1, 64)
}
