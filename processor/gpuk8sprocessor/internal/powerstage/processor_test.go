package powerstage

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/internal/stage"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/idle"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/metadatatest"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/split"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/enumtest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/expositiontest"
)

// observed starts a processor. The results are a function that sends input to the processor, the
// sink that receives the output, and the self-metrics.
func observed(t *testing.T, cfg *Config) (func(text string), *consumertest.MetricsSink, *componenttest.Telemetry) {
	t.Helper()
	tel := componenttest.NewTelemetry()
	set := processortest.NewNopSettings(metadata.Type)
	set.TelemetrySettings = tel.NewTelemetrySettings()
	p, sink := newTestProcessor(t, cfg, set)
	return func(text string) { feed(t, p, text) }, sink, tel
}

func by(key, value string, n int64) metricdata.DataPoint[int64] {
	return metricdata.DataPoint[int64]{Attributes: attribute.NewSet(attribute.String(key, value)), Value: n}
}

func TestBoardsAreCountedByTheSourceOfTheirBaseline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := createDefaultConfig().(*Config)
		cfg.Idle.ByUUID = map[string]*float64{"GPU-3": new(40.0)}
		send, _, tel := observed(t, cfg)
		expect := func(configured, learned, unknown int64) {
			t.Helper()
			metadatatest.AssertEqualProcessorGpuPowerBoards(t, tel, []metricdata.DataPoint[int64]{
				by("idle", "configured", configured), by("idle", "learned", learned), by("idle", "unknown", unknown),
			}, metricdatatest.IgnoreTimestamp())
		}
		send(quietBoard + `
70s {k8s.node.name=n1} hw.power {hw.id=GPU-2} = 50
70s {k8s.node.name=n1} hw.power {hw.id=GPU-3} = 50
70s {k8s.node.name=n1} gpu.engine.active {hw.id=GPU-4} = 0.5`)
		expect(1, 1, 1)
		send(strings.ReplaceAll(quietBoard, "GPU-1", "GPU-2"))
		expect(1, 2, 0)
		time.Sleep(2 * retention)
		send("")
		expect(0, 0, 0)
	})
}

func TestDroppedPointsAreCounted(t *testing.T) {
	send, sink, tel := observed(t, createDefaultConfig().(*Config))
	send(`10s {k8s.node.name=n1} gpu.process.count {hw.id=GPU-1} = stale
10s {k8s.node.name=n1} hw.power {hw.id=GPU-1} = NaN
10s {k8s.node.name=n1} hw.power {hw.id=GPU-1} = 1e9
10s {k8s.node.name=n1} hw.power {} = 50
0s {k8s.node.name=n1} hw.power {hw.id=GPU-1} = 50
10s {k8s.node.name=n1} gpu.sm.active {hw.id=GPU-1} = +Inf
10s {k8s.node.name=n1} gpu.sm.active {} = 1
10s {k8s.node.name=n1} gpu.sm.active {hw.id=GPU-1} = 1.294
10s {k8s.node.name=n1} gpu.device.holder {hw.id=GPU-1} = 1
10s {k8s.pod.name=a} gpu.device.holder {hw.id=GPU-1} = 0
10s {k8s.pod.name=a} gpu.device.holder {} = 1
10s {} process.gpu.utilization {hw.id=GPU-1} = 1
10s {} process.gpu.utilization {hw.id=GPU-1, process.pid=1} = -1
10s {} process.gpu.utilization {hw.id=GPU-1, process.pid=1} = 2`)
	assert.Empty(t, strings.TrimSpace(rendered(sink)))
	metadatatest.AssertEqualProcessorGpuPowerPointsDropped(t, tel, []metricdata.DataPoint[int64]{
		by("reason", "no_value", 1), by("reason", "out_of_range", 4), by("reason", "implausible", 1), by("reason", "no_device", 4),
		by("reason", "no_holder", 1), by("reason", "no_time", 1),
	}, metricdatatest.IgnoreTimestamp())
	metadatatest.AssertEqualProcessorGpuPowerPointsClamped(t, tel,
		[]metricdata.DataPoint[int64]{{Value: 2}}, metricdatatest.IgnoreTimestamp())
}

func TestAFrozenZeroIsCounted(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	watts := 40.0
	cfg.Idle.Watts = &watts
	send, _, tel := observed(t, cfg)
	for _, at := range []string{"10s", "20s"} {
		send(strings.ReplaceAll(`@ {} hw.power {hw.id=GPU-1} = 300
@ {} gpu.engine.active {hw.id=GPU-1/gi1, hw.parent=GPU-1} = 0
@ {} gpu.sm.active {hw.id=GPU-1/gi1, hw.parent=GPU-1} = 0.9`, "@", at))
	}
	metadatatest.AssertEqualProcessorGpuPowerFrozen(t, tel,
		[]metricdata.DataPoint[int64]{by("source", "gr_engine_active", 2)}, metricdatatest.IgnoreTimestamp())
}

func TestNewSeriesAreRefusedAtTheLimitAndPowerIsStillSent(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	watts := 40.0
	cfg.Idle.Watts, cfg.MaxSeries = &watts, 2
	send, sink, tel := observed(t, cfg)
	send(`10s {k8s.node.name=n1} hw.power {hw.id=GPU-1} = 100
10s {k8s.node.name=n1} hw.power {hw.id=GPU-2} = 100
10s {k8s.node.name=n1, k8s.pod.name=a} gpu.device.holder {hw.id=GPU-1} = 1
10s {k8s.node.name=n1, k8s.pod.name=a} gpu.device.holder {hw.id=GPU-2} = 1`)
	got := rendered(sink)
	assert.Equal(t, 2, strings.Count(got, "k8s.container.gpu.power"))
	assert.Equal(t, 1, strings.Count(got, "k8s.container.gpu.energy"))
	metadatatest.AssertEqualProcessorGpuPowerSeriesRefused(t, tel,
		[]metricdata.DataPoint[int64]{{Value: 2}}, metricdatatest.IgnoreTimestamp())
	metadatatest.AssertEqualProcessorGpuPowerSeries(t, tel,
		[]metricdata.DataPoint[int64]{{Value: 2}}, metricdatatest.IgnoreTimestamp())
}

func TestANodeBeyondTheLimitIsCounted(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	cfg.MaxSeries = 1
	send, _, tel := observed(t, cfg)
	send(`10s {k8s.node.name=n1} hw.power {hw.id=GPU-1} = 100
10s {k8s.node.name=n2} hw.power {hw.id=GPU-1} = 100`)
	metadatatest.AssertEqualProcessorGpuPowerSeriesRefused(t, tel,
		[]metricdata.DataPoint[int64]{{Value: 1}}, metricdatatest.IgnoreTimestamp())
}

func TestUnusedStateIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := createDefaultConfig().(*Config)
		watts := 40.0
		cfg.Idle.Watts = &watts
		send, sink, tel := observed(t, cfg)
		for i := range 100 {
			send(fmt.Sprintf(`%[1]ds {k8s.node.name=n%[1]d} hw.power {hw.id=GPU-1} = 100
%[1]ds {k8s.node.name=n%[1]d, k8s.pod.name=a} gpu.device.holder {hw.id=GPU-1} = 1
%[1]ds {k8s.node.name=n%[1]d} process.gpu.utilization {hw.id=GPU-1, process.pid=1} = 1`, i+1))
		}
		metadatatest.AssertEqualProcessorGpuPowerSeries(t, tel,
			[]metricdata.DataPoint[int64]{{Value: 200}}, metricdatatest.IgnoreTimestamp())
		time.Sleep(2 * retention)
		send(`200s {k8s.node.name=n1} hw.power {hw.id=GPU-1} = 100
200s {k8s.node.name=n1, k8s.pod.name=a} gpu.device.holder {hw.id=GPU-1} = 1`)
		metadatatest.AssertEqualProcessorGpuPowerSeries(t, tel,
			[]metricdata.DataPoint[int64]{{Value: 2}}, metricdatatest.IgnoreTimestamp())
		send(`210s {k8s.node.name=n2} hw.power {hw.id=GPU-1} = 100
210s {k8s.node.name=n2, k8s.pod.name=a} gpu.device.holder {hw.id=GPU-1} = 1`)
		assert.Contains(t, rendered(sink), "k8s.container.gpu.energy {hw.id=GPU-1} = 0 J since 3m30s", "the counter restarts")
	})
}

func TestABoardWithoutRecentProcessCountsIsIdleByItsActivity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		send, sink, _ := observed(t, createDefaultConfig().(*Config))
		send(`1s {k8s.node.name=n1} gpu.process.count {hw.id=GPU-1} = 1`)
		at := 1
		for range 7 { // incomplete lists
			time.Sleep(10 * time.Minute)
			at += 600
			send(fmt.Sprintf(`%ds {k8s.node.name=n1} process.gpu.memory.usage {hw.id=GPU-1, process.pid=1} = 1`, at))
		}
		for range 4 {
			time.Sleep(2 * time.Minute)
			at += 120
			send(fmt.Sprintf(`%[1]ds {k8s.node.name=n1} hw.power {hw.id=GPU-1} = 50
%[1]ds {k8s.node.name=n1} gpu.engine.active {hw.id=GPU-1} = 0`, at))
		}
		assert.Contains(t, rendered(sink), "gpu.power.idle {hw.id=GPU-1} = 50 W")
	})
}

// If a source has reported the number of processes in the last hour, the source is expected to list
// processes again. Without a recent list, a process may be waiting, so the board does not count as
// idle.
func TestABoardWithARecentProcessCountIsNotIdleByItsActivity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		send, sink, _ := observed(t, createDefaultConfig().(*Config))
		send(`1s {k8s.node.name=n1} gpu.process.count {hw.id=GPU-1} = 1`)
		time.Sleep(time.Minute)
		send(`61s {k8s.node.name=n1} process.gpu.memory.usage {hw.id=GPU-1, process.pid=1} = 1`)
		for at := 361; at < 1000; at += 120 {
			time.Sleep(2 * time.Minute)
			send(fmt.Sprintf(`%[1]ds {k8s.node.name=n1} hw.power {hw.id=GPU-1} = 50
%[1]ds {k8s.node.name=n1} gpu.engine.active {hw.id=GPU-1} = 0`, at))
		}
		assert.NotContains(t, rendered(sink), "gpu.power.idle")
	})
}

func TestOtherMetricsAreUnchanged(t *testing.T) {
	p, sink := newTestProcessor(t, createDefaultConfig().(*Config), processortest.NewNopSettings(metadata.Type))
	md := pmetric.NewMetrics()
	ms := md.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics()
	ms.AppendEmpty().SetName("nothing")
	h := ms.AppendEmpty()
	h.SetName(signal.HwPower.Name)
	h.SetEmptyHistogram().DataPoints().AppendEmpty()
	want := pmetric.NewMetrics()
	md.CopyTo(want)
	require.NoError(t, p.ConsumeMetrics(context.Background(), md))
	assert.Equal(t, want, sink.AllMetrics()[0])
}

func TestBatchesAreProcessedConcurrently(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	watts := 70.0
	cfg.Idle.Watts = &watts
	p, sink := newTestProcessor(t, cfg, processortest.NewNopSettings(metadata.Type))
	var wg sync.WaitGroup
	for i := range 8 {
		md := largeNode(t, 10+i)
		wg.Go(func() { assert.NoError(t, p.ConsumeMetrics(context.Background(), md)) })
	}
	wg.Wait()
	for _, md := range sink.AllMetrics() {
		boards := collect(t, md, map[string]float64{})
		assert.Len(t, boards, 8)
	}
}

// NewSynthesizerFactory returns the factory for gpu_synthesizer. Only an external test package can
// set NewSynthesizerFactory, because gpu_synthesizer imports this package.
var NewSynthesizerFactory func() processor.Factory

// In this test, gpu_synthesizer processes recorded scrapes of boards that have instances.
func TestThePowerOfARecordedScrapeIsSplit(t *testing.T) {
	for name, watts := range map[string]float64{ // Each value is the power of the board that has instances.
		"exporter_4_8_3_labels_mig_rows_with_claims": 397.97,
		"fakegpuop_a100_mig_3gi_active":              116,
	} {
		t.Run(name, func(t *testing.T) {
			for _, file := range expositiontest.DCGMRecordings(t) {
				if filepath.Base(file) == name+".prom" {
					recordedScrape(t, file, watts)
				}
			}
		})
	}
}

func recordedScrape(t *testing.T, file string, watts float64) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	cfg := createDefaultConfig().(*Config)
	idleWatts := 50.0
	cfg.Idle.Watts = &idleWatts
	p, sink := newTestProcessor(t, cfg, processortest.NewNopSettings(metadata.Type))
	f := NewSynthesizerFactory()
	synth, err := f.CreateMetrics(context.Background(), processortest.NewNopSettings(f.Type()), f.CreateDefaultConfig(), p)
	require.NoError(t, err)
	require.NoError(t, synth.Start(context.Background(), componenttest.NewNopHost()))
	defer func() { require.NoError(t, synth.Shutdown(context.Background())) }()
	md := rows(string(text))
	require.NoError(t, synth.ConsumeMetrics(context.Background(), md))
	boards := collect(t, sink.AllMetrics()[0], map[string]float64{})
	cut := 0
	for _, s := range boards {
		if len(s.sources) == 0 {
			continue // a board without instances
		}
		cut++
		assert.InDelta(t, idleWatts, s.idle, 1e-9)
		assert.InDelta(t, watts-idleWatts, s.active, 0.3, "the power of the board counts once, not once per instance")
		assert.InDelta(t, s.active, s.instances, 1e-9)
		assert.Equal(t, map[string]bool{"gr_engine_active": true}, s.sources)
	}
	assert.Equal(t, 1, cut)
}

// rows converts Prometheus exposition text to points whose attributes are the labels.
func rows(text string) pmetric.Metrics {
	md := pmetric.NewMetrics()
	ms := md.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics()
	for line := range strings.Lines(text) {
		name, rest, ok := strings.Cut(line, "{")
		labels, value, ok2 := strings.Cut(rest, "} ")
		var v float64
		if _, err := fmt.Sscan(value, &v); !ok || !ok2 || err != nil {
			continue
		}
		m := ms.AppendEmpty()
		m.SetName(name)
		dp := m.SetEmptyGauge().DataPoints().AppendEmpty()
		dp.SetTimestamp(10e9)
		dp.SetDoubleValue(v)
		for label := range strings.SplitSeq(labels, `",`) {
			k, v, _ := strings.Cut(label, `="`)
			dp.Attributes().PutStr(k, strings.TrimSuffix(v, `"`))
		}
	}
	return md
}

// The Slices source is not measured, so it is never frozen.
func TestTheValuesOfSelfMetricsAreDocumented(t *testing.T) {
	assert.ElementsMatch(t, enumtest.Documented(t, "power.reason"), enumtest.Names(0, stage.Drops))
	assert.ElementsMatch(t, enumtest.Documented(t, "power.idle"), enumtest.Names(0, idle.NumKinds))
	assert.ElementsMatch(t, enumtest.Documented(t, "power.source"), enumtest.Names(split.Engine, split.Slices))
}
