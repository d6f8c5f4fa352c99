package gpuwindowprocessor

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor/internal/metadata"
)

// The watched function runs a processor in a synctest bubble and returns its log entries at level
// warn or higher.
func watched(t *testing.T, cfg *Config, run func(p processor.Metrics)) []observer.LoggedEntry {
	t.Helper()
	core, logs := observer.New(zap.WarnLevel)
	set := processortest.NewNopSettings(metadata.Type)
	set.Logger = zap.New(core)
	synctest.Test(t, func(t *testing.T) {
		p := start(t, set, cfg, componenttest.NewNopHost(), consumertest.NewNop())
		run(p)
		require.NoError(t, p.Shutdown(t.Context()))
	})
	return logs.All()
}

// ofDevices returns a batch that contains one sample for each of n devices.
func ofDevices(from, n int) pmetric.Metrics {
	md := pmetric.NewMetrics()
	for i := range n {
		one := sample(time.Now(), 0.5, 0)
		one.ResourceMetrics().At(0).Resource().Attributes().PutStr(signal.K8sNodeName, fmt.Sprint("node-", from+i))
		one.ResourceMetrics().MoveAndAppendTo(md.ResourceMetrics())
	}
	return md
}

func TestRefusedSeriesAreLoggedOncePerEpisode(t *testing.T) {
	cfg := testConfig()
	cfg.MaxSeries, cfg.IdleTimeout = 4, 5*time.Minute
	logs := watched(t, cfg, func(p processor.Metrics) {
		scrape := func(d time.Duration, devices int) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(15 * time.Second) {
				require.NoError(t, p.ConsumeMetrics(t.Context(), ofDevices(0, devices)))
			}
		}
		scrape(time.Minute, 2)
		scrape(20*time.Minute, 3)
		reached := componenthelper.Reached(time.Now())
		require.Len(t, reached, 1, "the status page shows the limit")
		assert.Contains(t, reached[0].Component, "gpu_window")
		scrape(componenthelper.LogAgainAfter+time.Minute, 2)
		scrape(time.Minute, 3)
	})
	assert.Empty(t, componenthelper.Reached(time.Now()), "the processor has ended")
	require.Len(t, logs, 2)
	for _, entry := range logs {
		assert.Contains(t, entry.Message, "max_series of 4 is reached: new series are refused")
		assert.EqualValues(t, 2, entry.ContextMap()["refused"])
	}
}

func TestTooManySampleTimesAreNotReportedAsTooManySeries(t *testing.T) {
	logs := watched(t, testConfig(), func(p processor.Metrics) {
		md := sample(time.Now(), 0.5, 0)
		points := md.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().At(0).Gauge().DataPoints()
		for i := range 1<<17 + 2 {
			dp := points.AppendEmpty()
			points.At(0).CopyTo(dp)
			dp.SetTimestamp(pcommon.NewTimestampFromTime(time.Now().Add(time.Duration(i+1) * time.Microsecond)))
		}
		require.NoError(t, p.ConsumeMetrics(t.Context(), md))
		time.Sleep(5 * time.Second)
		assert.Empty(t, componenthelper.Reached(time.Now()), "max_series is not reached")
	})
	require.Len(t, logs, 1)
	assert.Contains(t, logs[0].Message, "A device has more sample times in one window than gpu_window can store. Samples with additional times are dropped and counted.")
	assert.EqualValues(t, 1<<17, logs[0].ContextMap()["limit"])
}

func TestAnUnsuitableSampleIntervalIsLoggedOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		interval, window, maxGap time.Duration
		want                     []string
	}{
		"at least two samples in a window":         {15 * time.Second, time.Minute, 50 * time.Second, nil},
		"one sample in each window":                {time.Minute, time.Minute, 90 * time.Second, nil},
		"an interval above the window":             {70 * time.Second, time.Minute, 90 * time.Second, []string{"window is 1m0s and no device is sampled more often than every 1m10s: windows without a sample are missing"}},
		"max_gap below the interval":               {30 * time.Second, time.Minute, 20 * time.Second, []string{"max_gap is 20s and no device is sampled more often than every 30s: no time counts as observed"}},
		"an interval above the window and max_gap": {2 * time.Minute, time.Minute, 90 * time.Second, []string{"windows without a sample are missing", "no time counts as observed"}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig()
			cfg.Window, cfg.MaxGap = tt.window, tt.maxGap
			logs := watched(t, cfg, func(p processor.Metrics) {
				for range 20 {
					require.NoError(t, p.ConsumeMetrics(t.Context(), ofDevices(0, 2)))
					time.Sleep(tt.interval)
				}
			})
			require.Len(t, logs, len(tt.want))
			for i, want := range tt.want {
				assert.Contains(t, logs[i].Message, want)
				assert.Equal(t, tt.interval, logs[i].ContextMap()["shortest"])
			}
		})
	}
}

func TestAnOutageIsNotAnUnsuitableSampleInterval(t *testing.T) {
	assert.Empty(t, watched(t, testConfig(), func(p processor.Metrics) {
		for _, at := range []time.Duration{1, 2, 500, 515, 1200, 1215} {
			until(at * time.Second)
			require.NoError(t, p.ConsumeMetrics(t.Context(), ofDevices(0, 1)))
		}
	}))
}

// errorsOf returns the error counters of a device from a collector. The start parameter is the time
// at which that collector started.
func errorsOf(device string, start time.Time) pmetric.Metrics {
	md := pmetric.NewMetrics()
	rm := md.ResourceMetrics().AppendEmpty()
	rm.Resource().Attributes().PutStr(signal.K8sNodeName, "node-1")
	m := rm.ScopeMetrics().AppendEmpty().Metrics().AppendEmpty()
	m.SetName(signal.HwErrors.Name)
	sum := m.SetEmptySum()
	sum.SetIsMonotonic(true)
	sum.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	dp := sum.DataPoints().AppendEmpty()
	dp.SetTimestamp(pcommon.NewTimestampFromTime(time.Now()))
	dp.SetStartTimestamp(pcommon.NewTimestampFromTime(start))
	dp.SetIntValue(1)
	dp.Attributes().PutStr(signal.HardwareID, device)
	dp.Attributes().PutStr(signal.ErrorType, "xid_31")
	return md
}

func TestTwoCollectorsOfOneGPUAreLoggedOnce(t *testing.T) {
	scrape := func(t *testing.T, p processor.Metrics, batches ...pmetric.Metrics) {
		t.Helper()
		for _, md := range batches {
			require.NoError(t, p.ConsumeMetrics(t.Context(), md))
		}
		time.Sleep(15 * time.Second)
	}
	messages := watched(t, testConfig(), func(p processor.Metrics) {
		first, second := time.Now().Add(-time.Hour), time.Now().Add(-time.Minute)
		for range 20 {
			scrape(t, p, errorsOf("GPU-a", first), errorsOf("GPU-b", first))
			scrape(t, p, errorsOf("GPU-a", second), errorsOf("GPU-b", second))
		}
	})
	require.Len(t, messages, 1)
	assert.Contains(t, messages[0].Message, "Two collectors send samples of one GPU")
	assert.Equal(t, map[string]any{"node": "node-1", "device": "GPU-a"}, messages[0].ContextMap())

	assert.Empty(t, watched(t, testConfig(), func(p processor.Metrics) {
		first := time.Now().Add(-time.Hour)
		for range 5 {
			scrape(t, p, errorsOf("GPU-a", first), errorsOf("GPU-b", first.Add(time.Minute)))
		}
		for range 5 {
			late := errorsOf("GPU-a", first)
			time.Sleep(time.Second)
			first = time.Now()
			scrape(t, p, errorsOf("GPU-a", first), late, errorsOf("GPU-a", first))
			scrape(t, p, errorsOf("GPU-a", first))
		}
	}), "a collector that starts again and again, and a batch that was delayed")
}

// energyOf returns the energy counter of a device as reported by an exporter.
func energyOf(joules float64) pmetric.Metrics {
	md := errorsOf("GPU-a", time.Time{})
	m := md.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().At(0)
	m.SetName(signal.HwEnergy.Name)
	dp := m.Sum().DataPoints().At(0)
	dp.SetStartTimestamp(0)
	dp.SetDoubleValue(joules)
	dp.Attributes().Remove(signal.ErrorType)
	return md
}

func TestRepeatedDecreasesOfEnergyShowTwoCollectors(t *testing.T) {
	for name, tt := range map[string]struct {
		joules []float64
		logged int
	}{
		"one collector has older values":           {[]float64{1000, 900, 1100, 1000, 1200, 1100, 1300, 1200}, 1},
		"one collector reads twice as often":       {[]float64{1000, 1050, 900, 1100, 1150, 1000, 1200, 1250, 1100}, 1},
		"two decreases":                            {[]float64{1000, 900, 1100, 1000, 1200, 1300}, 0},
		"driver restarts":                          {[]float64{1000, 1, 200, 2, 300, 3, 400, 4, 500}, 0},
		"decreases with many increases in between": {[]float64{1000, 900, 1, 2, 3, 4, 5, 6, 5, 7, 8, 9, 10, 11, 12, 11, 13, 14, 15, 16, 17, 18, 17}, 0},
		"a counter that does not change":           {[]float64{1000, 1000, 1000, 1000, 1000, 1000}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			logged := watched(t, testConfig(), func(p processor.Metrics) {
				for _, joules := range tt.joules {
					require.NoError(t, p.ConsumeMetrics(t.Context(), energyOf(joules)))
					time.Sleep(15 * time.Second)
				}
			})
			require.Len(t, logged, tt.logged)
			for _, entry := range logged {
				assert.Contains(t, entry.Message, "Two collectors send samples of one GPU")
			}
		})
	}
}

func TestSamplesFromWrongClocksAreLoggedOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		skew time.Duration
		want string
	}{
		"behind by less than grace":        {-4 * time.Second, ""},
		"behind by more than a window":     {-2 * time.Minute, "Samples arrived after their window had closed"},
		"ahead by less than a window":      {50 * time.Second, ""},
		"ahead by much more than a window": {10 * time.Minute, "All samples are more than one window in the future"},
	} {
		t.Run(name, func(t *testing.T) {
			logs := watched(t, testConfig(), func(p processor.Metrics) {
				time.Sleep(5 * time.Minute)
				for range 20 {
					require.NoError(t, p.ConsumeMetrics(t.Context(), sample(time.Now().Add(tt.skew), 0.5, 0)))
					time.Sleep(15 * time.Second)
				}
			})
			if tt.want == "" {
				assert.Empty(t, logs)
			} else if assert.Len(t, logs, 1) {
				assert.Contains(t, logs[0].Message, tt.want)
			}
		})
	}
}

func TestRawMetricsOfAnExporterAreLoggedOnce(t *testing.T) {
	logs := watched(t, testConfig(), func(p processor.Metrics) {
		for range 20 {
			md := sample(time.Now(), 0.5, 0)
			metrics := md.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics()
			metrics.At(0).SetName("DCGM_FI_DEV_GPU_UTIL")
			metrics.At(1).SetName("DCGM_FI_DEV_XID_ERRORS")
			require.NoError(t, p.ConsumeMetrics(t.Context(), md))
			time.Sleep(15 * time.Second)
		}
	})
	if assert.Len(t, logs, 1) {
		assert.Contains(t, logs[0].Message, "gpu_synthesizer is missing before gpu_window: ")
	}
}

func TestDeltasOfSignalsAreLoggedOncePerEpisode(t *testing.T) {
	deltas := func(p processor.Metrics) {
		for range 3 {
			md := pmetric.NewMetrics()
			metrics := md.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics()
			for _, name := range []string{"of.another.component", signal.HwErrors.Name} {
				m := metrics.AppendEmpty()
				m.SetName(name)
				sum := m.SetEmptySum()
				sum.SetAggregationTemporality(pmetric.AggregationTemporalityDelta)
				sum.DataPoints().AppendEmpty().SetTimestamp(pcommon.NewTimestampFromTime(time.Now()))
			}
			require.NoError(t, p.ConsumeMetrics(t.Context(), md))
		}
	}
	logs := watched(t, testConfig(), func(p processor.Metrics) {
		deltas(p)
		for range 45 {
			require.NoError(t, p.ConsumeMetrics(t.Context(), ofDevices(0, 1)))
			time.Sleep(15 * time.Second)
		}
		deltas(p)
	})
	require.Len(t, logs, 2)
	for _, entry := range logs {
		assert.Contains(t, entry.Message, "gpu_window receives sums with delta temporality and computes no windows from them. Usually, gpu_window is after cumulative_to_delta")
		assert.Equal(t, signal.HwErrors.Name, entry.ContextMap()["received"])
	}
}

func TestDroppedWindowsAreLoggedOnce(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	set := processortest.NewNopSettings(metadata.Type)
	set.Logger = zap.New(core)
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		p := start(t, set, testConfig(), componenttest.NewNopHost(), hangingConsumer{consumertest.NewNop(), release})
		for range 30 {
			require.NoError(t, p.ConsumeMetrics(t.Context(), ofDevices(0, 1)))
			time.Sleep(time.Minute)
		}
		close(release)
		time.Sleep(time.Minute)
		require.NoError(t, p.Shutdown(t.Context()))
	})
	if assert.Equal(t, 1, logs.Len()) {
		assert.Contains(t, logs.All()[0].Message, "Windows are dropped because the next consumer takes too long")
	}
}

// hangingConsumer blocks until it is released.
type hangingConsumer struct {
	consumertest.Consumer
	release chan struct{}
}

func (h hangingConsumer) ConsumeMetrics(context.Context, pmetric.Metrics) error {
	<-h.release
	return nil
}
