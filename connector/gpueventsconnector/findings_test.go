package gpueventsconnector

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/connector/connectortest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"

	"github.com/otelcol-gpu/otelcol-gpu/connector/gpueventsconnector/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/connector/gpueventsconnector/internal/metadatatest"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
)

// pendingRemap returns metrics with the given timestamp, in seconds, for a board that has a pending
// row remap.
func pendingRemap(t *testing.T, second int64) pmetric.Metrics {
	t.Helper()
	return batch(t, fmt.Sprintf("%ds {k8s.node.name=n1} hw.status {hw.id=GPU-1, hw.state=predicted_failure} = 1\n"+
		"%[1]ds {k8s.node.name=n1} hw.errors {hw.id=GPU-1, error.type=row_remap_uncorrectable} = 4\n", second))
}

func TestTheConnectorEvaluatesFindingsIfTheSectionExists(t *testing.T) {
	for name, on := range map[string]bool{"with": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			cfg := createDefaultConfig().(*Config)
			if on {
				cfg.Findings.GetOrInsertDefault()
			}
			sink := &consumertest.LogsSink{}
			c, err := newConnector(connectortest.NewNopSettings(metadata.Type), cfg, sink)
			require.NoError(t, err)
			require.NoError(t, c.Start(t.Context(), componenttest.NewNopHost()))
			require.NoError(t, c.ConsumeMetrics(t.Context(), pendingRemap(t, 10)))
			require.NoError(t, c.Shutdown(t.Context()))
			if !on {
				assert.Zero(t, sink.LogRecordCount())
				return
			}
			require.Equal(t, 1, sink.LogRecordCount())
			r := sink.AllLogs()[0].ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0)
			assert.Equal(t, "gpu.finding.start", r.EventName())
			assert.Equal(t, "WARN", r.SeverityText())
			assert.Equal(t, map[string]any{
				"hw.id": "GPU-1", "hw.type": "gpu", "gpu.finding": "memory_degrading", "gpu.finding.rows.remapped": 4.0, "gpu.finding.rows.pending": "true",
				"gpu.finding.since":  "1970-01-01T00:00:10Z",
				"gpu.finding.action": "Drain the GPU, reset it to apply pending row remaps, and run DCGM's memory diagnostic. If errors continue, replace the GPU.",
			}, r.Attributes().AsRaw())
		})
	}
}

func TestInvalidFindingsSettingsAreNamedInTheError(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	s := cfg.Findings.GetOrInsertDefault()
	require.NoError(t, s.Validate())
	s.Spinning.For, s.Spinning.Power, s.SlowDevice.Devices, s.MemoryDegrading.CorrectedPerHour, s.MaxGap = time.Second, 1.2, 2, 0, 0
	assert.EqualError(t, s.Validate(), `max_gap is 0s: must be 1s to 1h; write the unit, as in 60s
memory_degrading::corrected_per_hour is 0: must be above 0 and at most 1e12
slow_device::devices is 2: must be 3 to 1000
spinning::for is 1s: must be 1m to 24h; write the unit, as in 5m
spinning::power is 1.2: must be above 0 and at most 1`)
}

func TestTheStageCountsFutureFrames(t *testing.T) {
	telemetry := componenttest.NewTelemetry()
	defer func() { require.NoError(t, telemetry.Shutdown(t.Context())) }()
	set := connectortest.NewNopSettings(metadata.Type)
	set.TelemetrySettings = telemetry.NewTelemetrySettings()
	cfg := NewDefaultFindings()
	stage, err := newFindingsStage(set, cfg.GetOrInsertDefault())
	require.NoError(t, err)
	frames := []*gpudata.Frame{{Place: gpudata.Place{Node: "n1"}, Time: time.Now().Add(time.Hour).UnixNano()}}
	for range 2 {
		got, err := pdatagpu.Sections(stage.section()).Process(t.Context(), &pdatagpu.Arrival{Metrics: pmetric.NewMetrics(), Frames: frames})
		require.NoError(t, err)
		assert.Equal(t, frames, got)
	}
	metadatatest.AssertEqualConnectorGpuEventsFramesSkipped(t, telemetry,
		[]metricdata.DataPoint[int64]{{Value: 2, Attributes: attribute.NewSet(attribute.String("reason", "future"))}}, metricdatatest.IgnoreTimestamp())
}
