package gpusynthesizerprocessor

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor/internal/metadatatest"
)

// If cumulative_to_delta runs before gpu_synthesizer, an increment must not be read as the total
// energy since the start.
func TestCountersWithDeltaTemporalityAreDroppedAndLoggedOnce(t *testing.T) {
	tel := componenttest.NewTelemetry()
	core, logs := observer.New(zap.WarnLevel)
	set := processortest.NewNopSettings(metadata.Type)
	set.TelemetrySettings = tel.NewTelemetrySettings()
	set.Logger = zap.New(core)
	p, sink := newTestProcessor(t, "", set)
	for second := range int64(2) {
		md := onPoints(scrape{10 + second, parse(t, `DCGM_FI_DEV_POWER_USAGE{UUID="GPU-1"} 100
DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{UUID="GPU-1"} 5000`)})
		for point := range points.All(md) {
			if point.Metric.Name() == "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION" {
				makeDelta(point.Metric)
				break
			}
		}
		require.NoError(t, p.ConsumeMetrics(t.Context(), md))
	}
	names := map[string]bool{}
	for _, md := range sink.AllMetrics() {
		for point := range points.All(md) {
			names[point.Metric.Name()] = true
		}
	}
	assert.True(t, names[signal.HwPower.Name])
	assert.False(t, names[signal.HwEnergy.Name])
	metadatatest.AssertEqualProcessorGpuSynthesizerPointsDropped(t, tel, []metricdata.DataPoint[int64]{
		{Value: 2, Attributes: attribute.NewSet(attribute.String("reason", "delta"))},
	}, metricdatatest.IgnoreTimestamp())
	require.Equal(t, 1, logs.Len())
	assert.Contains(t, logs.All()[0].Message, "Put gpu_synthesizer before cumulative_to_delta.")
}

// makeDelta converts a metric to a Sum with delta temporality and keeps its points.
func makeDelta(m pmetric.Metric) {
	dps := pmetric.NewNumberDataPointSlice()
	points.Of(m).CopyTo(dps)
	sum := m.SetEmptySum()
	sum.SetIsMonotonic(true)
	sum.SetAggregationTemporality(pmetric.AggregationTemporalityDelta)
	dps.CopyTo(sum.DataPoints())
}
