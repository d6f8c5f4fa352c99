package powerstage

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/metadatatest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/storagetest"
)

// startOn starts a processor that uses the storage extension of the host m.
func startOn(t *testing.T, m component.Host, set processor.Settings) (processor.Metrics, *consumertest.MetricsSink) {
	t.Helper()
	cfg := createDefaultConfig().(*Config)
	cfg.Storage = &storagetest.ID
	sink := &consumertest.MetricsSink{}
	p, err := NewFactory().CreateMetrics(context.Background(), set, cfg, sink)
	require.NoError(t, err)
	require.NoError(t, p.Start(context.Background(), m))
	t.Cleanup(func() { require.NoError(t, p.Shutdown(context.Background())) })
	return p, sink
}

func feed(t *testing.T, p processor.Metrics, text string) {
	t.Helper()
	require.NoError(t, p.ConsumeMetrics(context.Background(), parse(t, text, false)))
}

// rendered returns all points that the processor added, as text.
func rendered(sink *consumertest.MetricsSink) string {
	var b strings.Builder
	for _, md := range sink.AllMetrics() {
		b.WriteString(render(md, true))
	}
	return b.String()
}

const (
	quietBoard = `10s {k8s.node.name=n1} hw.power {hw.id=GPU-1} = 50
10s {k8s.node.name=n1} gpu.engine.active {hw.id=GPU-1} = 0
40s {k8s.node.name=n1} hw.power {hw.id=GPU-1} = 50
40s {k8s.node.name=n1} gpu.engine.active {hw.id=GPU-1} = 0
70s {k8s.node.name=n1} hw.power {hw.id=GPU-1} = 50
70s {k8s.node.name=n1} gpu.engine.active {hw.id=GPU-1} = 0`
	busyAt80 = `80s {k8s.node.name=n1} hw.power {hw.id=GPU-1} = 150
80s {k8s.node.name=n1, k8s.pod.name=a} gpu.device.holder {hw.id=GPU-1} = 1`
	busyAt90 = `90s {k8s.node.name=n1} hw.power {hw.id=GPU-1} = 250
90s {k8s.node.name=n1, k8s.pod.name=a} gpu.device.holder {hw.id=GPU-1} = 1`
	busyAt500 = `500s {k8s.node.name=n1} hw.power {hw.id=GPU-1} = 250
500s {k8s.node.name=n1, k8s.pod.name=a} gpu.device.holder {hw.id=GPU-1} = 1`
)

func TestBaselinesAndEnergySurviveACleanRestart(t *testing.T) {
	m := storagetest.NewMemory(nil)
	before, _ := startOn(t, m, processortest.NewNopSettings(metadata.Type))
	feed(t, before, quietBoard)
	feed(t, before, busyAt80)
	feed(t, before, busyAt90)
	require.NoError(t, before.Shutdown(context.Background()))

	m = storagetest.NewMemory(m.Values())
	after, sink := startOn(t, m, processortest.NewNopSettings(metadata.Type))
	feed(t, after, busyAt500)
	got := rendered(sink)
	assert.Contains(t, got, "gpu.power.idle {hw.id=GPU-1} = 50 W")
	// The energy is 100 W for 10 s, plus 200 W for the duration of max_gap.
	assert.Contains(t, got, "k8s.container.gpu.energy {hw.id=GPU-1} = 19000 J since 1m20s")
	assert.NotContains(t, m.Values()["place//n1"], `"energy"`, "while the processor runs")
}

// The instance is missing from the first sample after the restart.
func TestEnergyOnAnInstanceIsNotCountedAfterARestartUntilTheContainerIsSeen(t *testing.T) {
	const instance = "{hw.id=GPU-1/gi1, hw.parent=GPU-1, gpu.mig.profile=1g.10gb}"
	at := func(time, watts, activity string) string {
		return time + " {k8s.node.name=n1} hw.power {hw.id=GPU-1} = " + watts + "\n" +
			time + " {k8s.node.name=n1} gpu.engine.active " + instance + " = " + activity + "\n"
	}
	held := func(time string) string {
		return at(time, "150", "0.5") + time + " {k8s.node.name=n1, k8s.pod.name=a} gpu.device.holder " + instance + " = 1"
	}
	m := storagetest.NewMemory(nil)
	before, _ := startOn(t, m, processortest.NewNopSettings(metadata.Type))
	feed(t, before, at("10s", "50", "0")+at("40s", "50", "0")+at("70s", "50", "0"))
	feed(t, before, held("80s"))
	require.NoError(t, before.Shutdown(context.Background()))

	after, sink := startOn(t, storagetest.NewMemory(m.Values()), processortest.NewNopSettings(metadata.Type))
	feed(t, after, "90s {k8s.node.name=n1} hw.power {hw.id=GPU-1} = 150")
	feed(t, after, held("120s"))
	assert.Contains(t, rendered(sink), "k8s.container.gpu.energy {gpu.mig.profile=1g.10gb, hw.id=GPU-1/gi1, hw.parent=GPU-1} = 1000 J since 1m20s")
}

func TestAfterACrashBaselinesContinueAndEnergyRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := storagetest.NewMemory(nil)
		first, _ := startOn(t, m, processortest.NewNopSettings(metadata.Type))
		feed(t, first, quietBoard)
		feed(t, first, busyAt80)
		feed(t, first, busyAt90)
		require.NoError(t, first.Shutdown(context.Background()))

		m = storagetest.NewMemory(m.Values())
		second, _ := startOn(t, m, processortest.NewNopSettings(metadata.Type))
		feed(t, second, strings.ReplaceAll(quietBoard, "GPU-1", "GPU-2"))
		feed(t, second, busyAt500)
		time.Sleep(saveEvery)
		synctest.Wait()
		// The third processor starts from the state that the second processor stored while it was
		// running, as if the second processor had been killed.
		third, sink := startOn(t, storagetest.NewMemory(m.Values()), processortest.NewNopSettings(metadata.Type))
		feed(t, third, strings.ReplaceAll(busyAt500, "500s", "600s"))
		feed(t, third, strings.ReplaceAll(strings.ReplaceAll(busyAt500, "500s", "600s"), "GPU-1", "GPU-2"))
		got := rendered(sink)
		assert.Contains(t, got, "gpu.power.idle {hw.id=GPU-1} = 50 W")
		assert.Contains(t, got, "gpu.power.idle {hw.id=GPU-2} = 50 W", "learned after the start")
		assert.Contains(t, got, "k8s.container.gpu.energy {hw.id=GPU-1} = 0 J since 10m0s")
	})
}

func TestEnergyRestartsIfItCannotBeRemovedFromTheStorage(t *testing.T) {
	m := storagetest.NewMemory(nil)
	before, _ := startOn(t, m, processortest.NewNopSettings(metadata.Type))
	feed(t, before, quietBoard)
	feed(t, before, busyAt80)
	feed(t, before, busyAt90)
	require.NoError(t, before.Shutdown(context.Background()))

	readOnly := newGated(m.Values())
	readOnly.fails = errors.New("read-only file system")
	close(readOnly.gate)
	after, sink := startOn(t, readOnly, processortest.NewNopSettings(metadata.Type))
	feed(t, after, busyAt500)
	assert.Contains(t, rendered(sink), "gpu.power.idle {hw.id=GPU-1} = 50 W")
	assert.Contains(t, rendered(sink), "k8s.container.gpu.energy {hw.id=GPU-1} = 0 J since 8m20s")
}

// gated is a storage extension. Writing to the storage blocks until the gate channel is closed.
type gated struct {
	*storagetest.Memory
	gate  chan struct{}
	fails error
}

func newGated(values map[string]string) *gated {
	return &gated{Memory: storagetest.NewMemory(values), gate: make(chan struct{})}
}

func (g *gated) GetExtensions() map[component.ID]component.Component {
	return map[component.ID]component.Component{storagetest.ID: g}
}

func (g *gated) GetClient(ctx context.Context, kind component.Kind, id component.ID, name string) (storage.Client, error) {
	c, err := g.Memory.GetClient(ctx, kind, id, name)
	return gatedClient{c, g}, err
}

type gatedClient struct {
	storage.Client
	*gated
}

func (c gatedClient) Batch(ctx context.Context, ops ...*storage.Operation) error {
	<-c.gate
	if c.fails != nil {
		return c.fails
	}
	return c.Client.Batch(ctx, ops...)
}

func TestBatchesPassWhileTheStorageIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newGated(nil)
		p, sink := startOn(t, m, processortest.NewNopSettings(metadata.Type))
		feed(t, p, quietBoard)
		time.Sleep(saveEvery)
		synctest.Wait() // until the write blocks
		feed(t, p, busyAt80)
		feed(t, p, busyAt90)
		assert.Contains(t, rendered(sink), "k8s.container.gpu.energy {hw.id=GPU-1} = 1000 J since 1m20s")
		assert.Empty(t, m.Values())

		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		require.ErrorIs(t, p.Shutdown(ctx), context.DeadlineExceeded, "the shutdown does not hang either")
		close(m.gate)
		synctest.Wait()
		assert.Contains(t, m.Values()["place//n1"], `"baselines"`)
		assert.True(t, m.Closed())
	})
}

func TestTheEnergyOfEveryHolderSurvivesARestart(t *testing.T) {
	holders := []string{"k8s.pod.name=a, k8s.container.name=x", "k8s.pod.name=a, k8s.container.name=y", "container.name=c", "container.id=0123", "hpc.job.id=7"}
	at := func(time, watts string) string {
		lines := []string{time + " {k8s.node.name=n1} hw.power {hw.id=GPU-1} = " + watts}
		for _, holder := range holders {
			lines = append(lines, time+" {k8s.node.name=n1, "+holder+"} gpu.device.holder {hw.id=GPU-1} = 1")
		}
		return strings.Join(lines, "\n")
	}
	m := storagetest.NewMemory(nil)
	before, _ := startOn(t, m, processortest.NewNopSettings(metadata.Type))
	feed(t, before, quietBoard)
	feed(t, before, at("80s", "150"))
	feed(t, before, at("90s", "150"))
	require.NoError(t, before.Shutdown(context.Background()))

	core, logs := observer.New(zap.InfoLevel)
	set := processortest.NewNopSettings(metadata.Type)
	set.Logger = zap.New(core)
	after, sink := startOn(t, storagetest.NewMemory(m.Values()), set)
	assert.Empty(t, logs.All())
	feed(t, after, at("100s", "150"))
	assert.Equal(t, len(holders), strings.Count(rendered(sink), "gpu.energy {hw.id=GPU-1} = 400 J since 1m20s"), rendered(sink))
}

func TestWithoutStorageNoStateSurvivesARestart(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	p, sink := newTestProcessor(t, cfg, processortest.NewNopSettings(metadata.Type))
	feed(t, p, busyAt500)
	assert.NotContains(t, rendered(sink), "W")
}

func TestOnlyPlacesWhoseBaselinesChangedAreWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := storagetest.NewMemory(nil)
		p, _ := startOn(t, m, processortest.NewNopSettings(metadata.Type))
		feed(t, p, quietBoard)
		feed(t, p, strings.ReplaceAll(quietBoard, "n1", "n2"))
		assert.Zero(t, m.Writes(), "within a batch")
		save := func() {
			time.Sleep(saveEvery)
			synctest.Wait()
		}
		save()
		assert.JSONEq(t, `{"version":1,"places":["/n1","/n2"]}`, m.Values()["places"])
		m.Put("place//n1", "untouched")
		feed(t, p, busyAt80)
		feed(t, p, strings.ReplaceAll(strings.ReplaceAll(quietBoard, "n1", "n2"), "GPU-1", "GPU-2"))
		save()
		assert.Equal(t, "untouched", m.Values()["place//n1"])
		assert.Contains(t, m.Values()["place//n2"], "GPU-2")
		before := m.Writes()
		save()
		assert.Equal(t, before, m.Writes(), "nothing changed")
	})
}

func TestARemovedNodeIsDeletedFromTheStorage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := storagetest.NewMemory(nil)
		p, _ := startOn(t, m, processortest.NewNopSettings(metadata.Type))
		feed(t, p, quietBoard)
		feed(t, p, busyAt80)
		time.Sleep(2 * time.Hour)
		feed(t, p, strings.ReplaceAll(quietBoard, "n1", "n2"))
		time.Sleep(saveEvery)
		synctest.Wait()
		assert.JSONEq(t, `{"version":1,"places":["/n1","/n2"]}`, m.Values()["places"], "n1 has a baseline, which expires after a day")
		time.Sleep(23 * time.Hour)
		feed(t, p, strings.ReplaceAll(quietBoard, "n1", "n2"))
		time.Sleep(saveEvery)
		synctest.Wait()
		assert.JSONEq(t, `{"version":1,"places":["/n2"]}`, m.Values()["places"])
		assert.NotContains(t, m.Values(), "place//n1")
	})
}

func TestAFailingStorageIsLoggedOnceAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel := componenttest.NewTelemetry()
		core, logs := observer.New(zap.InfoLevel)
		set := processortest.NewNopSettings(metadata.Type)
		set.TelemetrySettings = tel.NewTelemetrySettings()
		set.Logger = zap.New(core)
		m := storagetest.NewMemory(nil)
		m.Fail(errors.New("disk full"))
		p, sink := startOn(t, m, set)
		save := func() {
			time.Sleep(saveEvery)
			synctest.Wait()
		}
		feed(t, p, quietBoard)
		save()
		feed(t, p, busyAt80)
		save()
		m.Fail(nil)
		feed(t, p, busyAt90)
		save()
		assert.Contains(t, rendered(sink), "k8s.container.gpu.energy {hw.id=GPU-1} = 1000 J since 1m20s", "power is sent nevertheless")
		var entries []string
		for _, e := range logs.All() {
			entries = append(entries, e.Message)
		}
		assert.Equal(t, []string{
			"Some of the stored baselines and energy cannot be used. They are discarded.",
			"Baselines and energy cannot be stored.",
			"Baselines and energy can be stored again.",
		}, entries)
		metadatatest.AssertEqualProcessorGpuPowerStorageErrors(t, tel,
			[]metricdata.DataPoint[int64]{{Value: 3}}, metricdatatest.IgnoreTimestamp())
		assert.Contains(t, m.Values()["place//n1"], `"baselines"`, "a failed write is repeated")
	})
}

func TestStateOfThePreviousVersionIsRead(t *testing.T) {
	m := storagetest.NewMemory(nil)
	m.PutRaw("places", `{"version":1,"places":["/n1"]}`+"s\xf3\xf0\xad")
	m.PutRaw("place//n1", `{"version":1,"boards":[{"id":"GPU-1","baselines":{"":{"watts":50,"lowest":70000000000,"quiet":70000000000}}}],`+
		`"energy":[{"device":"GPU-1","pod":"a","start":80000000000,"last":90000000000,"watts":200,"joules":1000}]}`+"\x9af\"v")
	p, sink := startOn(t, m, processortest.NewNopSettings(metadata.Type))
	feed(t, p, busyAt500)
	assert.Contains(t, rendered(sink), "gpu.power.idle {hw.id=GPU-1} = 50 W")
	assert.Contains(t, rendered(sink), "k8s.container.gpu.energy {hw.id=GPU-1} = 19000 J since 1m20s")
}

func TestStateThatCannotBeUsedIsDropped(t *testing.T) {
	const index = `{"version":1,"places":["/n1"]}`
	for name, values := range map[string]map[string]string{
		"an index that is not JSON":   {"places": "x"},
		"an index of another version": {"places": `{"version":2,"places":["/n1"]}`},
		"not JSON":                    {"places": index, "place//n1": "x"},
		"another version":             {"places": index, "place//n1": `{"version":2}`},
		"a negative baseline":         {"places": index, "place//n1": `{"version":1,"boards":[{"id":"GPU-1","baselines":{"":{"watts":-1,"lowest":1,"quiet":1}}}]}`},
		"a negative next baseline":    {"places": index, "place//n1": `{"version":1,"boards":[{"id":"GPU-1","baselines":{"":{"watts":1,"lowest":1,"quiet":1,"next":-1,"next_time":1}}}]}`},
		"a baseline without a time":   {"places": index, "place//n1": `{"version":1,"boards":[{"id":"GPU-1","baselines":{"":{"watts":1}}}]}`},
		"a board without an ID":       {"places": index, "place//n1": `{"version":1,"boards":[{}]}`},
		"a board twice":               {"places": index, "place//n1": `{"version":1,"boards":[{"id":"GPU-1"},{"id":"GPU-1"}]}`},
		"energy without a device":     {"places": index, "place//n1": `{"version":1,"energy":[{"pod":"a","start":1,"last":1}]}`},
		"negative energy":             {"places": index, "place//n1": `{"version":1,"energy":[{"device":"GPU-1","pod":"a","start":1,"last":1,"joules":-1}]}`},
		"an energy counter twice":     {"places": index, "place//n1": `{"version":1,"energy":[{"device":"GPU-1","pod":"a","start":1,"last":1},{"device":"GPU-1","pod":"a","start":1,"last":1}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			tel := componenttest.NewTelemetry()
			set := processortest.NewNopSettings(metadata.Type)
			set.TelemetrySettings = tel.NewTelemetrySettings()
			p, sink := startOn(t, storagetest.NewMemory(values), set)
			feed(t, p, quietBoard)
			feed(t, p, busyAt80)
			assert.Contains(t, rendered(sink), "k8s.container.gpu.energy {hw.id=GPU-1} = 0 J since 1m20s")
			metadatatest.AssertEqualProcessorGpuPowerStorageErrors(t, tel,
				[]metricdata.DataPoint[int64]{{Value: 1}}, metricdatatest.IgnoreTimestamp())
		})
	}
}

func TestAMissingStorageFailsTheStart(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	cfg.Storage = &storagetest.ID
	p, err := NewFactory().CreateMetrics(context.Background(), processortest.NewNopSettings(metadata.Type), cfg, consumertest.NewNop())
	require.NoError(t, err)
	require.ErrorContains(t, p.Start(context.Background(), componenttest.NewNopHost()), `storage is "memory_storage": must be an extension that service::extensions lists`)
	require.NoError(t, p.Shutdown(context.Background()))
}

func TestShutdownClosesTheStorageAndIsSafeTwice(t *testing.T) {
	m := storagetest.NewMemory(nil)
	p, _ := startOn(t, m, processortest.NewNopSettings(metadata.Type))
	require.NoError(t, p.Shutdown(context.Background()))
	assert.True(t, m.Closed())
	require.NoError(t, p.Shutdown(context.Background()))
}
