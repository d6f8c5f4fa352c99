package gpusynthesizerprocessor

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
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor/internal/metadatatest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/storagetest"
)

// startOn starts a processor that uses the given storage.
func startOn(t *testing.T, m *storagetest.Memory, set processor.Settings) (processor.Metrics, *consumertest.MetricsSink) {
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

func feed(t *testing.T, p processor.Metrics, seconds int64, body string) {
	t.Helper()
	require.NoError(t, p.ConsumeMetrics(context.Background(), onPoints(scrape{seconds, parse(t, body)})))
}

// The rendered function returns all output as text.
func rendered(sink *consumertest.MetricsSink) string {
	var b strings.Builder
	for _, md := range sink.AllMetrics() {
		b.WriteString(render(md))
	}
	return b.String()
}

// afterRestart is a sample time, in seconds, that is later than all restarts in these tests.
const afterRestart = 1000

// nodeKey is the storage key for the state of node n1.
const nodeKey = "place/n1/n1"

func TestAnXIDThatOccursDuringARestartIsCounted(t *testing.T) {
	m := storagetest.NewMemory(nil)
	before, _ := startOn(t, m, processortest.NewNopSettings(metadata.Type))
	feed(t, before, 10, `DCGM_FI_DEV_XID_ERRORS{UUID="GPU-1",Hostname="n1"} 0
DCGM_EXP_XID_ERRORS_TOTAL{UUID="GPU-2",Hostname="n1",GPU_I_ID="7",xid="31"} 4`)
	feed(t, before, 20, `DCGM_FI_DEV_XID_ERRORS{UUID="GPU-1",Hostname="n1"} 31
DCGM_EXP_XID_ERRORS_TOTAL{UUID="GPU-2",Hostname="n1",GPU_I_ID="7",xid="31"} 5`)
	// A process that is killed cannot write its state at shutdown. The next process reads the state
	// that was written earlier.

	after, sink := startOn(t, storagetest.NewMemory(m.Values()), processortest.NewNopSettings(metadata.Type))
	feed(t, after, afterRestart, `DCGM_FI_DEV_XID_ERRORS{UUID="GPU-1",Hostname="n1"} 79
DCGM_EXP_XID_ERRORS_TOTAL{UUID="GPU-2",Hostname="n1",GPU_I_ID="7",xid="31"} 7`)
	got := rendered(sink)
	assert.Contains(t, got, "{error.type=xid_31, gpu.event.source=last_code, hw.id=GPU-1} = 1 {error} since 10s", "the error was counted before the restart and is not counted again")
	assert.Contains(t, got, "{error.type=xid_79, gpu.event.source=last_code, hw.id=GPU-1} = 1 {error} since ")
	assert.Contains(t, got, "{error.type=xid_31, gpu.event.source=counter, gpu.mig.gpu_instance.id=7, hw.id=GPU-2/gi7, hw.parent=GPU-2} = 3 {error} since 10s")
}

func TestAnExporterRestartBeforeACollectorRestartIsStored(t *testing.T) {
	m := storagetest.NewMemory(nil)
	before, _ := startOn(t, m, processortest.NewNopSettings(metadata.Type))
	for i, rows := range []string{
		`DCGM_EXP_XID_ERRORS_TOTAL{UUID="GPU-1",Hostname="n1",xid="13"} 4`,
		`DCGM_EXP_XID_ERRORS_TOTAL{UUID="GPU-1",Hostname="n1",xid="13"} 5`,
		`DCGM_EXP_XID_ERRORS_TOTAL{UUID="GPU-1",Hostname="n1"} 0`,
		`DCGM_EXP_XID_ERRORS_TOTAL{UUID="GPU-1",Hostname="n1"} 0`,
	} {
		feed(t, before, int64(10*(i+1)), rows)
	}
	assert.Equal(t, 3, m.Writes(), "the reset is written once")

	after, sink := startOn(t, storagetest.NewMemory(m.Values()), processortest.NewNopSettings(metadata.Type))
	feed(t, after, afterRestart, `DCGM_EXP_XID_ERRORS_TOTAL{UUID="GPU-1",Hostname="n1",xid="13"} 5`)
	assert.Contains(t, rendered(sink), "{error.type=xid_13, gpu.event.source=counter, hw.id=GPU-1} = 6 {error} since 10s", "1 before the exporter's restart and 5 after it")
}

func TestStateIsWrittenOnlyWhenItChanged(t *testing.T) {
	m := storagetest.NewMemory(nil)
	p, _ := startOn(t, m, processortest.NewNopSettings(metadata.Type))
	for i, code := range []string{"0", "0", "31", "31", "31"} {
		feed(t, p, int64(10*(i+1)), `DCGM_FI_DEV_GPU_TEMP{UUID="GPU-1"} 30
DCGM_FI_DEV_XID_ERRORS{UUID="GPU-1"} `+code)
	}
	assert.Equal(t, 2, m.Writes())
}

func TestStorageFailuresAreLoggedOnceAndCounted(t *testing.T) {
	tel := componenttest.NewTelemetry()
	core, logs := observer.New(zap.InfoLevel)
	set := processortest.NewNopSettings(metadata.Type)
	set.TelemetrySettings = tel.NewTelemetrySettings()
	set.Logger = zap.New(core)
	m := storagetest.NewMemory(nil)
	m.Fail(errors.New("disk full"))
	p, sink := startOn(t, m, set)
	for i, code := range []string{"0", "31", "43"} {
		feed(t, p, int64(10*(i+1)), `DCGM_FI_DEV_XID_ERRORS{UUID="GPU-1"} `+code)
	}
	m.Fail(nil)
	feed(t, p, 40, `DCGM_FI_DEV_XID_ERRORS{UUID="GPU-1"} 79`)
	assert.Contains(t, rendered(sink), "error.type=xid_79", "samples are still sent")
	var said []string
	for _, e := range logs.All() {
		said = append(said, e.Message)
	}
	assert.Equal(t, []string{
		"Some of the stored XID state cannot be used. Counting starts again for these devices.",
		"XID state cannot be stored.",
		"XID state can be stored again.",
	}, said)
	metadatatest.AssertEqualProcessorGpuSynthesizerStorageErrors(t, tel,
		[]metricdata.DataPoint[int64]{{Value: 4}}, metricdatatest.IgnoreTimestamp())
}

func TestStateOfThePreviousVersionIsRead(t *testing.T) {
	m := storagetest.NewMemory(nil)
	m.PutRaw("xid", `{"version":1,"devices":[{"host":"n1","node":"n1","board":"GPU-1","source":1,"last":31,"since":10000000000,`+
		`"codes":[{"code":31,"start":10000000000,"count":1}]}]}`+"s_\"\x1c")
	p, sink := startOn(t, m, processortest.NewNopSettings(metadata.Type))
	feed(t, p, afterRestart, `DCGM_FI_DEV_XID_ERRORS{UUID="GPU-1",Hostname="n1"} 31`)
	assert.Contains(t, rendered(sink), "{error.type=xid_31, gpu.event.source=last_code, hw.id=GPU-1} = 1 {error} since 10s")
	assert.Contains(t, m.Values()[nodeKey], `"board":"GPU-1"`)
	assert.NotContains(t, m.Raw(), stateOfAllKey, "otherwise it would be restored again")
}

// If the state of one node changes, only the state of that node must be written.
func TestEachNodeHasASeparateStoredValue(t *testing.T) {
	m := storagetest.NewMemory(nil)
	p, _ := startOn(t, m, processortest.NewNopSettings(metadata.Type))
	addErrors := func(s int64, node string, n int) {
		feed(t, p, s, fmt.Sprintf(`DCGM_EXP_XID_ERRORS_TOTAL{UUID="GPU-%[1]s",Hostname="%[1]s",xid="31"} %[2]d`, node, n))
	}
	for n := range 5 {
		addErrors(10, fmt.Sprint("n", n), 1)
	}
	before := m.Raw()
	assert.Len(t, before, 6, "five nodes and the list of nodes")
	addErrors(20, "n1", 2)
	for key, value := range m.Raw() {
		if key == nodeKey {
			assert.NotEqual(t, before[key], value)
			assert.NotContains(t, value, "GPU-n2")
		} else {
			assert.Equal(t, before[key], value)
		}
	}
	require.NoError(t, p.Shutdown(t.Context()))
	after, sink := startOn(t, storagetest.NewMemory(m.Values()), processortest.NewNopSettings(metadata.Type))
	for n := range 5 {
		feed(t, after, afterRestart, fmt.Sprintf(`DCGM_EXP_XID_ERRORS_TOTAL{UUID="GPU-n%[1]d",Hostname="n%[1]d",xid="31"} 3`, n))
	}
	got := rendered(sink)
	assert.Equal(t, 5, strings.Count(got, " = 2 {error}"), "n1 had one error and has one more, and each other node has two: %s", got)
}

// If the process crashes while it converts the state of all nodes to one value per node, both forms
// are stored. In that case, the node's own value is newer.
func TestTheValueOfANodeReplacesTheValueOfAllNodes(t *testing.T) {
	state := func(count int) string {
		return fmt.Sprintf(`{"version":1,"devices":[{"host":"n1","node":"n1","board":"GPU-1","source":3,"since":10000000000,`+
			`"totals":{"31":%[1]d},"codes":[{"code":31,"start":10000000000,"count":%[1]d}]}]}`, count)
	}
	m := storagetest.NewMemory(map[string]string{stateOfAllKey: state(1), "places": `{"version":1,"places":["n1/n1","n2/n2"]}`, nodeKey: state(4), "place/n2/n2": strings.ReplaceAll(state(1), "n1", "n2")})
	p, sink := startOn(t, m, processortest.NewNopSettings(metadata.Type))
	feed(t, p, afterRestart, xidTotal(5))
	assert.Contains(t, rendered(sink), fmt.Sprintf(oneXID, 5))
	assert.NotContains(t, m.Raw(), stateOfAllKey)
	assert.JSONEq(t, `{"version":1,"places":["n1/n1","n2/n2"]}`, m.Values()["places"])
}

func TestTheStoredValueOfARemovedNodeIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := storagetest.NewMemory(nil)
		p, _ := startOn(t, m, processortest.NewNopSettings(metadata.Type))
		for _, node := range []string{"n1", "n2"} {
			feed(t, p, 10, fmt.Sprintf(`DCGM_FI_DEV_XID_ERRORS{UUID="GPU-1",Hostname=%q} 0`, node))
			feed(t, p, 20, fmt.Sprintf(`DCGM_FI_DEV_XID_ERRORS{UUID="GPU-1",Hostname=%q} 31`, node))
		}
		require.Contains(t, m.Values(), nodeKey)
		time.Sleep(61 * time.Minute)
		feed(t, p, 3600, `DCGM_FI_DEV_XID_ERRORS{UUID="GPU-1",Hostname="n2"} 31`)
		assert.NotContains(t, m.Values(), nodeKey)
		assert.Contains(t, m.Values(), "place/n2/n2")
	})
}

func TestUnusableStateIsDropped(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON":             "x",
		"another version":     `{"version":2}`,
		"no board":            `{"version":1,"devices":[{"since":1}]}`,
		"never watched":       `{"version":1,"devices":[{"board":"GPU-1"}]}`,
		"a code that is none": `{"version":1,"devices":[{"board":"GPU-1","since":1,"codes":[{"code":100000,"count":1}]}]}`,
		"a negative count":    `{"version":1,"devices":[{"board":"GPU-1","since":1,"codes":[{"code":31,"count":-1}]}]}`,
		"codes twice":         `{"version":1,"devices":[{"board":"GPU-1","since":1,"codes":[{"code":31,"count":1},{"code":31,"count":1}]}]}`,
		"codes out of order":  `{"version":1,"devices":[{"board":"GPU-1","since":1,"codes":[{"code":43,"count":1},{"code":31,"count":1}]}]}`,
		"a negative total":    `{"version":1,"devices":[{"board":"GPU-1","since":1,"totals":{"31":-1}}]}`,
		"an unknown source":   `{"version":1,"devices":[{"board":"GPU-1","since":1,"source":9}]}`,
		"an impossible code":  `{"version":1,"devices":[{"board":"GPU-1","since":1,"last":-5}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			for _, values := range []map[string]string{{stateOfAllKey: text}, {"places": `{"version":1,"places":["n1/n1"]}`, nodeKey: text}} {
				p, sink := startOn(t, storagetest.NewMemory(values), processortest.NewNopSettings(metadata.Type))
				feed(t, p, afterRestart, `DCGM_FI_DEV_XID_ERRORS{UUID="GPU-1"} 79`)
				assert.Contains(t, rendered(sink), "hw.errors {hw.id=GPU-1} = 0 {error}", "the first scrape is a baseline")
			}
		})
	}
}

// Without a retry, an error that was already counted would be counted again after the next restart.
func TestAFailedWriteIsRetriedWithoutAnotherChange(t *testing.T) {
	m := storagetest.NewMemory(nil)
	before, _ := startOn(t, m, processortest.NewNopSettings(metadata.Type))
	feed(t, before, 10, `DCGM_FI_DEV_XID_ERRORS{UUID="GPU-1"} 0`)
	m.Fail(errors.New("disk full"))
	feed(t, before, 20, `DCGM_FI_DEV_XID_ERRORS{UUID="GPU-1"} 31`)
	m.Fail(nil)
	feed(t, before, 30, `DCGM_FI_DEV_XID_ERRORS{UUID="GPU-1"} 31`)

	after, sink := startOn(t, storagetest.NewMemory(m.Values()), processortest.NewNopSettings(metadata.Type))
	feed(t, after, afterRestart, `DCGM_FI_DEV_XID_ERRORS{UUID="GPU-1"} 31`)
	assert.Contains(t, rendered(sink), "{error.type=xid_31, gpu.event.source=last_code, hw.id=GPU-1} = 1 {error} since 10s")
}

func TestStartFailsIfTheExtensionIsNotAStorage(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	cfg.Storage = &storagetest.ID
	p, err := NewFactory().CreateMetrics(context.Background(), processortest.NewNopSettings(metadata.Type), cfg, consumertest.NewNop())
	require.NoError(t, err)
	assert.ErrorContains(t, p.Start(context.Background(), componenttest.NewNopHost()),
		`storage is "memory_storage": must be an extension that service::extensions lists`)
}

func TestTheStorageIsClosedOnce(t *testing.T) {
	m := storagetest.NewMemory(nil)
	p, _ := startOn(t, m, processortest.NewNopSettings(metadata.Type))
	require.NoError(t, p.Shutdown(context.Background()))
	assert.True(t, m.Closed())
	require.NoError(t, p.Shutdown(context.Background()))
}

func TestAFailedBoardRemainsFailedAfterARestart(t *testing.T) {
	m := storagetest.NewMemory(nil)
	last := func(code int) string {
		return fmt.Sprintf(`DCGM_FI_DEV_XID_ERRORS{UUID="GPU-1",Hostname="n1"} %d`, code)
	}
	p, _ := startOn(t, m, processortest.NewNopSettings(metadata.Type))
	feed(t, p, 10, last(0))
	feed(t, p, 20, last(95))
	require.NoError(t, p.Shutdown(t.Context()))
	p, sink := startOn(t, m, processortest.NewNopSettings(metadata.Type))
	feed(t, p, afterRestart, last(95))
	assert.Contains(t, rendered(sink), "hw.state=failed} = 1")
	sink.Reset()
	feed(t, p, afterRestart+10, last(0))
	assert.Contains(t, rendered(sink), "hw.state=ok} = 1")
}

func TestAMissingCodeOfAnInstanceDoesNotEndTheFailedStateAfterARestart(t *testing.T) {
	m := storagetest.NewMemory(nil)
	const (
		first  = `DCGM_FI_DEV_XID_ERRORS{UUID="GPU-1",GPU_I_ID="1",Hostname="n1"} %d` + "\n"
		second = `DCGM_FI_DEV_XID_ERRORS{UUID="GPU-1",GPU_I_ID="2",Hostname="n1"} 0` + "\n"
	)
	p, _ := startOn(t, m, processortest.NewNopSettings(metadata.Type))
	feed(t, p, 10, fmt.Sprintf(first, 0)+second)
	feed(t, p, 20, fmt.Sprintf(first, 48)+second)
	require.NoError(t, p.Shutdown(t.Context()))
	p, sink := startOn(t, m, processortest.NewNopSettings(metadata.Type))
	feed(t, p, afterRestart, second)
	assert.Contains(t, rendered(sink), "hw.state=failed} = 1")
	sink.Reset()
	feed(t, p, afterRestart+10, fmt.Sprintf(first, 0)+second)
	assert.Contains(t, rendered(sink), "hw.state=ok} = 1")
}
