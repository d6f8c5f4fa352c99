package gpueventsconnector

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/storagetest"
)

// In this test, frames from several nodes arrive concurrently, while the connector checks for due
// events and stores its state. The events and the state of each node must be the same as they would
// be without the other nodes. `make test-long` runs this test with the race detector.
func TestConcurrentNodesHaveTheSameEventsAsSeparateNodes(t *testing.T) {
	const nodes, frames = 6, 8
	play := func(together bool) (records []string, stored map[string]string) {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			memory := storagetest.NewMemory(nil)
			c := startConnector(t, memory, func(ld plog.Logs) error {
				mu.Lock()
				defer mu.Unlock()
				for _, rl := range ld.ResourceLogs().All() {
					for _, r := range rl.ScopeLogs().At(0).LogRecords().All() {
						records = append(records, fmt.Sprint(r.Timestamp(), r.EventName(), rl.Resource().Attributes().AsRaw(), r.Attributes().AsRaw(), r.Body().AsString()))
					}
				}
				return nil
			})
			for s := 1; s <= frames; s++ {
				var sending sync.WaitGroup
				for n := range nodes {
					md := batch(t, fmt.Sprintf("%ds {k8s.node.name=n%d} hw.errors {hw.id=GPU-1, error.type=xid_%d} = %d\n", 10*s, n, 31+s/4, s*n))
					send := func() { assert.NoError(t, c.ConsumeMetrics(t.Context(), md)) }
					if together {
						sending.Go(send)
					} else {
						send()
					}
				}
				sending.Wait()
				time.Sleep(10 * time.Second)
			}
			time.Sleep(10 * time.Minute)
			require.NoError(t, c.Shutdown(t.Context()))
			stored = memory.Values()
		})
		slices.Sort(records)
		return records, stored
	}
	records, stored := play(false)
	assert.NotEmpty(t, records)
	assert.Len(t, stored, nodes+1, "and the list of places")
	recordsOfAll, storedOfAll := play(true)
	assert.Equal(t, records, recordsOfAll)
	assert.Equal(t, stored, storedOfAll)
}
