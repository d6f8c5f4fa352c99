package chain

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor"
)

// none represents a sample that is missing from a scrape.
var none = math.Inf(-1)

// The test cases are from OpenCost's tests. The inputs are raw samples, and the outputs are
// windows. If our definition of a signal differs from OpenCost's, the name of the test case starts
// with "departure", and want is the value according to our definition.
func TestOpenCostVectors(t *testing.T) {
	const (
		violation = "gpu.saturation.throttle.violation.ratio"
		reason    = "gpu.saturation.throttle.reason.ratio"
		avg       = "gpu.saturation.memory.utilization.avg"
		highest   = "gpu.saturation.memory.utilization.max"
		pressure  = "gpu.saturation.memory.pressure.ratio"
		xid       = "gpu.saturation.xid.errors"
	)
	six := func(swPowerCap, hwSlowdown float64) map[string]float64 {
		return map[string]float64{
			reason + "/sw_power_cap": swPowerCap, reason + "/hw_slowdown": hwSlowdown, reason + "/sync_boost": 0,
			reason + "/sw_thermal": 0, reason + "/hw_thermal": 0, reason + "/hw_power_brake": 0,
		}
	}
	for _, tt := range []struct {
		name      string
		rows      map[string][]float64 // for each field, one value per scrape
		every     time.Duration
		threshold float64
		want      map[string]float64
	}{
		{
			name:  "half an hour of throttling in an hour is 0.5, in nanoseconds",
			rows:  map[string][]float64{"DCGM_FI_DEV_POWER_VIOLATION": {0, 1.8e12}},
			every: time.Hour,
			want:  map[string]float64{violation + "/power": 0.5},
		},
		{
			name: "one of two masks has the bit, the other reasons are 0 and present",
			rows: map[string][]float64{"DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": {0x4, 0x0}},
			want: six(0.5, 0),
		},
		{
			name: "each bit is counted separately",
			rows: map[string][]float64{"DCGM_FI_DEV_CLOCKS_EVENT_REASONS": {4, 0, 4 | 8, 8}},
			want: six(0.5, 0.5),
		},
		{
			// OpenCost treats NaN and the negative mask as not throttled and reports 1/3.
			name: "departure: NaN and a negative mask are no observation",
			rows: map[string][]float64{"DCGM_FI_DEV_CLOCKS_EVENT_REASONS": {math.NaN(), -4, 4}},
			want: six(1, 0),
		},
		{
			name: "idling and configured clocks are no saturation",
			rows: map[string][]float64{"DCGM_FI_DEV_CLOCKS_EVENT_REASONS": {0x1 | 0x2 | 0x100}},
			want: six(0, 0),
		},
		{
			name: "occupancy is joined per scrape",
			rows: map[string][]float64{"DCGM_FI_DEV_FB_USED": {12000}, "DCGM_FI_DEV_FB_FREE": {4000}},
			want: map[string]float64{avg: 0.75, highest: 0.75, pressure: 0},
		},
		{
			name:      "mean, maximum and pressure of occupancy",
			rows:      map[string][]float64{"DCGM_FI_DEV_FB_USED": {50, 75}, "DCGM_FI_DEV_FB_FREE": {50, 25}},
			threshold: 0.6,
			want:      map[string]float64{avg: 0.625, highest: 0.75, pressure: 0.5},
		},
		{
			name: "the threshold is inclusive",
			rows: map[string][]float64{"DCGM_FI_DEV_FB_USED": {90}, "DCGM_FI_DEV_FB_FREE": {10}},
			want: map[string]float64{avg: 0.9, highest: 0.9, pressure: 1},
		},
		{
			name: "one of four samples is at the threshold",
			rows: map[string][]float64{"DCGM_FI_DEV_FB_USED": {95, 50, 89, 10}, "DCGM_FI_DEV_FB_FREE": {5, 50, 11, 90}},
			want: map[string]float64{avg: 0.61, highest: 0.95, pressure: 0.25},
		},
		{
			// OpenCost treats NaN as below the threshold and reports 0.5.
			name: "departure: an occupancy that cannot be joined is no sample",
			rows: map[string][]float64{"DCGM_FI_DEV_FB_USED": {math.NaN(), 95}, "DCGM_FI_DEV_FB_FREE": {5, 5}},
			want: map[string]float64{avg: 0.95, highest: 0.95, pressure: 1},
		},
		{
			name: "halves from different scrapes are not merged",
			rows: map[string][]float64{"DCGM_FI_DEV_FB_USED": {50, none}, "DCGM_FI_DEV_FB_FREE": {none, 50}},
			want: map[string]float64{},
		},
		{
			name: "a first XID is a base",
			rows: map[string][]float64{"DCGM_FI_DEV_XID_ERRORS": {13}},
			want: map[string]float64{xid: 0},
		},
		{
			name: "no XID is 0, observed",
			rows: map[string][]float64{"DCGM_FI_DEV_XID_ERRORS": {0, 0, 0}},
			want: map[string]float64{xid: 0},
		},
		{
			name: "two changes to a code are two",
			rows: map[string][]float64{"DCGM_FI_DEV_XID_ERRORS": {0, 13, 13, 31}},
			want: map[string]float64{xid: 2},
		},
		{
			// OpenCost uses changes(), which counts the return to 0 as a second event.
			name: "departure: the return to 0 after a restart is no event",
			rows: map[string][]float64{"DCGM_FI_DEV_XID_ERRORS": {0, 13, 0}},
			want: map[string]float64{xid: 1},
		},
		{
			name: "mean and maximum of memory activity",
			rows: map[string][]float64{"DCGM_FI_PROF_DRAM_ACTIVE": {0.5, 0.7}},
			want: map[string]float64{"gpu.saturation.dram.active.avg": 0.6, "gpu.saturation.dram.active.max": 0.7},
		},
		{
			// OpenCost applies rate() to the metric as if the metric were a counter.
			name: "departure: PCIe bytes are a rate already",
			rows: map[string][]float64{"DCGM_FI_PROF_PCIE_TX_BYTES": {1e9, 3e9}},
			want: map[string]float64{"gpu.saturation.pcie.throughput.avg/transmit": 2e9},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := oneWindow(t, tt.rows, tt.every, tt.threshold)
			assert.Len(t, got, len(tt.want), "%v", got)
			for name, want := range tt.want {
				if assert.Contains(t, got, name) {
					assert.InDelta(t, want, got[name], 1e-9*max(1, want), name)
				}
			}
		})
	}
}

// oneWindow scrapes one GPU and returns the signals of a window that covers all scrapes, keyed by
// metric and metric-specific attribute.
func oneWindow(t *testing.T, rows map[string][]float64, every time.Duration, threshold float64) map[string]float64 {
	t.Helper()
	got := map[string]float64{}
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		var sink consumertest.MetricsSink
		windows := gpuwindowprocessor.NewFactory()
		cfg, ok := windows.CreateDefaultConfig().(*gpuwindowprocessor.Config)
		require.True(t, ok)
		cfg.Window = 24 * time.Hour
		if threshold > 0 {
			cfg.MemoryPressureThreshold = threshold
		}
		w, err := windows.CreateMetrics(ctx, processortest.NewNopSettings(windows.Type()), cfg, &sink)
		require.NoError(t, err)
		synthesizer := gpusynthesizerprocessor.NewFactory()
		s, err := synthesizer.CreateMetrics(ctx, processortest.NewNopSettings(synthesizer.Type()), synthesizer.CreateDefaultConfig(), w)
		require.NoError(t, err)
		require.NoError(t, w.Start(ctx, componenttest.NewNopHost()))

		scrapes := 0
		for _, values := range rows {
			scrapes = max(scrapes, len(values))
		}
		for i := range scrapes {
			<-time.After(max(every, time.Second))
			md := pmetric.NewMetrics()
			rm := md.ResourceMetrics().AppendEmpty()
			rm.Resource().Attributes().PutStr("UUID", "GPU-1")
			metrics := rm.ScopeMetrics().AppendEmpty().Metrics()
			for field, values := range rows {
				if math.IsInf(values[i], -1) {
					continue
				}
				m := metrics.AppendEmpty()
				m.SetName(field)
				dp := m.SetEmptyGauge().DataPoints().AppendEmpty()
				dp.SetTimestamp(pcommon.NewTimestampFromTime(time.Now()))
				dp.SetDoubleValue(values[i])
			}
			require.NoError(t, s.ConsumeMetrics(ctx, md))
		}
		require.NoError(t, w.Shutdown(ctx), "without storage, partial windows are sent at shutdown")
		for _, md := range sink.AllMetrics() {
			each(md, func(_ pmetric.ResourceMetrics, m pmetric.Metric, dp pmetric.NumberDataPoint) {
				contract, ok := signal.Lookup(m.Name())
				if !ok || contract.Stage != signal.StageWindow || contract == signal.WindowCoverage || contract == signal.WindowSamples {
					return
				}
				name := m.Name()
				for _, own := range contract.Attributes {
					v, _ := dp.Attributes().Get(own)
					name += "/" + v.Str()
				}
				got[name] = dp.DoubleValue() + float64(dp.IntValue())
			})
		}
	})
	return got
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
