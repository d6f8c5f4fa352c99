package gpuwindowprocessor

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/pkg/golden"
	"github.com/open-telemetry/opentelemetry-collector-contrib/pkg/pdatatest/pmetrictest"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/confmaptest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor/internal/metadata"
)

var update = flag.Bool("update", false, "write the output.yaml files of the golden directories")

// TestGolden runs the entire processor once for each directory under testdata/golden. Each
// ResourceMetrics in input.yaml arrives as a separate batch, at the time of its newest point. The
// synctest clock starts at 2000-01-01. Two minutes after the last batch, the processor is shut
// down. The file output.yaml contains all output of the processor, in the order in which it was
// sent.
func TestGolden(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join("testdata", "golden", "*"))
	require.NoError(t, err)
	require.NotEmpty(t, dirs)
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			cfg, input := goldenCase(t, dir)
			got := pmetric.NewMetrics()
			synctest.Test(t, func(t *testing.T) { got = runGolden(t, cfg, input, unchangedMetrics) })
			if *update {
				// The comparison takes the order and the timestamps into account.
				text, err := golden.MarshalMetricsYAML(got)
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(filepath.Join(dir, "output.yaml"), text, 0o600))
			}
			want, err := golden.ReadMetrics(filepath.Join(dir, "output.yaml"))
			require.NoError(t, err)
			require.NoError(t, pmetrictest.CompareMetrics(want, got))
		})
	}
}

// goldenCase reads the configuration and the input from a golden directory.
func goldenCase(t *testing.T, dir string) (*Config, pmetric.Metrics) {
	t.Helper()
	cfg := createDefaultConfig().(*Config)
	if _, err := os.Stat(filepath.Join(dir, "config.yaml")); err == nil {
		conf, err := confmaptest.LoadConf(filepath.Join(dir, "config.yaml"))
		require.NoError(t, err)
		require.NoError(t, conf.Unmarshal(cfg))
	}
	require.NoError(t, confmap.Validate(cfg))
	input, err := golden.ReadMetrics(filepath.Join(dir, "input.yaml"))
	require.NoError(t, err)
	return cfg, input
}

func unchangedMetrics(md pmetric.Metrics) pmetric.Metrics { return md }

func runGolden(t *testing.T, cfg *Config, input pmetric.Metrics, layout func(pmetric.Metrics) pmetric.Metrics) pmetric.Metrics {
	t.Helper()
	sink := new(consumertest.MetricsSink)
	p, err := NewFactory().CreateMetrics(t.Context(), processortest.NewNopSettings(metadata.Type), cfg, sink)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context(), componenttest.NewNopHost()))
	for _, rm := range input.ResourceMetrics().All() {
		md := pmetric.NewMetrics()
		rm.CopyTo(md.ResourceMetrics().AppendEmpty())
		md = layout(md)
		md.MarkReadOnly()
		time.Sleep(time.Until(newest(md)))
		require.NoError(t, p.ConsumeMetrics(t.Context(), md))
	}
	time.Sleep(2 * time.Minute)
	require.NoError(t, p.Shutdown(t.Context()))
	out := pmetric.NewMetrics()
	for _, md := range sink.AllMetrics() {
		require.Positive(t, md.DataPointCount(), "an empty batch")
		for _, rm := range md.ResourceMetrics().All() {
			rm.CopyTo(out.ResourceMetrics().AppendEmpty())
		}
	}
	return out
}

// newest returns the time of the newest number data point.
func newest(md pmetric.Metrics) time.Time {
	var at pcommon.Timestamp
	for _, rm := range md.ResourceMetrics().All() {
		for _, sm := range rm.ScopeMetrics().All() {
			for _, m := range sm.Metrics().All() {
				var points pmetric.NumberDataPointSlice
				switch m.Type() {
				case pmetric.MetricTypeGauge:
					points = m.Gauge().DataPoints()
				case pmetric.MetricTypeSum:
					points = m.Sum().DataPoints()
				default:
					continue
				}
				for _, dp := range points.All() {
					at = max(at, dp.Timestamp())
				}
			}
		}
	}
	return at.AsTime()
}
