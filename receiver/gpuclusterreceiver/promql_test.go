package gpuclusterreceiver

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/otlptranslator"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"go.uber.org/zap"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// The README's first query, on a real query engine: of four pods with a GPU
// each by DRA the one whose GPU did nothing is found, and neither the busy one,
// nor the one of which there is no telemetry, nor the one that has a claim yet
// to be allocated.
func TestAReservedButIdleGPUIsOneQueryAway(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(readme), "```promql\n")
	require.True(t, found)
	query, _, _ := strings.Cut(rest, "```")

	cfg := createDefaultConfig().(*Config)
	families, err := cfg.families()
	require.NoError(t, err)
	s := newStore(cfg.demandOptions(families), families, func() {}, zap.NewNop())
	for _, o := range readObjects(t, filepath.Join("testdata", "idle", "cluster.yaml")) {
		put(t, s, o)
	}
	db := newPrometheus(t)
	for at := now.Add(-30 * time.Minute); !at.After(now); at = at.Add(time.Minute) {
		for _, md := range look(s, cfg) {
			db.store(md, at)
		}
		db.store(utilization("GPU-busy", 0.7), at)
		db.store(utilization("GPU-idle", 0), at)
		db.store(utilization("GPU-free", 0), at)
	}
	idle := db.query(query, now)
	require.Len(t, idle, 1)
	assert.Equal(t, "GPU-idle", idle[0].Get("hw_id"))
	assert.Equal(t, "notebook", idle[0].Get("k8s_pod_name"))
	assert.Equal(t, "notebook-gpu", idle[0].Get("k8s_resourceclaim_name"))
}

// utilization is a window of a device that nobody else's series are mixed with.
func utilization(id string, v float64) pmetric.Metrics {
	md := pmetric.NewMetrics()
	rm := md.ResourceMetrics().AppendEmpty()
	rm.Resource().Attributes().PutStr(signal.K8sNodeName, "a")
	m := rm.ScopeMetrics().AppendEmpty().Metrics().AppendEmpty()
	m.SetName("gpu.utilization.max")
	m.SetUnit("1")
	dp := m.SetEmptyGauge().DataPoints().AppendEmpty()
	dp.SetDoubleValue(v)
	dp.Attributes().PutStr(signal.HardwareID, id)
	return md
}

// prometheus is Prometheus' storage and query engine.
type prometheus struct {
	t  *testing.T
	db *teststorage.TestStorage
}

func newPrometheus(t *testing.T) *prometheus {
	t.Helper()
	db, err := teststorage.NewWithError(func(opts *tsdb.Options) {
		opts.WALSegmentSize = -1
		opts.EnableExemplarStorage = false
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return &prometheus{t, db}
}

// store stores gauges under their translated names, Resource attributes promoted.
func (p *prometheus) store(md pmetric.Metrics, at time.Time) {
	namer := otlptranslator.NewMetricNamer("", otlptranslator.UnderscoreEscapingWithSuffixes)
	app := p.db.Appender(context.Background())
	for _, rm := range md.ResourceMetrics().All() {
		for _, m := range rm.ScopeMetrics().At(0).Metrics().All() {
			name, err := namer.Build(otlptranslator.Metric{Name: m.Name(), Unit: m.Unit(), Type: otlptranslator.MetricTypeGauge})
			require.NoError(p.t, err)
			for _, dp := range m.Gauge().DataPoints().All() {
				b := labels.NewBuilder(labels.FromStrings(labels.MetricName, name))
				for _, attrs := range []pcommon.Map{rm.Resource().Attributes(), dp.Attributes()} {
					for k, v := range attrs.All() {
						label, err := (&otlptranslator.LabelNamer{}).Build(k)
						require.NoError(p.t, err)
						b.Set(label, v.AsString())
					}
				}
				_, err := app.Append(0, b.Labels(), at.UnixMilli(), dp.DoubleValue()+float64(dp.IntValue()))
				require.NoError(p.t, err)
			}
		}
	}
	require.NoError(p.t, app.Commit())
}

// query returns the label sets of an instant query's result.
func (p *prometheus) query(text string, at time.Time) []labels.Labels {
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples: 1e6, Timeout: time.Minute, Parser: parser.NewParser(parser.Options{}),
	})
	defer func() { require.NoError(p.t, engine.Close()) }()
	q, err := engine.NewInstantQuery(context.Background(), p.db, nil, text, at)
	require.NoError(p.t, err)
	defer q.Close()
	vector, err := q.Exec(context.Background()).Vector()
	require.NoError(p.t, err)
	var out []labels.Labels
	for _, s := range vector {
		out = append(out, s.Metric)
	}
	return out
}
