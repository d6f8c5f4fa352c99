package dcgmreceiver

import (
	"math"
	"net/http/httptest"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"

	"github.com/otelcol-gpu/otelcol-gpu/receiver/dcgmreceiver/internal/metadatatest"
)

func TestScrapesAreSkippedWhileTheHeapIsAboveTheLimit(t *testing.T) {
	server := httptest.NewServer(serve(goodBody))
	defer server.Close()
	f := opened(t, []string{server.URL}, func(cfg *Config) { cfg.MemoryLimit = 100 << 20 })
	live := int64(100 << 20)
	f.memory.live, f.memory.collect = func() int64 { return live }, func() {}

	assert.True(t, f.hasMemory(t.Context()), "the limit itself is allowed")
	live++
	for range 3 {
		assert.False(t, f.hasMemory(t.Context()))
	}
	assert.Equal(t, []string{"warn: The heap is above memory_limit. Scrapes are skipped until memory is free again."}, messages(f.logs))
	metadatatest.AssertEqualReceiverDcgmScrapes(t, f.telemetry, []metricdata.DataPoint[int64]{
		{Value: 3, Attributes: attribute.NewSet(attribute.String("outcome", "memory_limit"))},
	}, metricdatatest.IgnoreTimestamp())
	live--
	assert.True(t, f.hasMemory(t.Context()))
	assert.Equal(t, []componentstatus.Status{componentstatus.StatusRecoverableError, componentstatus.StatusOK}, f.host.Statuses())
}

func TestGarbageIsCollectedBeforeAScrapeIsSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live, collections := int64(200), 0
		m := &memoryLimit{limit: 100, live: func() int64 { return live }, collect: func() { collections++; live = 50 }}
		_, exceeded := m.exceeded(time.Now())
		assert.False(t, exceeded, "only garbage was above the limit")
		m.collect = func() { collections++ }
		live = 200
		for range 100 {
			_, exceeded = m.exceeded(time.Now())
			assert.True(t, exceeded)
			time.Sleep(time.Second)
		}
		assert.Equal(t, 10, collections, "once at first, then every 10 s of the 100 s")
	})
}

func TestWithoutASettingTheMemoryLimitFollowsGOMEMLIMIT(t *testing.T) {
	before := debug.SetMemoryLimit(math.MaxInt64)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	m := newMemoryLimit(0)
	_, exceeded := m.exceeded(time.Now())
	assert.False(t, exceeded)
	assert.Zero(t, m.limit)

	debug.SetMemoryLimit(1000 << 20)
	assert.Equal(t, int64(800<<20), newMemoryLimit(0).limit)
	assert.Equal(t, int64(100<<20), newMemoryLimit(100<<20).limit)
}

func TestTheLiveHeapIsMeasured(t *testing.T) {
	m := newMemoryLimit(1)
	used, exceeded := m.exceeded(time.Now())
	assert.True(t, exceeded)
	assert.Positive(t, used)
	assert.Less(t, used, int64(10<<30))
}
