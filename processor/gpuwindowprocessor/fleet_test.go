package gpuwindowprocessor_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor"
)

// fleet is the number of nodes for which the limits of a central collector are designed. Each node
// has 8 GPUs.
const fleet = 1000

// node returns a scrape of an exporter that is configured with the CSV file from the examples. The
// node has 8 GPUs, and each GPU is held by a pod.
func node(t *testing.T, at time.Time) pmetric.Metrics {
	t.Helper()
	file, err := os.Open("../../examples/dcgm-exporter/counters.csv")
	require.NoError(t, err)
	defer file.Close()
	md := pmetric.NewMetrics()
	metrics := md.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		name, _, ok := strings.Cut(lines.Text(), ",")
		if !ok || strings.HasPrefix(name, "#") {
			continue
		}
		m := metrics.AppendEmpty()
		m.SetName(name)
		points := m.SetEmptyGauge().DataPoints()
		for gpu := range 8 {
			dp := points.AppendEmpty()
			dp.SetTimestamp(pcommon.NewTimestampFromTime(at))
			dp.SetDoubleValue(1)
			for key, value := range map[string]string{
				"gpu": fmt.Sprint(gpu), "UUID": fmt.Sprintf("GPU-00000000-0000-0000-0000-%012d", gpu), "device": fmt.Sprint("nvidia", gpu),
				"modelName": "NVIDIA H100 80GB HBM3", "Hostname": "n1",
				"namespace": "ns", "pod": fmt.Sprint("trainer-", gpu), "container": "main",
			} {
				dp.Attributes().PutStr(key, value)
			}
		}
	}
	require.Greater(t, metrics.Len(), 40)
	return md
}

func TestTheSeriesOfAFleetFitTheDefaultLimits(t *testing.T) {
	type section = map[string]any
	processors := []struct {
		factory processor.Factory
		config  section
	}{
		{gpusynthesizerprocessor.NewFactory(), section{"metrics": section{"gpu.signal.available": section{"enabled": true}}}},
		{gpuk8sprocessor.NewFactory(), section{
			"kubernetes": section{"auth_type": "none"},
			"sources":    section{"pod_resources": section{"enabled": false}, "dra": section{"enabled": false}},
			"power":      nil, "budget": nil,
		}},
		{gpuwindowprocessor.NewFactory(), nil},
	}
	telemetry := componenttest.NewTelemetry()
	var next consumer.Metrics = consumertest.NewNop()
	for _, p := range slices.Backward(processors) {
		cfg := p.factory.CreateDefaultConfig()
		require.NoError(t, confmap.NewFromStringMap(p.config).Unmarshal(cfg))
		set := processortest.NewNopSettings(p.factory.Type())
		set.TelemetrySettings = telemetry.NewTelemetrySettings()
		made, err := p.factory.CreateMetrics(t.Context(), set, cfg, next)
		require.NoError(t, err)
		require.NoError(t, made.Start(t.Context(), componenttest.NewNopHost()))
		t.Cleanup(func() { assert.NoError(t, made.Shutdown(context.Background())) })
		next = made
	}
	now := time.Now()
	for i := range 3 {
		require.NoError(t, next.ConsumeMetrics(t.Context(), node(t, now.Add(time.Duration(i)*time.Millisecond))))
	}
	read := func(name string) int64 {
		m, err := telemetry.GetMetric(name)
		require.NoError(t, err)
		return m.Data.(metricdata.Gauge[int64]).DataPoints[0].Value
	}
	series := read("otelcol_processor_gpu_window_series")
	t.Logf("%d series a node", series)
	require.Greater(t, series, int64(1000))
	assert.LessOrEqual(t, fleet*series, read("otelcol_processor_gpu_window_series_limit"), "max_series of gpu_window")
}
