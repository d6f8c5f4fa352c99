package dcgmreceiver

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

const (
	// liveHeapMetric is the name of the runtime metric for the total size, in bytes, of the objects
	// that survived the last garbage collection.
	liveHeapMetric = "/gc/heap/live:bytes"

	// collectEvery is the minimum time between two garbage collections that the memory limit
	// triggers.
	collectEvery = 10 * time.Second

	// goLimitShare is the default memory limit as a fraction of GOMEMLIMIT.
	goLimitShare = 0.8
)

// memoryLimit determines whether there is enough memory for a scrape. All endpoints share it.
type memoryLimit struct {
	limit   int64        // The maximum size of the live heap in bytes; 0 means no limit.
	live    func() int64 // Returns the size of the live heap in bytes.
	collect func()       // Runs a garbage collection.

	mu        sync.Mutex
	collected time.Time // the time of the last garbage collection that the limit triggered
}

// newMemoryLimit returns a memory limit with the configured value. If the value is 0 and GOMEMLIMIT
// is set, the limit is a fraction of GOMEMLIMIT.
func newMemoryLimit(configured int64) *memoryLimit {
	m := &memoryLimit{limit: configured, live: liveHeap, collect: runtime.GC}
	if goLimit := debug.SetMemoryLimit(-1); m.limit == 0 && goLimit < math.MaxInt64 {
		m.limit = int64(goLimitShare * float64(goLimit))
	}
	return m
}

// The exceeded method reports whether the live heap exceeds the limit, and returns the size of the
// live heap in bytes. If the live heap exceeds the limit, the method first runs a garbage
// collection, at most once every ten seconds, and then checks the size again.
func (m *memoryLimit) exceeded(now time.Time) (used int64, exceeded bool) {
	if m.limit == 0 {
		return 0, false
	}
	used = m.live()
	if used <= m.limit {
		return used, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if now.Sub(m.collected) >= collectEvery {
		m.collected = now
		m.collect()
	}
	used = m.live()
	return used, used > m.limit
}

// liveHeap returns the total size, in bytes, of the objects that survived the last garbage
// collection.
func liveHeap() int64 {
	sample := []metrics.Sample{{Name: liveHeapMetric}}
	metrics.Read(sample)
	return int64(min(sample[0].Value.Uint64(), math.MaxInt64))
}
