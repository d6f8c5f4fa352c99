package usagestage

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap/confmaptest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/goldentest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/pdatatest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/pointtest"
)

// Each directory in testdata/golden is one test case. The directory's name is a sentence that
// describes the expected behavior. The input.txt file contains one point per line. Lines that
// contain only "---" separate the batches. The output.txt file contains the points that the
// processor must add. The config.yaml file contains the configuration.
func TestGolden(t *testing.T) {
	dirs, played := goldentest.Dirs(t), 0
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			played++
			text, err := os.ReadFile(filepath.Join(dir, "input.txt"))
			require.NoError(t, err)
			got := run(t, dir, string(text), false)
			assert.Equal(t, got, run(t, dir, string(text), true), "the output does not depend on the order of points")
			goldentest.Compare(t, dir, got)
		})
	}
	if played == len(dirs) { // If -run selects only some of the directories, handedOver is not checked.
		assert.Greater(t, handedOver.Load(), int64(20), "batches that were also processed as frames")
	}
}

// handedOver is the number of batches that were processed a second time, as frames.
var handedOver atomic.Int64

// run processes the batches that the given text describes, and returns the points that the
// processor adds, as text.
func run(t *testing.T, dir, text string, backwards bool) string {
	t.Helper()
	p, sink := newTestProcessor(t, config(t, dir), processortest.NewNopSettings(metadata.Type))
	handed, err := newWithoutPods(config(t, dir), processortest.NewNopSettings(metadata.Type))
	require.NoError(t, err)
	require.NoError(t, handed.start(t.Context(), nil))
	asFrames := functionsOf(handed).Process
	var b strings.Builder
	for i, batch := range strings.Split(text, "---\n") {
		md := parse(t, batch, backwards)
		before := pmetric.NewMetrics()
		md.CopyTo(before)
		require.NoError(t, p.ConsumeMetrics(context.Background(), md))
		after := sink.AllMetrics()[i]
		assert.Equal(t, render(before, false), render(after, false), "the input is unchanged")
		b.WriteString(render(after, true))
		if pdatatest.AsFrames(t, asFrames, parse(t, batch, backwards), after) {
			handedOver.Add(1)
		}
	}
	return b.String()
}

func config(t *testing.T, dir string) *Config {
	t.Helper()
	cfg := testConfig()
	conf, err := confmaptest.LoadConf(filepath.Join(dir, "config.yaml"))
	require.NoError(t, err)
	// The metrics setting belongs to gpu_k8s, not to the section.
	metrics, err := conf.Sub("metrics")
	require.NoError(t, err)
	require.NoError(t, metrics.Unmarshal(&cfg.Metrics))
	conf.Delete("metrics")
	require.NoError(t, conf.Unmarshal(cfg))
	require.NoError(t, cfg.Validate())
	return cfg
}

// testConfig returns the default configuration, except that the API server is not used.
func testConfig() *Config {
	cfg := createDefaultConfig().(*Config)
	cfg.Kubernetes.AuthType = kube.AuthNone
	return cfg
}

func newTestProcessor(t testing.TB, cfg *Config, set processor.Settings) (processor.Metrics, *consumertest.MetricsSink) {
	t.Helper()
	sink := &consumertest.MetricsSink{}
	p, err := NewFactory().CreateMetrics(context.Background(), set, cfg, sink)
	require.NoError(t, err)
	require.NoError(t, p.Start(context.Background(), nil))
	t.Cleanup(func() { require.NoError(t, p.Shutdown(context.Background())) })
	return p, sink
}

// parse calls [goldentest.Points] and checks that all metrics are metrics of this distribution.
func parse(t testing.TB, text string, backwards bool) pmetric.Metrics {
	t.Helper()
	md := goldentest.Points(t, text, backwards)
	for p := range points.All(md) {
		_, ok := signal.Lookup(p.Metric.Name())
		require.True(t, ok, p.Metric.Name())
	}
	return md
}

// render returns one line per point, sorted. If added is true, the result contains only the points
// that the processor added. Otherwise, the result contains only the points from the input.
func render(md pmetric.Metrics, added bool) string {
	var lines []string
	for p := range points.All(md) {
		if (p.Scope.Name() == metadata.ScopeName) != added {
			continue
		}
		since := ""
		if p.StartTimestamp() != 0 {
			since = fmt.Sprint(" since ", time.Duration(p.StartTimestamp()))
		}
		lines = append(lines, fmt.Sprintf("%s %s %s %s = %s %s%s", time.Duration(p.Timestamp()),
			pointtest.Text(p.Resource.Attributes()), p.Metric.Name(), pointtest.Text(p.Attributes()),
			strconv.FormatFloat(math.Round(points.Value(p.NumberDataPoint)*1e9)/1e9, 'g', -1, 64), p.Metric.Unit(), since))
	}
	slices.Sort(lines)
	return strings.Join(append(lines, ""), "\n")
}
