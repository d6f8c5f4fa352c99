package usagestage

import (
	"context"
	"errors"
	"fmt"
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

	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/metadatatest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/storagetest"
)

// startOn starts a processor that uses the storage extension of the host m.
func startOn(t *testing.T, m component.Host, set processor.Settings) (processor.Metrics, *consumertest.MetricsSink) {
	t.Helper()
	cfg := testConfig()
	cfg.Storage = &storagetest.ID
	sink := &consumertest.MetricsSink{}
	p, err := NewFactory().CreateMetrics(context.Background(), set, cfg, sink)
	require.NoError(t, err)
	require.NoError(t, p.Start(context.Background(), m))
	t.Cleanup(func() { require.NoError(t, p.Shutdown(context.Background())) })
	return p, sink
}

// readOnly is a storage extension that returns an error for each write.
type readOnly struct{ *storagetest.Memory }

func (m readOnly) GetExtensions() map[component.ID]component.Component {
	return map[component.ID]component.Component{storagetest.ID: m}
}

func (m readOnly) GetClient(ctx context.Context, kind component.Kind, id component.ID, name string) (storage.Client, error) {
	c, err := m.Memory.GetClient(ctx, kind, id, name)
	return readOnlyClient{c}, err
}

type readOnlyClient struct{ storage.Client }

func (readOnlyClient) Batch(context.Context, ...*storage.Operation) error {
	return errors.New("read-only file system")
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

// held returns the samples of a board that a pod holds. The sample times are the given numbers of
// seconds. The utilization of the board is always 50%.
func held(seconds ...int) (text string) {
	for _, s := range seconds {
		text += fmt.Sprintf(`%[1]ds {k8s.node.name=n1} hw.gpu.utilization {hw.id=GPU-1, hw.gpu.task=general} = 0.5
%[1]ds {k8s.node.name=n1, k8s.pod.name=a} gpu.device.holder {hw.id=GPU-1} = 1
`, s)
	}
	return text
}

func TestCountersContinueAfterACleanRestart(t *testing.T) {
	m := storagetest.NewMemory(nil)
	before, _ := startOn(t, m, processortest.NewNopSettings(metadata.Type))
	feed(t, before, held(10, 20))
	require.NoError(t, before.Shutdown(context.Background()))

	after, sink := startOn(t, storagetest.NewMemory(m.Values()), processortest.NewNopSettings(metadata.Type))
	feed(t, after, held(50, 1000, 1010))
	got := rendered(sink)
	assert.Contains(t, got, "50s {k8s.node.name=n1, k8s.pod.name=a} k8s.container.gpu.allocated.time {gpu.usage.estimated=false, hw.id=GPU-1} = 40 s since 10s", "the gap counts as one interval")
	assert.Contains(t, got, "16m50s {k8s.node.name=n1, k8s.pod.name=a} k8s.container.gpu.active.time {gpu.usage.estimated=false, hw.id=GPU-1} = 25 s since 10s")
	assert.Contains(t, got, "16m50s {k8s.node.name=n1} gpu.unobserved.time {hw.id=GPU-1} = 950 s since 10s")
}

func TestEveryHoldersCountersContinue(t *testing.T) {
	holders := []string{"k8s.pod.name=a, k8s.container.name=x", "k8s.pod.name=a, k8s.pod.uid=u", "container.name=c", "container.id=0123", "hpc.job.id=7"}
	at := func(time string) string {
		lines := []string{time + " {k8s.node.name=n1} hw.power {hw.id=GPU-1} = 1"}
		for _, holder := range holders {
			lines = append(lines, time+" {k8s.node.name=n1, "+holder+"} gpu.device.holder {hw.id=GPU-1} = 1")
		}
		return strings.Join(lines, "\n")
	}
	m := storagetest.NewMemory(nil)
	before, _ := startOn(t, m, processortest.NewNopSettings(metadata.Type))
	feed(t, before, at("10s"))
	feed(t, before, at("20s"))
	require.NoError(t, before.Shutdown(context.Background()))
	after, sink := startOn(t, storagetest.NewMemory(m.Values()), processortest.NewNopSettings(metadata.Type))
	feed(t, after, at("30s"))
	assert.Equal(t, len(holders), strings.Count(rendered(sink), "hw.id=GPU-1} = 4 s since 10s"), rendered(sink))
}

func TestCountersRestartAfterACrash(t *testing.T) {
	m := storagetest.NewMemory(nil)
	first, _ := startOn(t, m, processortest.NewNopSettings(metadata.Type))
	feed(t, first, held(10, 20))
	require.NoError(t, first.Shutdown(context.Background()))

	m = storagetest.NewMemory(m.Values())
	second, _ := startOn(t, m, processortest.NewNopSettings(metadata.Type))
	feed(t, second, held(30, 40))
	// The third processor starts from the state that the second processor stored while it was
	// running, as if the second processor had been killed.
	third, sink := startOn(t, storagetest.NewMemory(m.Values()), processortest.NewNopSettings(metadata.Type))
	feed(t, third, held(50, 60))
	got := rendered(sink)
	assert.Contains(t, got, "gpu.unobserved.time {hw.id=GPU-1} = 0 s since 50s")
	assert.Contains(t, got, "k8s.container.gpu.allocated.time {gpu.usage.estimated=false, hw.id=GPU-1} = 10 s since 50s")
}

func TestCountersRestartIfTheStorageFailsToDeleteThem(t *testing.T) {
	m := storagetest.NewMemory(nil)
	first, _ := startOn(t, m, processortest.NewNopSettings(metadata.Type))
	feed(t, first, held(10, 20))
	require.NoError(t, first.Shutdown(context.Background()))
	second, sink := startOn(t, readOnly{storagetest.NewMemory(m.Values())}, processortest.NewNopSettings(metadata.Type))
	feed(t, second, held(30, 40))
	assert.Contains(t, rendered(sink), "gpu.unobserved.time {hw.id=GPU-1} = 0 s since 30s")
}

func TestStateThatCannotBeUsedIsDropped(t *testing.T) {
	const index = `{"version":1,"places":["/n1"]}`
	for name, values := range map[string]map[string]string{
		"not JSON":               {"places": index, "place//n1": "x"},
		"another version":        {"places": index, "place//n1": `{"version":2}`},
		"a board without an ID":  {"places": index, "place//n1": `{"version":1,"node":"n1","boards":[{"last":5}]}`},
		"a board without a time": {"places": index, "place//n1": `{"version":1,"node":"n1","boards":[{"id":"GPU-1"}]}`},
		"a board twice":          {"places": index, "place//n1": `{"version":1,"node":"n1","boards":[{"id":"GPU-1","last":5},{"id":"GPU-1","last":5}]}`},
		"negative time":          {"places": index, "place//n1": `{"version":1,"node":"n1","boards":[{"id":"GPU-1","last":5,"unobserved":{"start":1,"value":-1}}]}`},
		"a start after the last sample": {"places": index, "place//n1": `{"version":1,"node":"n1","boards":[{"id":"GPU-1","last":5,
			"accounts":[{"device":"GPU-1","pod":"a","allocated":{"start":6,"value":1}}]}]}`},
		"an account twice": {"places": index, "place//n1": `{"version":1,"node":"n1","boards":[{"id":"GPU-1","last":5,
			"accounts":[{"device":"GPU-1","pod":"a","allocated":{"start":1,"value":1}},{"device":"GPU-1","pod":"a","allocated":{"start":1,"value":1}}]}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			tel := componenttest.NewTelemetry()
			set := processortest.NewNopSettings(metadata.Type)
			set.TelemetrySettings = tel.NewTelemetrySettings()
			p, sink := startOn(t, storagetest.NewMemory(values), set)
			feed(t, p, held(10, 20))
			assert.Contains(t, rendered(sink), "gpu.unobserved.time {hw.id=GPU-1} = 0 s since 10s")
			metadatatest.AssertEqualProcessorGpuUsageStorageErrors(t, tel,
				[]metricdata.DataPoint[int64]{{Value: 1}}, metricdatatest.IgnoreTimestamp())
		})
	}
}

func TestASeriesWithoutTimeAndABoardWithoutSamplesAreDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, sink := newTestProcessor(t, testConfig(), processortest.NewNopSettings(metadata.Type))
		feed(t, p, held(10, 20))
		time.Sleep(9 * time.Minute)
		feed(t, p, held(560))
		assert.Contains(t, rendered(sink), "9m20s {k8s.node.name=n1, k8s.pod.name=a} k8s.container.gpu.allocated.time {gpu.usage.estimated=false, hw.id=GPU-1} = 10 s since 10s",
			"the series is kept, although it had no recent time")
		time.Sleep(2 * time.Minute)
		feed(t, p, held(680))
		feed(t, p, held(690))
		got := rendered(sink)
		assert.Contains(t, got, "11m30s {k8s.node.name=n1, k8s.pod.name=a} k8s.container.gpu.allocated.time {gpu.usage.estimated=false, hw.id=GPU-1} = 10 s since 11m20s")
		assert.Contains(t, got, "11m30s {k8s.node.name=n1} gpu.unobserved.time {hw.id=GPU-1} = 660 s since 10s")
		time.Sleep(25 * time.Hour)
		feed(t, p, strings.ReplaceAll(held(700), "GPU-1", "GPU-2"))
		feed(t, p, held(710))
		feed(t, p, held(720))
		assert.Contains(t, rendered(sink), "12m0s {k8s.node.name=n1} gpu.unobserved.time {hw.id=GPU-1} = 0 s since 11m50s")
	})
}

func TestAMissingStorageFailsTheStart(t *testing.T) {
	cfg := testConfig()
	cfg.Storage = &storagetest.ID
	p, err := NewFactory().CreateMetrics(context.Background(), processortest.NewNopSettings(metadata.Type), cfg, consumertest.NewNop())
	require.NoError(t, err)
	require.ErrorContains(t, p.Start(context.Background(), componenttest.NewNopHost()), `storage is "memory_storage": must be an extension that service::extensions lists`)
	require.NoError(t, p.Shutdown(context.Background()))
}
