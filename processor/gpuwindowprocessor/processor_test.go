package gpuwindowprocessor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/storage/filestorage"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/extension/extensiontest"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor/internal/metadatatest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/storagetest"
)

// sample returns a scrape of one device that contains its SM activity and its XID count.
func sample(at time.Time, sm float64, xid int64) pmetric.Metrics {
	md := pmetric.NewMetrics()
	rm := md.ResourceMetrics().AppendEmpty()
	rm.Resource().Attributes().PutStr(signal.K8sNodeName, "node-1")
	metrics := rm.ScopeMetrics().AppendEmpty().Metrics()
	m := metrics.AppendEmpty()
	m.SetName(signal.GPUSMActive.Name)
	dp := m.SetEmptyGauge().DataPoints().AppendEmpty()
	dp.Attributes().PutStr(signal.HardwareID, "GPU-a")
	dp.SetTimestamp(pcommon.NewTimestampFromTime(at))
	dp.SetDoubleValue(sm)
	m = metrics.AppendEmpty()
	m.SetName(signal.HwErrors.Name)
	sum := m.SetEmptySum()
	sum.SetIsMonotonic(true)
	sum.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	dp = sum.DataPoints().AppendEmpty()
	dp.Attributes().PutStr(signal.HardwareID, "GPU-a")
	dp.Attributes().PutStr(signal.ErrorType, "xid_31")
	dp.SetTimestamp(pcommon.NewTimestampFromTime(at))
	dp.SetIntValue(xid)
	return md
}

func start(t *testing.T, set processor.Settings, cfg *Config, host component.Host, next consumer.Metrics) processor.Metrics {
	t.Helper()
	p, err := NewFactory().CreateMetrics(t.Context(), set, cfg, next)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context(), host))
	return p
}

func testConfig() *Config {
	cfg := createDefaultConfig().(*Config)
	cfg.noJitter = true
	cfg.Passthrough = passthroughNone
	return cfg
}

// windows returns the values of a window metric, keyed by the end of the window.
func windows(t *testing.T, all []pmetric.Metrics, name string) map[time.Time]float64 {
	t.Helper()
	out := map[time.Time]float64{}
	for _, md := range all {
		for _, rm := range md.ResourceMetrics().All() {
			for _, sm := range rm.ScopeMetrics().All() {
				for _, m := range sm.Metrics().All() {
					if m.Name() != name {
						continue
					}
					for _, dp := range m.Gauge().DataPoints().All() {
						end := dp.Timestamp().AsTime().UTC()
						require.NotContains(t, out, end, "a window was sent twice")
						out[end] = dp.DoubleValue() + float64(dp.IntValue())
					}
				}
			}
		}
	}
	return out
}

// bubbleStart is the wall clock time at which synctest starts.
var bubbleStart = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func until(at time.Duration) { time.Sleep(time.Until(bubbleStart.Add(at))) }

// Metrics that are not sent must also count as observations of a device. Otherwise, an error on a
// board that has no other samples for the rules would be lost.
func TestADeviceIsObservedByMetricsThatAreNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := new(consumertest.MetricsSink)
		p := start(t, processortest.NewNopSettings(metadata.Type), testConfig(), componenttest.NewNopHost(), sink)
		until(10 * time.Second)
		born := time.Now()
		md := sample(born, 40, 0)
		md.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().RemoveIf(func(m pmetric.Metric) bool {
			m.SetName(signal.HwTemperature.Name)
			return m.Type() == pmetric.MetricTypeSum
		})
		require.NoError(t, p.ConsumeMetrics(t.Context(), md))
		until(20 * time.Second)
		md = sample(time.Now(), 0, 1)
		md.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().RemoveIf(func(m pmetric.Metric) bool {
			return m.Type() == pmetric.MetricTypeGauge
		})
		md.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().At(0).Sum().DataPoints().At(0).
			SetStartTimestamp(pcommon.NewTimestampFromTime(born))
		require.NoError(t, p.ConsumeMetrics(t.Context(), md))
		until(70 * time.Second)
		synctest.Wait()
		assert.Equal(t, map[time.Time]float64{bubbleStart.Add(time.Minute): 1}, windows(t, sink.AllMetrics(), signal.XIDErrors.Name))
		require.NoError(t, p.Shutdown(t.Context()))
	})
}

func TestWindowsAreSentWithinTheJitterAfterTheyClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig()
		cfg.noJitter = false
		sink := new(consumertest.MetricsSink)
		p := start(t, processortest.NewNopSettings(metadata.Type), cfg, componenttest.NewNopHost(), sink)
		until(30 * time.Second)
		require.NoError(t, p.ConsumeMetrics(t.Context(), sample(time.Now(), 0.5, 0)))
		until(65*time.Second - time.Millisecond)
		require.Empty(t, sink.AllMetrics(), "the window is not sent before the grace period is over")
		until(66*time.Second + time.Millisecond)
		synctest.Wait()
		require.Len(t, sink.AllMetrics(), 1)
		require.NoError(t, p.Shutdown(t.Context()))
		require.Len(t, sink.AllMetrics(), 1, "no window remains to be sent")
	})
}

func TestShutdownWithoutStorageFlushesPartialWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := new(consumertest.MetricsSink)
		p := start(t, processortest.NewNopSettings(metadata.Type), testConfig(), componenttest.NewNopHost(), sink)
		for _, at := range []time.Duration{10, 25} {
			until(at * time.Second)
			require.NoError(t, p.ConsumeMetrics(t.Context(), sample(time.Now(), 0.5, 0)))
		}
		require.NoError(t, p.Shutdown(t.Context()))
		end := bubbleStart.Add(time.Minute)
		assert.Equal(t, map[time.Time]float64{end: 0.5}, windows(t, sink.AllMetrics(), signal.SMActiveAvg.Name))
		assert.Equal(t, map[time.Time]float64{end: 0.25}, windows(t, sink.AllMetrics(), signal.WindowCoverage.Name))
	})
}

func TestLateSamplesAreLoggedOnceWithTheRemedy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		set := processortest.NewNopSettings(metadata.Type)
		set.Logger = zap.New(core)
		p := start(t, set, testConfig(), componenttest.NewNopHost(), consumertest.NewNop())
		for at := 10 * time.Second; at < 5*time.Minute; at += 15 * time.Second {
			until(at)
			require.NoError(t, p.ConsumeMetrics(t.Context(), sample(time.Now(), 0.5, 1)))
		}
		assert.Zero(t, logs.Len(), "no sample is late")
		for range 4 { // a federation endpoint returns old samples
			time.Sleep(15 * time.Second)
			require.NoError(t, p.ConsumeMetrics(t.Context(), sample(time.Now().Add(-2*time.Minute), 0.5, 1)))
		}
		time.Sleep(2 * time.Second)
		require.Equal(t, 1, logs.Len())
		assert.Contains(t, logs.All()[0].Message, "raise grace")
		assert.Contains(t, logs.All()[0].Message, "honor_timestamps: false")
		assert.Equal(t, map[string]any{"grace": 5 * time.Second}, logs.All()[0].ContextMap())
		require.NoError(t, p.Shutdown(t.Context()))
	})
}

func TestShutdownIsSafeWithoutStartAndTwice(t *testing.T) {
	p, err := NewFactory().CreateMetrics(t.Context(), processortest.NewNopSettings(metadata.Type), testConfig(), consumertest.NewNop())
	require.NoError(t, err)
	require.NoError(t, p.Shutdown(t.Context()))
	require.NoError(t, p.Shutdown(t.Context()))

	p = start(t, processortest.NewNopSettings(metadata.Type), testConfig(), componenttest.NewNopHost(), consumertest.NewNop())
	require.NoError(t, p.Shutdown(t.Context()))
	require.NoError(t, p.Shutdown(t.Context()))
}

// blocking is a consumer that blocks until its context is done.
type blocking struct{ consumertest.Consumer }

func (blocking) ConsumeMetrics(ctx context.Context, _ pmetric.Metrics) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestShutdownReturnsWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, processortest.NewNopSettings(metadata.Type), testConfig(), componenttest.NewNopHost(), blocking{consumertest.NewNop()})
		until(30 * time.Second)
		require.NoError(t, p.ConsumeMetrics(t.Context(), sample(time.Now(), 0.5, 0)))
		until(66 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, p.Shutdown(ctx), context.DeadlineExceeded)
	})
}

// When the Collector shuts down its components, the context has no deadline.
func TestShutdownWaitsBrieflyForAHangingConsumer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, processortest.NewNopSettings(metadata.Type), testConfig(), componenttest.NewNopHost(), blocking{consumertest.NewNop()})
		for _, at := range []time.Duration{30, 90, 150, 210} {
			until(at * time.Second)
			require.NoError(t, p.ConsumeMetrics(t.Context(), sample(time.Now(), 0.5, 0)))
		}
		until(300 * time.Second)
		begin := time.Now()
		require.NoError(t, p.Shutdown(t.Context()))
		assert.Equal(t, shutdownPatience, time.Since(begin))
	})
}

func TestSamplesAreAcceptedWhileTheNextConsumerHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, processortest.NewNopSettings(metadata.Type), testConfig(), componenttest.NewNopHost(), blocking{consumertest.NewNop()})
		until(30 * time.Second)
		require.NoError(t, p.ConsumeMetrics(t.Context(), sample(time.Now(), 0.5, 0)))
		until(66 * time.Second)
		synctest.Wait()
		// The consumer is still processing the window, but the engine must not be locked.
		require.NoError(t, p.ConsumeMetrics(t.Context(), sample(time.Now(), 0.5, 0)))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Error(t, p.Shutdown(ctx))
	})
}

// refusing is a consumer that returns an error if the err field is set.
type refusing struct {
	consumertest.MetricsSink
	mu  sync.Mutex
	err error
}

func (r *refusing) set(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

func (r *refusing) ConsumeMetrics(ctx context.Context, md pmetric.Metrics) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return r.err
	}
	return r.MetricsSink.ConsumeMetrics(ctx, md)
}

func TestAnErrorOfTheNextConsumerDropsAndCountsTheBatchAndIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel := componenttest.NewTelemetry()
		core, logs := observer.New(zap.InfoLevel)
		set := processortest.NewNopSettings(metadata.Type)
		set.TelemetrySettings = tel.NewTelemetrySettings()
		set.Logger = zap.New(core)
		next := &refusing{}
		next.set(errors.New("queue is full"))
		p := start(t, set, testConfig(), componenttest.NewNopHost(), next)
		for minute := range 3 {
			if minute == 2 {
				next.set(nil)
			}
			until(time.Duration(minute)*time.Minute + 30*time.Second)
			require.NoError(t, p.ConsumeMetrics(t.Context(), sample(time.Now(), 0.5, 0)))
			until(time.Duration(minute+1)*time.Minute + 10*time.Second)
		}
		synctest.Wait()
		assert.Len(t, next.AllMetrics(), 1, "a dropped batch is not sent again")
		assert.Equal(t, 1, logs.FilterMessageSnippet("refuses").Len())
		assert.Equal(t, 1, logs.FilterMessageSnippet("again").Len())
		metadatatest.AssertEqualProcessorGpuWindowPoints(t, tel, []metricdata.DataPoint[int64]{
			{Attributes: attribute.NewSet(attribute.String("outcome", "dropped")), Value: 8},
			{Attributes: attribute.NewSet(attribute.String("outcome", "emitted")), Value: 4},
		}, metricdatatest.IgnoreTimestamp())
		require.NoError(t, p.Shutdown(t.Context()))
		require.NoError(t, tel.Shutdown(t.Context()))
	})
}

func TestAnErrorForForwardedMetricsIsReturnedToTheCaller(t *testing.T) {
	failure := errors.New("no")
	cfg := testConfig()
	cfg.Passthrough = passthroughAll
	p := start(t, processortest.NewNopSettings(metadata.Type), cfg, componenttest.NewNopHost(), consumertest.NewErr(failure))
	require.ErrorIs(t, p.ConsumeMetrics(t.Context(), sample(time.Now(), 0.5, 0)), failure)
	require.NoError(t, p.Shutdown(t.Context()))
}

func TestTheNumberOfPointsInABatchIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig()
		cfg.maxBatchPoints = 3
		sink := new(consumertest.MetricsSink)
		p := start(t, processortest.NewNopSettings(metadata.Type), cfg, componenttest.NewNopHost(), sink)
		until(30 * time.Second)
		require.NoError(t, p.ConsumeMetrics(t.Context(), sample(time.Now(), 0.5, 0)))
		until(20 * time.Minute)
		require.NoError(t, p.Shutdown(t.Context()))
		var sizes []int
		for _, md := range sink.AllMetrics() {
			sizes = append(sizes, md.DataPointCount())
		}
		// The window has four points. The points are followed by the marks for the ends of the
		// series.
		assert.Equal(t, []int{3, 1, 3, 1}, sizes)
	})
}

// The processor pauses between the batches of a large window, but only for up to a quarter of the
// window length. When the processor is shut down, it sends the remaining batches without pauses.
func TestTheBatchesOfAWindowAreSentWithPauses(t *testing.T) {
	for name, tt := range map[string]struct {
		devices int
		ends    bool
		want    time.Duration // time from the first batch to the last
	}{
		"one batch":                {1, false, 0},
		"ten batches":              {10, false, 9 * batchPause},
		"more batches than pauses": {1000, false, time.Minute / 4},
		"shutdown":                 {1000, true, batchPause},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := testConfig()
				cfg.maxBatchPoints = 4 // the number of points of one device
				var mu sync.Mutex
				var times []time.Time
				left := 0
				begun := func() bool {
					mu.Lock()
					defer mu.Unlock()
					return len(times) > 0
				}
				next, err := consumer.NewMetrics(func(_ context.Context, md pmetric.Metrics) error {
					mu.Lock()
					defer mu.Unlock()
					times = append(times, time.Now())
					left += md.DataPointCount()
					return nil
				})
				require.NoError(t, err)
				p := start(t, processortest.NewNopSettings(metadata.Type), cfg, componenttest.NewNopHost(), next)
				until(30 * time.Second)
				for i := range tt.devices {
					md := sample(time.Now(), 0.5, 0)
					for point := range points.All(md) {
						point.Attributes().PutStr(signal.HardwareID, fmt.Sprint("GPU-", i))
					}
					require.NoError(t, p.ConsumeMetrics(t.Context(), md))
				}
				for !begun() {
					time.Sleep(time.Millisecond)
				}
				if !tt.ends {
					time.Sleep(time.Minute / 3)
				}
				require.NoError(t, p.Shutdown(t.Context()))
				assert.Equal(t, 4*tt.devices, left)
				assert.InDelta(t, tt.want, times[len(times)-1].Sub(times[0]), float64(batchPause))
			})
		})
	}
}

func TestEverySampleIsCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel := componenttest.NewTelemetry()
		set := processortest.NewNopSettings(metadata.Type)
		set.TelemetrySettings = tel.NewTelemetrySettings()
		cfg := testConfig()
		cfg.MaxSeries = 1
		p := start(t, set, cfg, componenttest.NewNopHost(), consumertest.NewNop())
		until(70 * time.Second)
		for _, at := range []time.Duration{70, 70, 60, 135, 69} {
			require.NoError(t, p.ConsumeMetrics(t.Context(), sample(bubbleStart.Add(at*time.Second), 1.5, 0)))
		}
		outcomes := func(name string) attribute.Set { return attribute.NewSet(attribute.String("outcome", name)) }
		metadatatest.AssertEqualProcessorGpuWindowSamples(t, tel, []metricdata.DataPoint[int64]{
			{Attributes: outcomes("accepted"), Value: 1},
			{Attributes: outcomes("late"), Value: 2},
			{Attributes: outcomes("future"), Value: 2},
			{Attributes: outcomes("duplicate"), Value: 1},
			{Attributes: outcomes("out_of_order"), Value: 1},
			{Attributes: outcomes("refused"), Value: 3},
			{Attributes: outcomes("impossible_step"), Value: 0},
			{Attributes: outcomes("no_value"), Value: 0},
			{Attributes: outcomes("ignored"), Value: 0},
			{Attributes: outcomes("implausible"), Value: 0},
		}, metricdatatest.IgnoreTimestamp())
		metadatatest.AssertEqualProcessorGpuWindowClamped(t, tel, []metricdata.DataPoint[int64]{{Value: 2}}, metricdatatest.IgnoreTimestamp())
		metadatatest.AssertEqualProcessorGpuWindowSeries(t, tel, []metricdata.DataPoint[int64]{{Value: 1}}, metricdatatest.IgnoreTimestamp())
		metadatatest.AssertEqualProcessorGpuWindowSeriesLimit(t, tel, []metricdata.DataPoint[int64]{{Value: 1}}, metricdatatest.IgnoreTimestamp())
		require.NoError(t, p.Shutdown(t.Context()))
		require.NoError(t, tel.Shutdown(t.Context()))
	})
}

func TestBatchesAreConsumedConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := new(consumertest.MetricsSink)
		p := start(t, processortest.NewNopSettings(metadata.Type), testConfig(), componenttest.NewNopHost(), sink)
		var wg sync.WaitGroup
		for worker := range 8 {
			wg.Go(func() {
				for i := range 100 {
					time.Sleep(time.Second)
					md := sample(time.Now(), 0.5, int64(i))
					md.ResourceMetrics().At(0).Resource().Attributes().PutInt(signal.K8sPodName, int64(worker))
					assert.NoError(t, p.ConsumeMetrics(t.Context(), md))
				}
			})
		}
		wg.Wait()
		require.NoError(t, p.Shutdown(t.Context()))
		var samples int64
		for _, md := range sink.AllMetrics() {
			for _, rm := range md.ResourceMetrics().All() {
				for _, m := range rm.ScopeMetrics().At(0).Metrics().All() {
					if m.Name() == signal.WindowSamples.Name {
						samples += m.Gauge().DataPoints().At(0).IntValue()
					}
				}
			}
		}
		assert.EqualValues(t, 800, samples)
	})
}

// host is a host whose only extension is a storage extension.
type host struct {
	component.Host
	extensions map[component.ID]component.Component
}

func (h host) GetExtensions() map[component.ID]component.Component { return h.extensions }

var storageID = component.MustNewID("file_storage")

// fileStorage starts the file_storage extension with the given directory.
func fileStorage(t *testing.T, dir string) host {
	t.Helper()
	factory := filestorage.NewFactory()
	cfg := factory.CreateDefaultConfig().(*filestorage.Config)
	cfg.Directory = dir
	ext, err := factory.Create(t.Context(), extensiontest.NewNopSettings(factory.Type()), cfg)
	require.NoError(t, err)
	require.NoError(t, ext.Start(t.Context(), componenttest.NewNopHost()))
	t.Cleanup(func() { require.NoError(t, ext.Shutdown(context.WithoutCancel(t.Context()))) })
	return host{componenttest.NewNopHost(), map[component.ID]component.Component{storageID: ext}}
}

// The crash function returns a copy of a directory in its current state, as if the process had been
// killed.
func crash(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(dir, f.Name()))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(to, f.Name()), b, 0o600))
	}
	return to
}

func storageConfig() *Config {
	cfg := testConfig()
	cfg.Storage = &storageID
	return cfg
}

func TestARestartWithStorageNeitherSendsPartialWindowsNorLosesSamples(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		first, second := new(consumertest.MetricsSink), new(consumertest.MetricsSink)
		h := fileStorage(t, dir)
		p := start(t, processortest.NewNopSettings(metadata.Type), storageConfig(), h, first)
		until(10 * time.Second)
		require.NoError(t, p.ConsumeMetrics(t.Context(), sample(time.Now(), 0.2, 1)))
		until(20 * time.Second)
		require.NoError(t, p.ConsumeMetrics(t.Context(), sample(time.Now(), 0.4, 2)))
		require.NoError(t, p.Shutdown(t.Context()))
		require.Empty(t, first.AllMetrics(), "no partial window is sent")

		p = start(t, processortest.NewNopSettings(metadata.Type), storageConfig(), h, second)
		until(50 * time.Second)
		require.NoError(t, p.ConsumeMetrics(t.Context(), sample(time.Now(), 0.6, 5)))
		until(70 * time.Second)
		require.NoError(t, p.Shutdown(t.Context()))
		end := bubbleStart.Add(time.Minute)
		got := second.AllMetrics()
		assert.InDelta(t, 0.4, windows(t, got, signal.SMActiveAvg.Name)[end], 1e-9)
		assert.InDelta(t, 4, windows(t, got, signal.XIDErrors.Name)[end], 1e-9)
		assert.InDelta(t, 3, windows(t, got, signal.WindowSamples.Name)[end], 1e-9)
		assert.InDelta(t, 40.0/60, windows(t, got, signal.WindowCoverage.Name)[end], 1e-9)
	})
}

// If a collector is removed from a tier, its storage may never be read again.
func TestShutdownInATierSendsTheWindowsThatHaveEnded(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		sink := new(consumertest.MetricsSink)
		cfg := storageConfig()
		cfg.Tier, cfg.Grace = true, time.Minute
		p := start(t, processortest.NewNopSettings(metadata.Type), cfg, fileStorage(t, dir), sink)
		for at := 10 * time.Second; at <= 70*time.Second; at += 20 * time.Second {
			until(at)
			require.NoError(t, p.ConsumeMetrics(t.Context(), sample(time.Now(), 0.5, int64(at/time.Second))))
		}
		require.Empty(t, sink.AllMetrics(), "the grace period is not over")
		require.NoError(t, p.Shutdown(t.Context()))
		first, second := bubbleStart.Add(time.Minute), bubbleStart.Add(2*time.Minute)
		assert.Equal(t, map[time.Time]float64{first: 40}, windows(t, sink.AllMetrics(), signal.XIDErrors.Name), "the open window is not sent")

		p = start(t, processortest.NewNopSettings(metadata.Type), cfg, fileStorage(t, dir), sink)
		until(90 * time.Second)
		require.NoError(t, p.ConsumeMetrics(t.Context(), sample(time.Now(), 0.5, 90)))
		until(4 * time.Minute)
		require.NoError(t, p.Shutdown(t.Context()))
		assert.Equal(t, map[time.Time]float64{first: 40, second: 40}, windows(t, sink.AllMetrics(), signal.XIDErrors.Name))
	})
}

// Windows are aligned to the Unix epoch, even if their length does not divide a day.
func TestShutdownInATierSendsAWindowOfSevenMinutesThatHasEnded(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		sink := new(consumertest.MetricsSink)
		cfg := storageConfig()
		cfg.Tier, cfg.Window, cfg.Grace = true, 7*time.Minute, time.Minute
		p := start(t, processortest.NewNopSettings(metadata.Type), cfg, fileStorage(t, dir), sink)
		length := int64(cfg.Window)
		end := time.Unix(0, (bubbleStart.UnixNano()/length+1)*length).UTC()
		for at := 10 * time.Second; at < end.Sub(bubbleStart)+5*time.Second; at += 10 * time.Second {
			until(at)
			require.NoError(t, p.ConsumeMetrics(t.Context(), sample(time.Now(), 0.5, int64(at/time.Second))))
		}
		until(end.Sub(bubbleStart) + 5*time.Second)
		require.Empty(t, sink.AllMetrics(), "the grace period is not over")
		require.NoError(t, p.Shutdown(t.Context()))
		assert.Contains(t, windows(t, sink.AllMetrics(), signal.WindowSamples.Name), end)
	})
}

func TestACrashLosesAtMostThirtySecondsAndNoWindowIsSentTwice(t *testing.T) {
	// A sample is sent every 5 s, and each sample increases the XID count by one. In each subtest,
	// the process is killed at a different time and restarts 2 s later.
	for kill := 7 * time.Second; kill < 3*time.Minute; kill += 5 * time.Second {
		t.Run(kill.String(), func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				sink := new(consumertest.MetricsSink)
				feed := func(p processor.Metrics, from, to time.Duration) {
					for at := from.Truncate(5*time.Second) + 5*time.Second; at <= to; at += 5 * time.Second {
						until(at)
						require.NoError(t, p.ConsumeMetrics(t.Context(), sample(time.Now(), 0.5, int64(at/(5*time.Second)))))
					}
					until(to)
				}
				// The abandoned processor must not send anything after it was killed.
				first := new(consumertest.MetricsSink)
				var second sync.Map
				second.Store("sink", sink)
				next, err := consumer.NewMetrics(func(ctx context.Context, md pmetric.Metrics) error {
					s, _ := second.Load("sink")
					return s.(*consumertest.MetricsSink).ConsumeMetrics(ctx, md)
				})
				require.NoError(t, err)
				abandoned := start(t, processortest.NewNopSettings(metadata.Type), storageConfig(), fileStorage(t, dir), next)
				feed(abandoned, 0, kill)
				synctest.Wait()
				left := crash(t, dir)
				second.Store("sink", first)

				until(kill + 2*time.Second)
				p := start(t, processortest.NewNopSettings(metadata.Type), storageConfig(), fileStorage(t, left), sink)
				feed(p, kill+2*time.Second, 5*time.Minute+10*time.Second)
				require.NoError(t, p.Shutdown(t.Context()))
				require.NoError(t, abandoned.Shutdown(t.Context()))

				// The windows function fails the test if a window was sent twice.
				xids := windows(t, sink.AllMetrics(), signal.XIDErrors.Name)
				total := 0.0
				for _, n := range xids {
					total += n
				}
				// Between 60 samples in 5 min, there are 59 increases.
				assert.LessOrEqual(t, total, 59.0, "an increase was counted twice")
				// The only increases that may be lost are those since the node was last stored, and
				// the one before the first sample after the restart.
				assert.GreaterOrEqual(t, total, 59-(30.0+2)/5-2)
			})
		})
	}
}

func TestInvalidStoredStateIsDroppedAndLoggedOnce(t *testing.T) {
	for name, spoil := range map[string]func(*Config){
		"other window": func(cfg *Config) { cfg.Window = 30 * time.Second },
		"other rules":  func(cfg *Config) { cfg.MemoryPressureThreshold = 0.5 },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				h := fileStorage(t, dir)
				p := start(t, processortest.NewNopSettings(metadata.Type), storageConfig(), h, consumertest.NewNop())
				until(10 * time.Second)
				require.NoError(t, p.ConsumeMetrics(t.Context(), sample(time.Now(), 0.2, 1)))
				require.NoError(t, p.Shutdown(t.Context()))

				tel := componenttest.NewTelemetry()
				core, logs := observer.New(zap.InfoLevel)
				set := processortest.NewNopSettings(metadata.Type)
				set.TelemetrySettings = tel.NewTelemetrySettings()
				set.Logger = zap.New(core)
				cfg := storageConfig()
				spoil(cfg)
				p = start(t, set, cfg, h, consumertest.NewNop())
				assert.Equal(t, 1, logs.Len())
				metadatatest.AssertEqualProcessorGpuWindowStorageErrors(t, tel, []metricdata.DataPoint[int64]{
					{Attributes: attribute.NewSet(attribute.String("operation", "restore")), Value: 1},
				}, metricdatatest.IgnoreTimestamp())
				require.NoError(t, p.Shutdown(t.Context()))
				require.NoError(t, tel.Shutdown(t.Context()))
			})
		})
	}
}

func memoryHost() (*storagetest.Memory, host) {
	m := storagetest.NewMemory(nil)
	return m, host{componenttest.NewNopHost(), map[component.ID]component.Component{storageID: m}}
}

func TestEveryDamagedByteOfTheStorageIsDetectedOrHarmless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, h := memoryHost()
		p := start(t, processortest.NewNopSettings(metadata.Type), storageConfig(), h, consumertest.NewNop())
		until(10 * time.Second)
		require.NoError(t, p.ConsumeMetrics(t.Context(), sample(time.Now(), 0.2, 1)))
		until(70 * time.Second)
		require.NoError(t, p.ConsumeMetrics(t.Context(), sample(time.Now(), 0.2, 1)))
		require.NoError(t, p.Shutdown(t.Context()))
		require.ElementsMatch(t, []string{closedKey, "places", "place/node-1"}, slices.Collect(maps.Keys(m.Values())))
		for key, raw := range m.Raw() {
			for i := range raw {
				m.PutRaw(key, raw[:i]+string([]byte{raw[i] ^ 0x40})+raw[i+1:])
				core, logs := observer.New(zap.InfoLevel)
				s := storeOn(t, h, zap.New(core))
				require.NotNil(t, s.restore(t.Context(), storageConfig().settings(), time.Now()))
				assert.Equal(t, 1, logs.Len(), "byte %d of %s", i, key)
				require.NoError(t, s.close(t.Context()))
			}
			m.PutRaw(key, raw)
		}
	})
}

// storeOn opens the state store in the storage extension of a host.
func storeOn(t *testing.T, h host, logger *zap.Logger) *stateStore {
	t.Helper()
	s, err := openStore(t.Context(), h, storageConfig(), component.NewID(metadata.Type), logger, newTelemetry(t))
	require.NoError(t, err)
	return s
}

func TestTheStateOfABuildBeforeTheFirstReleaseIsDeletedAndLoggedOnce(t *testing.T) {
	m, h := memoryHost()
	for key, raw := range map[string]string{
		"closed":    "\x01\x00X\x8aJ\xddL#\rW\u0386!\xa8^\xe8Y",
		"head":      "\x01\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x12\xac\x04\xa2\u015cI\xea",
		"chunk/1/0": "a snap\xf9*\xb5C",
		"chunk/1/1": "shot\xfd\x16\u076f",
	} {
		m.PutRaw(key, raw)
	}
	core, logs := observer.New(zap.InfoLevel)
	s := storeOn(t, h, zap.New(core))
	require.NotNil(t, s.restore(t.Context(), storageConfig().settings(), time.Now()))
	assert.Equal(t, 1, logs.Len())
	assert.Empty(t, m.Raw())
	require.NoError(t, s.close(t.Context()))
}

func newTelemetry(t *testing.T) *metadata.TelemetryBuilder {
	t.Helper()
	tb, err := metadata.NewTelemetryBuilder(componenttest.NewNopTelemetrySettings())
	require.NoError(t, err)
	return tb
}

func TestAFailingStorageIsCountedAndLoggedOnceAndWindowsAreStillSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel := componenttest.NewTelemetry()
		core, logs := observer.New(zap.InfoLevel)
		set := processortest.NewNopSettings(metadata.Type)
		set.TelemetrySettings = tel.NewTelemetrySettings()
		set.Logger = zap.New(core)
		m, h := memoryHost()
		sink := new(consumertest.MetricsSink)
		p := start(t, set, storageConfig(), h, sink)
		m.Fail(storage.ErrStorageFull)
		until(10 * time.Second)
		require.NoError(t, p.ConsumeMetrics(t.Context(), sample(time.Now(), 0.2, 1)))
		until(70 * time.Second)
		synctest.Wait()
		require.Len(t, sink.AllMetrics(), 1)
		m.Fail(nil)
		until(100 * time.Second)
		synctest.Wait()
		assert.Equal(t, 1, logs.FilterMessageSnippet("fails").Len())
		assert.Equal(t, 1, logs.FilterMessageSnippet("again").Len())
		metadatatest.AssertEqualProcessorGpuWindowStorageErrors(t, tel, []metricdata.DataPoint[int64]{
			{Attributes: attribute.NewSet(attribute.String("operation", "write"))},
			{Attributes: attribute.NewSet(attribute.String("operation", "mark_closed"))},
		}, metricdatatest.IgnoreTimestamp(), metricdatatest.IgnoreValue())
		require.NoError(t, p.Shutdown(t.Context()))
		require.NoError(t, tel.Shutdown(t.Context()))
	})
}

func TestTheEndOfAWindowIsStoredBeforeTheWindowIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, h := memoryHost()
		var stored []bool
		next, err := consumer.NewMetrics(func(context.Context, pmetric.Metrics) error {
			stored = append(stored, m.Values()[closedKey] == fmt.Sprintf(`{"version":1,"up_to":%d}`, bubbleStart.Add(time.Minute).UnixNano()))
			return nil
		})
		require.NoError(t, err)
		p := start(t, processortest.NewNopSettings(metadata.Type), storageConfig(), h, next)
		until(10 * time.Second)
		require.NoError(t, p.ConsumeMetrics(t.Context(), sample(time.Now(), 0.2, 1)))
		until(70 * time.Second)
		require.NoError(t, p.Shutdown(t.Context()))
		assert.Equal(t, []bool{true}, stored)
	})
}

func TestEachNodeHasAStoredValueUntilItIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, h := memoryHost()
		const nodes = 40
		n := newBenchNodes(nodes, 1)
		n.now = time.Now()
		cfg := storageConfig()
		s := storeOn(t, h, zap.NewNop())
		n.engine = s.restore(t.Context(), cfg.settings(), n.now)
		written := map[int]int{} // number of saves for each number of stored values
		for range 30 {
			time.Sleep(s.step)
			n.now = time.Now()
			n.scrape()
			s.save(t.Context(), n.engine, n.now, false)
			written[len(m.Values())]++
		}
		assert.Len(t, m.Values(), nodes+1, "within the interval, all nodes and the list of nodes are stored")
		assert.Greater(t, len(written), 5, "the nodes are not all written at the same time")
		require.NoError(t, s.close(t.Context()))

		s = storeOn(t, h, zap.NewNop())
		e := s.restore(t.Context(), cfg.settings(), n.now)
		assert.Equal(t, n.engine.Stats().Series, e.Stats().Series)
		for em := e.Fetch(forever); em != nil; em = e.Fetch(forever) {
			em.Close()
		}
		for more := true; more; {
			_, more = e.Expire(n.now.Add(time.Hour), nil, 1000)
		}
		s.save(t.Context(), e, n.now, false)
		assert.Equal(t, []string{"places"}, slices.Collect(maps.Keys(m.Values())))
		assert.Zero(t, s.size)
		require.NoError(t, s.close(t.Context()))
	})
}

func TestStartFailsWithoutTheConfiguredStorage(t *testing.T) {
	for name, h := range map[string]component.Host{
		"absent":        componenttest.NewNopHost(),
		"not a storage": host{componenttest.NewNopHost(), map[component.ID]component.Component{storageID: struct{ component.Component }{}}},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := NewFactory().CreateMetrics(t.Context(), processortest.NewNopSettings(metadata.Type), storageConfig(), consumertest.NewNop())
			require.NoError(t, err)
			require.ErrorContains(t, p.Start(t.Context(), h), `"file_storage"`)
			require.NoError(t, p.Shutdown(t.Context()))
		})
	}
}
