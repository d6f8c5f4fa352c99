package usagestage

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-gpu/otelcol-gpu/internal/stage"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/metadatatest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/enumtest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/storagetest"
)

func observed() (processor.Settings, *observer.ObservedLogs) {
	core, logs := observer.New(zap.InfoLevel)
	set := processortest.NewNopSettings(metadata.Type)
	set.Logger = zap.New(core)
	return set, logs
}

// priced starts a processor that uses the given price list. The caller must run in a synctest
// bubble.
func priced(t *testing.T, set processor.Settings, list string) (p processor.Metrics, sink *consumertest.MetricsSink, path string) {
	t.Helper()
	cfg := testConfig()
	cfg.Prices.File = filepath.Join(t.TempDir(), "prices.yaml")
	write(t, cfg.Prices.File, list)
	p, sink = newTestProcessor(t, cfg, set)
	return p, sink, cfg.Prices.File
}

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

func dollars(price string) string {
	return "currency: USD\nprices: [{host_type: a3, price: " + price + "}]\n"
}

// onA3 returns the samples of a board that a pod holds. The instance type of the node is a3.
func onA3(seconds ...int) string {
	return strings.ReplaceAll(held(seconds...), "k8s.node.name=n1", "k8s.node.name=n1, host.type=a3")
}

const costOfA = "{host.type=a3, k8s.node.name=n1, k8s.pod.name=a} k8s.container.gpu.cost {gpu.cost.currency=%[1]s, gpu.usage.estimated=false, hw.id=GPU-1} = %[2]s {%[1]s} since %[3]s"

func TestANewPriceCountsFromTheNextInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, sink, path := priced(t, processortest.NewNopSettings(metadata.Type), dollars("36"))
		feed(t, p, onA3(10))
		time.Sleep(20 * time.Second)
		write(t, path, dollars("72"))
		feed(t, p, onA3(30))
		assert.Contains(t, rendered(sink), fmt.Sprintf(costOfA, "USD", "0.2", "10s"))
		time.Sleep(20 * time.Second)
		feed(t, p, onA3(50))
		assert.Contains(t, rendered(sink), fmt.Sprintf(costOfA, "USD", "0.6", "10s"))
	})
}

func TestTheLastValidPriceListIsKeptAndTheErrorIsLogged(t *testing.T) {
	const vanished = "vanished"
	for name, text := range map[string]string{
		vanished:           "",
		"a negative price": dollars("-1"),
		"a missing price":  "currency: USD\nprices: [{host_type: a3}]",
		"two currencies":   "currency: USD\nprices: [{host_type: a3, price: 1, currency: EUR}]",
		"an empty file":    "",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				set, logs := observed()
				tel := componenttest.NewTelemetry()
				set.MeterProvider = tel.NewTelemetrySettings().MeterProvider
				p, sink, path := priced(t, set, dollars("36"))
				if write(t, path, text); name == vanished {
					require.NoError(t, os.Remove(path))
				}
				for _, at := range []int{10, 30, 50} {
					time.Sleep(20 * time.Second)
					feed(t, p, onA3(at))
				}
				assert.Contains(t, rendered(sink), fmt.Sprintf(costOfA, "USD", "0.4", "10s"))
				assert.Equal(t, 1, logs.FilterMessage("The price list cannot be used. The last valid list is used instead.").Len())
				metadatatest.AssertEqualProcessorGpuUsagePriceErrors(t, tel,
					[]metricdata.DataPoint[int64]{{Value: 3}}, metricdatatest.IgnoreTimestamp())
				write(t, path, dollars("36"))
				time.Sleep(20 * time.Second)
				feed(t, p, onA3(70))
				assert.Equal(t, 1, logs.FilterMessage("The price list can be used again.").Len())
				require.NoError(t, tel.Shutdown(context.Background()))
			})
		})
	}
}

func TestEachCurrencyHasItsOwnCounter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, sink, path := priced(t, processortest.NewNopSettings(metadata.Type), dollars("36"))
		feed(t, p, onA3(10, 20))
		write(t, path, "currency: EUR\nprices: [{host_type: a3, price: 36}]")
		time.Sleep(20 * time.Second)
		feed(t, p, onA3(30))
		feed(t, p, onA3(40))
		got := rendered(sink)
		assert.Contains(t, got, fmt.Sprintf(costOfA, "USD", "0.2", "10s"))
		assert.Contains(t, got, fmt.Sprintf(costOfA, "EUR", "0.1", "30s"))
	})
}

func TestAListThatCannotBeReadFailsTheStart(t *testing.T) {
	cfg := testConfig()
	cfg.Prices.File = filepath.Join(t.TempDir(), "none.yaml")
	start := func() error {
		p, err := NewFactory().CreateMetrics(context.Background(), processortest.NewNopSettings(metadata.Type), cfg, consumertest.NewNop())
		require.NoError(t, err)
		defer func() { require.NoError(t, p.Shutdown(context.Background())) }()
		return p.Start(context.Background(), componenttest.NewNopHost())
	}
	require.ErrorContains(t, start(), "none.yaml: no such file or directory")
	write(t, cfg.Prices.File, dollars("-1"))
	require.ErrorContains(t, start(), "prices[0]::price is -1: must be a finite number, at least 0")
}

func TestTwoProcessorsInOnePipelineCountOnce(t *testing.T) {
	set, logs := observed()
	sink := &consumertest.MetricsSink{}
	second, err := NewFactory().CreateMetrics(context.Background(), set, testConfig(), sink)
	require.NoError(t, err)
	first, err := NewFactory().CreateMetrics(context.Background(), processortest.NewNopSettings(metadata.Type), testConfig(), second)
	require.NoError(t, err)
	for _, p := range []processor.Metrics{second, first} {
		require.NoError(t, p.Start(context.Background(), componenttest.NewNopHost()))
		t.Cleanup(func() { require.NoError(t, p.Shutdown(context.Background())) })
	}
	for _, at := range []int{10, 20, 30, 40} { // The first processor receives the first batch as metrics and all other batches as frames.
		feed(t, first, held(at))
	}
	assert.Equal(t, 3, strings.Count(rendered(sink), "k8s.container.gpu.allocated.time"), rendered(sink))
	if all := logs.FilterLevelExact(zap.ErrorLevel).All(); assert.Len(t, all, 1) {
		assert.Contains(t, all[0].Message, "The section usage of another gpu_k8s has already counted these GPUs")
	}
}

func TestTheTimeOfContainersBeyondTheLimitIsUnobserved(t *testing.T) {
	cfg := testConfig()
	cfg.MaxSeries = 2
	set, logs := observed()
	p, sink := newTestProcessor(t, cfg, set)
	for _, at := range []int{10, 20} {
		feed(t, p, held(at)+strings.ReplaceAll(held(at), "k8s.pod.name=a", "k8s.pod.name=b"))
	}
	got := rendered(sink)
	assert.Equal(t, 1, strings.Count(got, "container.gpu.allocated.time"), got)
	assert.Contains(t, got, "gpu.unobserved.time {hw.id=GPU-1} = 5 s since 10s")
	if assert.Equal(t, 1, logs.Len()) {
		assert.Contains(t, logs.All()[0].Message, "max_series of 2 is reached: new boards or containers on devices are refused")
	}
}

func TestBoardsThatAreNotCountedHaveAReason(t *testing.T) {
	tel := componenttest.NewTelemetry()
	set := processortest.NewNopSettings(metadata.Type)
	set.TelemetrySettings = tel.NewTelemetrySettings()
	p, sink := newTestProcessor(t, testConfig(), set)
	ahead := int(time.Now().Add(2 * time.Minute).Unix())
	for _, at := range []int{1000, 1010, ahead, 1005, 1010, 1020, 10} {
		feed(t, p, held(at))
	}
	assert.Equal(t, 2, strings.Count(rendered(sink), "container.gpu.allocated.time"), rendered(sink))
	of := func(reason string, n int64) metricdata.DataPoint[int64] {
		return metricdata.DataPoint[int64]{Value: n, Attributes: attribute.NewSet(attribute.String("reason", reason))}
	}
	metadatatest.AssertEqualProcessorGpuUsageBoardsSkipped(t, tel,
		[]metricdata.DataPoint[int64]{of("late", 3), of("future", 1)}, metricdatatest.IgnoreTimestamp())
	require.NoError(t, tel.Shutdown(context.Background()))
}

// onTheWall returns the samples of a board that a pod holds. The sample time is the wall-clock time
// plus the given number of seconds.
func onTheWall(seconds int64) string { return held(int(time.Now().Unix() + seconds)) }

// If one batch has a wrong timestamp, the time that is counted for the other batches does not
// change.
func TestAWrongTimestampAddsNoTime(t *testing.T) {
	for name, wrong := range map[string]int64{"an hour behind": -3600, "91 s behind": -91, "61 s ahead": 61, "a day ahead": 86400} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, sink := newTestProcessor(t, testConfig(), processortest.NewNopSettings(metadata.Type))
				for i := range 4 {
					feed(t, p, onTheWall(0))
					if i == 1 {
						feed(t, p, onTheWall(wrong))
					}
					time.Sleep(10 * time.Second)
				}
				got := rendered(sink)
				assert.Contains(t, got, "k8s.container.gpu.allocated.time {gpu.usage.estimated=false, hw.id=GPU-1} = 30 s")
				assert.Equal(t, 3, strings.Count(got, "gpu.unobserved.time {hw.id=GPU-1} = 0 s"), got)
			})
		})
	}
}

// Even if clocks are wrong, the total counted time equals the time that has passed.
func TestTheTimeOfARunIsTheTimeThatPassed(t *testing.T) {
	const frames, seconds = 24, 10
	right := func(int) int64 { return 0 }
	for name, c := range map[string]struct {
		maxGap time.Duration
		offset func(frame int) int64
	}{
		"the first timestamp is an hour behind": {90 * time.Second, func(i int) int64 { return map[int]int64{0: -3600}[i] }},
		"a slow clock is corrected": {90 * time.Second, func(i int) int64 {
			if i < 5 {
				return -3600
			}
			return 0
		}},
		"the first timestamp is 55 s ahead":      {90 * time.Second, func(i int) int64 { return map[int]int64{0: 55}[i] }},
		"the second timestamp is 55 s ahead":     {90 * time.Second, func(i int) int64 { return map[int]int64{1: 55}[i] }},
		"a timestamp is 55 s ahead":              {90 * time.Second, func(i int) int64 { return map[int]int64{4: 55}[i] }},
		"a timestamp is more than max_gap ahead": {15 * time.Second, func(i int) int64 { return map[int]int64{4: 55}[i] }},
		"a clock is set back by an hour":         {15 * time.Second, func(i int) int64 { return -3600 * int64(i/12) }},
		"a clock is set back by a minute":        {90 * time.Second, func(i int) int64 { return -60 * int64(i/12) }},
		"all timestamps are correct":             {90 * time.Second, right},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := testConfig()
				cfg.MaxGap = c.maxGap
				p, sink := newTestProcessor(t, cfg, processortest.NewNopSettings(metadata.Type))
				seen := &increases{last: map[string]counterPoint{}}
				for i := range frames {
					feed(t, p, onTheWall(c.offset(i)))
					if all := sink.AllMetrics(); len(all) > 0 {
						seen.add(t, all[len(all)-1])
					}
					assert.LessOrEqual(t, seen.total, float64(i*seconds)+1e-6, "frame %d", i)
					time.Sleep(seconds * time.Second)
				}
				assert.InDelta(t, (frames-1)*seconds, seen.total, 1e-6)
			})
		})
	}
}

func TestCountersRestartIfAllSamplesAreBehindForMaxGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel := componenttest.NewTelemetry()
		set, logs := observed()
		set.MeterProvider = tel.NewTelemetrySettings().MeterProvider
		m := storagetest.NewMemory(nil)
		p, _ := startOn(t, m, set)
		for range 2 {
			feed(t, p, onTheWall(0))
			time.Sleep(10 * time.Second)
		}
		feed(t, p, onTheWall(-3600)) // A clock was set back by one hour.
		time.Sleep(10 * time.Second)
		require.NoError(t, p.Shutdown(t.Context()))
		p, sink := startOn(t, storagetest.NewMemory(m.Values()), set)
		for range 11 { // For 100 s after the restart, the processor receives frames whose timestamps are one hour behind the wall clock.
			feed(t, p, onTheWall(-3600))
			time.Sleep(10 * time.Second)
		}
		assert.Empty(t, rendered(sink))
		feed(t, p, onTheWall(-3600))
		start := time.Duration(time.Now().Add(-time.Hour - 10*time.Second).UnixNano())
		assert.Contains(t, rendered(sink), fmt.Sprintf("k8s.container.gpu.allocated.time {gpu.usage.estimated=false, hw.id=GPU-1} = 10 s since %s", start))
		assert.Contains(t, rendered(sink), fmt.Sprintf("gpu.unobserved.time {hw.id=GPU-1} = 0 s since %s", start))
		assert.Equal(t, 1, logs.FilterMessageSnippet("a clock was set back").Len())
		of := func(reason string, n int64) metricdata.DataPoint[int64] {
			return metricdata.DataPoint[int64]{Value: n, Attributes: attribute.NewSet(attribute.String("reason", reason))}
		}
		metadatatest.AssertEqualProcessorGpuUsageBoardsSkipped(t, tel,
			[]metricdata.DataPoint[int64]{of("late", 11), of("clock_set_back", 1)}, metricdatatest.IgnoreTimestamp())
		require.NoError(t, tel.Shutdown(context.Background()))
	})
}

func TestSamplesInTheFutureAreLoggedOnce(t *testing.T) {
	set, logs := observed()
	p, sink := newTestProcessor(t, testConfig(), set)
	for i := range int64(3) {
		feed(t, p, onTheWall(3600+10*i))
	}
	assert.Empty(t, rendered(sink))
	assert.Equal(t, 1, logs.FilterMessageSnippet("more than a minute ahead").Len())
}

func TestAnInvalidUtilizationAddsNoActiveTime(t *testing.T) {
	for _, garbage := range []string{"4294967295", "2.01", "-0.051"} {
		tel := componenttest.NewTelemetry()
		set := processortest.NewNopSettings(metadata.Type)
		set.TelemetrySettings = tel.NewTelemetrySettings()
		p, sink := newTestProcessor(t, testConfig(), set)
		for _, at := range []string{"10s", "20s"} {
			feed(t, p, strings.ReplaceAll(`@ {k8s.node.name=n1} hw.power {hw.id=GPU-1} = 300
@ {k8s.node.name=n1} hw.gpu.utilization {hw.id=GPU-1, hw.gpu.task=general} = `+garbage+`
@ {k8s.node.name=n1, k8s.pod.name=a} gpu.device.holder {hw.id=GPU-1} = 1`, "@", at))
		}
		got := rendered(sink)
		assert.Contains(t, got, "k8s.container.gpu.allocated.time {gpu.usage.estimated=false, hw.id=GPU-1} = 10 s")
		assert.NotContains(t, got, "active.time", garbage)
		assert.NotContains(t, got, "idle.time", garbage)
		metadatatest.AssertEqualProcessorGpuUsagePointsDropped(t, tel, []metricdata.DataPoint[int64]{
			{Value: 2, Attributes: attribute.NewSet(attribute.String("reason", "implausible"))},
		}, metricdatatest.IgnoreTimestamp())
	}
}

func TestTheValuesOfSelfMetricsAreDocumented(t *testing.T) {
	assert.ElementsMatch(t, enumtest.Documented(t, "usage.drop"), enumtest.Names(0, stage.Drops))
	assert.ElementsMatch(t, enumtest.Documented(t, "usage.reason"), enumtest.Names(0, numSkips))
}
