package gpueventsconnector

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
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/connector/connectortest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-gpu/otelcol-gpu/connector/gpueventsconnector/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/connector/gpueventsconnector/internal/metadatatest"
	"github.com/otelcol-gpu/otelcol-gpu/internal/events"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/enumtest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/goldentest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/storagetest"
)

const (
	before = "10s {k8s.node.name=n1} hw.errors {hw.id=GPU-1, error.type=xid_31} = 1\n"
	after  = "20s {k8s.node.name=n1} hw.errors {hw.id=GPU-1, error.type=xid_31} = 3\n"
)

// startConnector starts a connector that sends its logs to the consume function. If the memory
// argument is not nil, the connector stores its state in the given storage.
func startConnector(t *testing.T, memory *storagetest.Memory, consume func(plog.Logs) error) *gpuEvents {
	t.Helper()
	cfg := createDefaultConfig().(*Config)
	host := componenttest.NewNopHost()
	if memory != nil {
		for id := range memory.GetExtensions() {
			cfg.Storage = &id
		}
		host = memory
	}
	next, err := consumer.NewLogs(func(_ context.Context, ld plog.Logs) error { return consume(ld) })
	require.NoError(t, err)
	c, err := newConnector(connectortest.NewNopSettings(metadata.Type), cfg, next)
	require.NoError(t, err)
	require.NoError(t, c.Start(t.Context(), host))
	return c
}

func batch(t *testing.T, text string) pmetric.Metrics {
	t.Helper()
	return goldentest.Points(t, text, false)
}

func TestAnErrorOfTheLogsPipelineNeverReachesTheMetricsPipeline(t *testing.T) {
	asked := 0
	c := startConnector(t, nil, func(plog.Logs) error { asked++; return errors.New("full") })
	require.NoError(t, c.ConsumeMetrics(t.Context(), batch(t, before)))
	require.NoError(t, c.ConsumeMetrics(t.Context(), batch(t, after)))
	assert.Equal(t, 1, asked)
	require.NoError(t, c.Shutdown(t.Context()))
}

func TestARecordHasNamePlaceAndSeverity(t *testing.T) {
	var got, end plog.Logs
	c := startConnector(t, nil, func(ld plog.Logs) error { got, end = end, ld; return nil })
	require.NoError(t, c.ConsumeMetrics(t.Context(), batch(t, before)))
	require.NoError(t, c.ConsumeMetrics(t.Context(), batch(t, after)))
	require.NoError(t, c.Shutdown(t.Context()))
	require.Equal(t, 1, got.LogRecordCount())
	rl := got.ResourceLogs().At(0)
	assert.Equal(t, map[string]any{"k8s.node.name": "n1"}, rl.Resource().Attributes().AsRaw())
	r := rl.ScopeLogs().At(0).LogRecords().At(0)
	assert.Equal(t, "gpu.xid", r.EventName())
	assert.Equal(t, plog.SeverityNumberWarn, r.SeverityNumber())
	assert.Equal(t, map[string]any{
		"hw.id": "GPU-1", "hw.type": "gpu", "error.type": "xid_31", "gpu.event.count": int64(2),
		"gpu.xid.meaning": "GPU memory page fault", "gpu.xid.action": "restart_app", "gpu.catalogue.date": "2025-09-30",
	}, r.Attributes().AsRaw())

	require.Equal(t, 1, end.LogRecordCount())
	rl = end.ResourceLogs().At(0)
	assert.Equal(t, map[string]any{"k8s.node.name": "n1"}, rl.Resource().Attributes().AsRaw())
	r = rl.ScopeLogs().At(0).LogRecords().At(0)
	assert.Equal(t, "gpu.xid.incident", r.EventName())
	assert.Equal(t, pcommon.Timestamp(20e9), r.Timestamp())
	assert.Equal(t, plog.SeverityNumberWarn, r.SeverityNumber())
	assert.Equal(t, "Node n1: 2 XID errors (31) on 1 devices within 0 s. Strongest action: restart_app.", r.Body().Str())
	assert.Equal(t, map[string]any{
		"gpu.xid.codes": []any{"31"}, "gpu.incident.devices": []any{"GPU-1"}, "gpu.xid.action": "restart_app",
		"gpu.event.count": int64(2), "gpu.event.duration": 0.0,
	}, r.Attributes().AsRaw())
}

// The Resource of a log record must contain all attributes of the holder. The record itself must
// contain the attributes that describe how the holder uses the device.
func TestARecordNamesTheOneHolder(t *testing.T) {
	var got, end plog.Logs
	c := startConnector(t, nil, func(ld plog.Logs) error { got, end = end, ld; return nil })
	node, pod := "{k8s.node.name=n1, host.type=a3}", "{k8s.node.name=n1, host.type=a3, k8s.namespace.name=ns, k8s.pod.name=p, k8s.container.name=c, k8s.job.name=j}"
	for s := range 2 {
		require.NoError(t, c.ConsumeMetrics(t.Context(), batch(t, fmt.Sprintf(
			"%[1]ds %[2]s hw.errors {hw.id=GPU-1, error.type=xid_95, gpu.event.source=last_code} = %[3]d\n"+
				"%[1]ds %[4]s gpu.device.holder {hw.id=GPU-1, gpu.holder.source=labels, gpu.sharing.strategy=time_slicing, k8s.resourceclaim.name=rc} = 1\n",
			10*(s+1), node, s, pod))))
	}
	require.NoError(t, c.Shutdown(t.Context()))
	require.Equal(t, 1, got.LogRecordCount())
	rl := got.ResourceLogs().At(0)
	assert.Equal(t, map[string]any{
		"k8s.node.name": "n1", "host.type": "a3", "k8s.namespace.name": "ns", "k8s.pod.name": "p", "k8s.container.name": "c", "k8s.job.name": "j",
	}, rl.Resource().Attributes().AsRaw())
	r := rl.ScopeLogs().At(0).LogRecords().At(0)
	assert.Equal(t, plog.SeverityNumberError, r.SeverityNumber())
	assert.Subset(t, r.Attributes().AsRaw(), map[string]any{
		"hw.id": "GPU-1", "gpu.event.source": "last_code", "k8s.resourceclaim.name": "rc", "gpu.xid.action": "reset_gpu",
	})
	assert.Equal(t, map[string]any{"k8s.node.name": "n1", "host.type": "a3"}, end.ResourceLogs().At(0).Resource().Attributes().AsRaw(), "an incident belongs to the node")
}

// xidsAt returns a sample that reports n XID errors. The timestamp of the sample is the current
// time plus the duration in the ahead argument.
func xidsAt(t *testing.T, ahead time.Duration, n int) pmetric.Metrics {
	t.Helper()
	return batch(t, fmt.Sprintf("%ds {k8s.node.name=n1} hw.errors {hw.id=GPU-1, error.type=xid_31} = %d\n", time.Now().Add(ahead).Unix(), n))
}

func TestFutureSamplesAreDroppedCountedAndLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel := componenttest.NewTelemetry()
		core, logs := observer.New(zap.InfoLevel)
		set := connectortest.NewNopSettings(metadata.Type)
		set.TelemetrySettings = tel.NewTelemetrySettings()
		set.Logger = zap.New(core)
		records := &consumertest.LogsSink{}
		c, err := newConnector(set, createDefaultConfig().(*Config), records)
		require.NoError(t, err)
		require.NoError(t, c.Start(t.Context(), componenttest.NewNopHost()))
		for n := range 5 {
			require.NoError(t, c.ConsumeMetrics(t.Context(), xidsAt(t, 0, n)))
			require.NoError(t, c.ConsumeMetrics(t.Context(), xidsAt(t, 24*time.Hour, n)))
			time.Sleep(70 * time.Second)
		}
		xids := func() (n int) {
			for _, ld := range records.AllLogs() {
				for _, rl := range ld.ResourceLogs().All() {
					if rl.ScopeLogs().At(0).LogRecords().At(0).EventName() == events.XID {
						n++
					}
				}
			}
			return n
		}
		assert.Equal(t, 4, xids())
		assert.Equal(t, 1, logs.FilterMessageSnippet("more than a minute ahead").Len())
		for range 3 { // the node's clock was set back
			require.NoError(t, c.ConsumeMetrics(t.Context(), xidsAt(t, -time.Hour, 9)))
			time.Sleep(50 * time.Second)
		}
		require.NoError(t, c.ConsumeMetrics(t.Context(), xidsAt(t, -time.Hour, 10)))
		assert.Equal(t, 5, xids())
		assert.Equal(t, 1, logs.FilterMessageSnippet("a clock was set back").Len())
		of := func(reason string, n int64) metricdata.DataPoint[int64] {
			return metricdata.DataPoint[int64]{Value: n, Attributes: attribute.NewSet(attribute.String("reason", reason))}
		}
		metadatatest.AssertEqualConnectorGpuEventsFramesSkipped(t, tel,
			[]metricdata.DataPoint[int64]{of("future", 5), of("clock_set_back", 1)}, metricdatatest.IgnoreTimestamp())
		require.NoError(t, c.Shutdown(t.Context()))
		require.NoError(t, tel.Shutdown(context.Background()))
	})
}

// Earlier versions of the connector could store timestamps that were in the future.
func TestAStoredFutureTimeSuppressesEventsForAtMostMaxGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tomorrow := time.Now().Add(24 * time.Hour).UnixNano()
		memory := storagetest.NewMemory(map[string]string{
			"places": `{"version":1,"places":["/n1"]}`,
			"place//n1": fmt.Sprintf(`{"version":1,"place":{"Node":"n1"},"known":{"Host":"","Seen":%[1]d,"Devices":{"GPU-1":{"Seen":%[1]d,`+
				`"Errors":{"xid_31":{"Time":%[1]d,"Value":3}}}}}}`, tomorrow),
		})
		told := 0
		c := startConnector(t, memory, func(ld plog.Logs) error { told += ld.LogRecordCount(); return nil })
		for n := range 12 {
			require.NoError(t, c.ConsumeMetrics(t.Context(), xidsAt(t, 0, 3)))
			assert.Zero(t, told, "%d s", 10*n)
			time.Sleep(10 * time.Second)
		}
		require.NoError(t, c.ConsumeMetrics(t.Context(), xidsAt(t, 0, 4)))
		assert.Equal(t, 1, told)
		require.NoError(t, c.Shutdown(t.Context()))
	})
}

// The connector must send events about an exporter even if the Resource of gpu.exporter.up contains
// no cluster, node, or host.
func TestAnExporterInAnUnknownPlaceHasEvents(t *testing.T) {
	var got plog.Logs
	c := startConnector(t, nil, func(ld plog.Logs) error { got = ld; return nil })
	for _, at := range []string{"10s", "100s"} {
		require.NoError(t, c.ConsumeMetrics(t.Context(), batch(t, at+" {} gpu.exporter.up {url.full=http://e} = 0\n")))
	}
	require.NoError(t, c.Shutdown(t.Context()))
	require.Equal(t, 1, got.LogRecordCount())
	assert.Equal(t, "gpu.exporter.down", got.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0).EventName())
}

// When a process is killed, Shutdown does not run and cannot store the state.
func TestACrashRepeatsNoRecord(t *testing.T) {
	memory := storagetest.NewMemory(nil)
	told := 0
	count := func(ld plog.Logs) error { told += ld.LogRecordCount(); return nil }
	killed := startConnector(t, memory, count)
	require.NoError(t, killed.ConsumeMetrics(t.Context(), batch(t, before)))
	require.NoError(t, killed.ConsumeMetrics(t.Context(), batch(t, after)))
	require.Equal(t, 1, told)
	c := startConnector(t, storagetest.NewMemory(memory.Values()), count)
	require.NoError(t, c.ConsumeMetrics(t.Context(), batch(t, after)))
	require.NoError(t, c.Shutdown(t.Context()))
	require.Equal(t, 1, told)
	require.NoError(t, killed.Shutdown(t.Context()))
}

// Repeating a record after a crash is better than losing the record.
func TestRecordsAreSentEvenIfTheStorageFails(t *testing.T) {
	memory := storagetest.NewMemory(nil)
	told := 0
	c := startConnector(t, memory, func(ld plog.Logs) error { told += ld.LogRecordCount(); return nil })
	require.NoError(t, c.ConsumeMetrics(t.Context(), batch(t, before)))
	memory.Fail(errors.New("disk full"))
	require.NoError(t, c.ConsumeMetrics(t.Context(), batch(t, after)))
	assert.Equal(t, 1, told)
	memory.Fail(nil)
	require.NoError(t, c.Shutdown(t.Context()))
}

func TestTheStateIsStoredBeforeRecordsAreSent(t *testing.T) {
	memory := storagetest.NewMemory(nil)
	stored := 0
	c := startConnector(t, memory, func(plog.Logs) error { stored = memory.Writes(); return nil })
	require.NoError(t, c.ConsumeMetrics(t.Context(), batch(t, before)))
	require.Zero(t, memory.Writes())
	require.NoError(t, c.ConsumeMetrics(t.Context(), batch(t, after)))
	assert.Positive(t, stored)
	require.NoError(t, c.Shutdown(t.Context()))

	// After a restart, the connector must not repeat the record.
	c = startConnector(t, memory, func(plog.Logs) error { return errors.New("nothing happened") })
	require.NoError(t, c.ConsumeMetrics(t.Context(), batch(t, after)))
	require.NoError(t, c.Shutdown(t.Context()))
}

func TestInvalidSettingsAreNamedInTheError(t *testing.T) {
	cfg := createDefaultConfig()
	require.NoError(t, cfg.(*Config).Validate())
	require.ErrorContains(t, cfg.(*Config).Unmarshal(confmap.NewFromStringMap(map[string]any{"intervall": "1m"})), "interval")
	cfg.(*Config).For = 60
	require.ErrorContains(t, cfg.(*Config).Validate(), "for is 60ns")
}

// In this test, the connector receives pdata metrics instead of frames. The limit is 10% above the
// number of allocations that was measured when this test was written.
func TestAllocationsOfANodesScrapeAreLimited(t *testing.T) {
	c := startConnector(t, nil, func(plog.Logs) error { return nil })
	const runs = 10
	var batches []pmetric.Metrics
	for i := range runs + 2 {
		var b strings.Builder
		for g := range 56 {
			for _, sample := range []string{
				"hw.errors {error.type=xid_31, hw.id=GPU-%d} = 1", "gpu.clock.event.active {gpu.clock.event.reason=hw_thermal, hw.id=GPU-%d} = 0",
				"hw.temperature {hw.sensor_location=gpu, hw.id=GPU-%d} = 40", "hw.gpu.utilization {hw.gpu.task=general, hw.id=GPU-%d} = 0.5",
			} {
				fmt.Fprintf(&b, "%ds {k8s.node.name=n1} "+sample+"\n", 10+i, g)
			}
		}
		batches = append(batches, batch(t, b.String()))
	}
	next := 0
	consume := func() {
		require.NoError(t, c.ConsumeMetrics(t.Context(), batches[next]))
		next++
	}
	consume()
	assert.Less(t, testing.AllocsPerRun(runs, consume), 291.0)
	require.NoError(t, c.Shutdown(t.Context()))
}

func TestEveryReasonForSkippingAScrapeIsDocumented(t *testing.T) {
	assert.ElementsMatch(t, enumtest.Documented(t, "reason"), enumtest.Names(0, events.NumSkips))
}
