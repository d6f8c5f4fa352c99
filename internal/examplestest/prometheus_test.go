package examplestest

import (
	"log/slog"
	"math"
	"testing"
	"time"

	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage/remote"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

// runToPrometheus puts Prometheus' own OTLP intake and storage behind the
// collector, with the settings of a Prometheus that promotes nothing, and counts:
// as many samples have to be stored as points were sent. One less would mean that
// two series became one.
func runToPrometheus(t *testing.T, file string, set []string) {
	t.Helper()
	storage := teststorage.New(t, func(options *tsdb.Options) {
		options.OutOfOrderTimeWindow = (10 * time.Minute).Milliseconds()
	})
	intake := remote.NewOTLPWriteHandler(slog.New(slog.DiscardHandler), nil, storage,
		func() config.Config { return config.DefaultConfig }, remote.OTLPOptions{})
	backend := newSink(t, intake)
	c := startCollector(t, file, set, map[string]string{"OTLP_ENDPOINT": backend.URL + "/api/v1/otlp"})
	backend.waitFor(t, c, "two windows", twoWindows)
	c.stop(t)

	sent := backend.all()
	checkWindows(t, sent, windowLength)
	want := 0
	points(sent, func(_ pmetric.ResourceMetrics, metric pmetric.Metric, point pmetric.NumberDataPoint) {
		want++
		if metric.Type() == pmetric.MetricTypeGauge {
			assert.Zero(t, point.StartTimestamp(), "%s: the start of a window would become a sample", metric.Name())
		}
	})
	assert.Equal(t, want, storedSamples(t, storage), "samples stored for the points sent")
}

// storedSamples counts the samples of every series but the one that Prometheus
// adds for a Resource.
func storedSamples(t *testing.T, storage *teststorage.TestStorage) int {
	t.Helper()
	querier, err := storage.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	defer querier.Close()
	series := querier.Select(t.Context(), false, nil,
		labels.MustNewMatcher(labels.MatchNotEqual, "__name__", "target_info"))
	samples := 0
	for series.Next() {
		iterator := series.At().Iterator(nil)
		for iterator.Next() != chunkenc.ValNone {
			samples++
		}
		require.NoError(t, iterator.Err())
	}
	require.NoError(t, series.Err())
	return samples
}
