package gpusynthesizerprocessor

import (
	"context"
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
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor/internal/metadatatest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/storagetest"
)

const oneXID = "{error.type=xid_31, gpu.event.source=counter, hw.id=GPU-1} = %d {error}"

func xidTotal(n int) string {
	return fmt.Sprintf(`DCGM_EXP_XID_ERRORS_TOTAL{UUID="GPU-1",Hostname="n1",xid="31"} %d`, n)
}

// A sample that is older than a previous sample is late, for example because it waited in a queue.
// If no newer sample arrives for more than 90 s, the clock must have been set back. From then on,
// errors must be counted again, even though the clock does not reach the old time until an hour
// later.
func TestXIDsAreCountedAfterAClockWasSetBack(t *testing.T) {
	for name, restart := range map[string]bool{"went on": false, "restarted": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				core, logs := observer.New(zap.InfoLevel)
				set := processortest.NewNopSettings(metadata.Type)
				set.Logger = zap.New(core)
				m := storagetest.NewMemory(nil)
				p, sink := startOn(t, m, set)
				feed(t, p, 3600, xidTotal(4))
				feed(t, p, 3630, xidTotal(5))
				assert.Contains(t, rendered(sink), fmt.Sprintf(oneXID+" since 3600s", 1))
				if restart {
					require.NoError(t, p.Shutdown(t.Context()))
					p, sink = startOn(t, storagetest.NewMemory(m.Values()), set)
				}
				for n := range int64(4) { // the clock is set back by an hour, and another error occurs
					time.Sleep(30 * time.Second)
					feed(t, p, 60+30*n, xidTotal(6))
				}
				assert.Empty(t, logs.All())
				sink.Reset()
				time.Sleep(30 * time.Second)
				feed(t, p, 180, xidTotal(6))
				assert.Contains(t, rendered(sink), fmt.Sprintf(oneXID+"\n", 2), "a start in the future is ignored")
				sink.Reset()
				feed(t, p, 210, xidTotal(7))
				assert.Contains(t, rendered(sink), fmt.Sprintf(oneXID+"\n", 3))
				assert.Equal(t, 1, logs.FilterMessageSnippet("a clock was set back").Len())
			})
		})
	}
}

func TestALateScrapeDoesNotCountAnXIDAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := storagetest.NewMemory(nil)
		p, sink := startOn(t, m, processortest.NewNopSettings(metadata.Type))
		feed(t, p, 3600, xidTotal(4))
		for n := range int64(20) {
			feed(t, p, 3630+30*n, xidTotal(5))
			feed(t, p, 60+30*n, xidTotal(3))
			time.Sleep(30 * time.Second)
		}
		sink.Reset()
		feed(t, p, 4230, xidTotal(5))
		assert.Contains(t, rendered(sink), fmt.Sprintf(oneXID+" since 3600s", 1))
	})
}

// After a restart, a queue may deliver a scrape from before the restart.
func TestALateScrapeAfterARestartDoesNotCountAnXIDAgain(t *testing.T) {
	m := storagetest.NewMemory(nil)
	p, _ := startOn(t, m, processortest.NewNopSettings(metadata.Type))
	feed(t, p, 3600, xidTotal(4))
	feed(t, p, 3630, xidTotal(5))
	require.NoError(t, p.Shutdown(t.Context()))
	p, sink := startOn(t, storagetest.NewMemory(m.Values()), processortest.NewNopSettings(metadata.Type))
	feed(t, p, 60, xidTotal(3))
	feed(t, p, 3660, xidTotal(6))
	assert.Contains(t, rendered(sink), fmt.Sprintf(oneXID+" since 3600s", 2))
}

// onTheWall sends rows with a sample time that is ahead of the wall clock by the given duration.
func onTheWall(t *testing.T, p processor.Metrics, ahead time.Duration, body string) {
	t.Helper()
	feed(t, p, time.Now().Add(ahead).Unix(), body)
}

func TestSamplesInTheFutureAreDroppedCountedAndLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel := componenttest.NewTelemetry()
		core, logs := observer.New(zap.InfoLevel)
		set := processortest.NewNopSettings(metadata.Type)
		set.TelemetrySettings = tel.NewTelemetrySettings()
		set.Logger = zap.New(core)
		m := storagetest.NewMemory(nil)
		p, _ := startOn(t, m, set)
		onTheWall(t, p, 0, xidTotal(4))
		for range 3 {
			time.Sleep(10 * time.Second)
			onTheWall(t, p, 24*time.Hour, xidTotal(9))
			onTheWall(t, p, 61*time.Second, xidTotal(9))
		}
		require.NoError(t, p.Shutdown(t.Context()))
		p, sink := startOn(t, storagetest.NewMemory(m.Values()), set)
		onTheWall(t, p, 0, xidTotal(5))
		assert.Contains(t, rendered(sink), fmt.Sprintf(oneXID, 1))
		assert.Contains(t, rendered(sink), "hw.state=ok} = 1")
		assert.Equal(t, 1, logs.FilterMessageSnippet("more than a minute ahead").Len())
		metadatatest.AssertEqualProcessorGpuSynthesizerPointsDropped(t, tel, []metricdata.DataPoint[int64]{
			{Value: 6, Attributes: attribute.NewSet(attribute.String("reason", "future"))},
		}, metricdatatest.IgnoreTimestamp())
		require.NoError(t, tel.Shutdown(context.Background()))
	})
}

// When the clock is set back, the size of the step must not be counted as time during which the
// board was lost.
func TestAFailedBoardRemainsFailedAfterAClockWasSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, sink := newTestProcessor(t, "", processortest.NewNopSettings(metadata.Type))
		const last = `DCGM_FI_DEV_XID_ERRORS{UUID="GPU-1",Hostname="n1"} %d`
		feed(t, p, 3600, fmt.Sprintf(last, 0))
		feed(t, p, 3630, fmt.Sprintf(last, 95))
		for n := range int64(10) {
			time.Sleep(30 * time.Second)
			feed(t, p, 60+30*n, fmt.Sprintf(last, 95))
		}
		assert.Contains(t, lastOf(sink), "hw.state=failed} = 1")
	})
}

// lastOf returns the last output batch as text.
func lastOf(sink *consumertest.MetricsSink) string {
	all := sink.AllMetrics()
	return render(all[len(all)-1])
}

// One processor may receive samples from nodes whose clocks differ.
func TestANodeWithASlowClockIsNotRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, sink := newTestProcessor(t, "", processortest.NewNopSettings(metadata.Type))
		for n := range 5 { // the loop takes more than an hour
			onTheWall(t, p, -3*time.Hour, xidTotal(4+n))
			onTheWall(t, p, 0, strings.ReplaceAll(xidTotal(4), "n1", "n2"))
			time.Sleep(20 * time.Minute)
		}
		assert.Contains(t, rendered(sink), fmt.Sprintf(oneXID, 4))
	})
}

// A repartitioned board does not expose the XID code of a removed instance again.
func TestARemovedInstanceDoesNotKeepItsBoardFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, sink := newTestProcessor(t, "", processortest.NewNopSettings(metadata.Type))
		const (
			first  = `DCGM_FI_DEV_XID_ERRORS{UUID="GPU-1",GPU_I_ID="1",Hostname="n1"} %d` + "\n"
			second = `DCGM_FI_DEV_XID_ERRORS{UUID="GPU-1",GPU_I_ID="2",Hostname="n1"} 0` + "\n"
		)
		feed(t, p, 10, fmt.Sprintf(first, 0)+second)
		feed(t, p, 40, fmt.Sprintf(first, 48)+second)
		at := int64(70)
		feed(t, p, at, second)
		assert.Contains(t, lastOf(sink), "hw.state=failed} = 1", "the instance may be missing from only one scrape")
		for range 152 { // idle devices are removed after an hour, or up to a quarter of an hour later
			time.Sleep(30 * time.Second)
			at += 30
			feed(t, p, at, second)
		}
		assert.Contains(t, lastOf(sink), "hw.state=ok} = 1", "the instance was removed because it was idle")
	})
}
