package oracle

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/otlptranslator"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/goldentest"
)

// Four pods each request one GPU through DRA. The first query in gpu_cluster's README must find
// only the pod with the idle GPU. The query must not find the pod with the busy GPU, the pod
// without telemetry, or the pod whose claim is not allocated. The receiver's data comes from its
// golden output for the same cluster.
func TestAReservedButIdleGPUIsOneQueryAway(t *testing.T) {
	receiver := filepath.Join("..", "..", "receiver", "gpuclusterreceiver")
	readme, err := os.ReadFile(filepath.Join(receiver, "README.md"))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(readme), "```promql\n")
	require.True(t, found)
	query, _, _ := strings.Cut(rest, "```")
	cluster, err := os.ReadFile(filepath.Join(receiver, "testdata", "golden",
		"the_first_query_of_the_readme_finds_a_reserved_but_idle_gpu", "output.txt"))
	require.NoError(t, err)
	const telemetry = `
{k8s.node.name=a} gpu.utilization.max {hw.id=GPU-busy} = 0.7
{k8s.node.name=a} gpu.utilization.max {hw.id=GPU-idle} = 0
{k8s.node.name=a} gpu.utilization.max {hw.id=GPU-free} = 0
`

	p := newPrometheus(t, time.Minute)
	for at := time.Duration(0); at <= 30*time.Minute; at += p.step {
		p.storeGauges(string(cluster)+telemetry, at)
	}
	idle := p.query(query, epoch.Add(30*time.Minute), epoch.Add(30*time.Minute), p.step)
	require.Len(t, idle, 1)
	assert.Equal(t, "GPU-idle", idle[0].Metric.Get("hw_id"))
	assert.Equal(t, "notebook", idle[0].Metric.Get("k8s_pod_name"))
	assert.Equal(t, "notebook-gpu", idle[0].Metric.Get("k8s_resourceclaim_name"))
}

// storeGauges stores gauges in Prometheus. The text parameter contains one gauge per line. Metric
// names are translated to Prometheus names, and Resource attributes become labels.
func (p *prometheus) storeGauges(text string, at time.Duration) {
	var lines strings.Builder
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) != "" {
			lines.WriteString("1s " + line)
		}
	}
	namer := otlptranslator.NewMetricNamer("", otlptranslator.UnderscoreEscapingWithSuffixes)
	app := p.db.Appender(p.t.(*testing.T).Context())
	for point := range points.All(goldentest.Points(p.t.(*testing.T), lines.String(), false)) {
		name, err := namer.Build(otlptranslator.Metric{Name: point.Metric.Name(), Unit: point.Metric.Unit(), Type: otlptranslator.MetricTypeGauge})
		require.NoError(p.t, err)
		b := labels.NewBuilder(labels.FromStrings(labels.MetricName, name))
		for _, attrs := range []pcommon.Map{point.Resource.Attributes(), point.Attributes()} {
			for k, v := range attrs.All() {
				label, err := (&otlptranslator.LabelNamer{}).Build(k)
				require.NoError(p.t, err)
				b.Set(label, v.AsString())
			}
		}
		p.append(app, b.Labels(), epoch.Add(at), points.Value(point.NumberDataPoint))
	}
	require.NoError(p.t, app.Commit())
}
