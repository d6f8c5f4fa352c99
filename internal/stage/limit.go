package stage

import "sync/atomic"

// Limit limits the number of items, such as devices, that a component keeps for all nodes together.
// Limit is safe for concurrent use.
type Limit struct {
	limit int64
	used  atomic.Int64
}

// NewLimit returns a Limit that allows at most n items.
func NewLimit(n int) *Limit { return &Limit{limit: int64(n)} }

// Take reports whether one more item may be kept. If the item may be kept, Take counts it.
func (l *Limit) Take() bool { return l.TakeAll(1) }

// TakeAll reports whether n more items may be kept. If all n items may be kept, TakeAll counts all
// of them. Otherwise, TakeAll counts none of them.
func (l *Limit) TakeAll(n int) bool {
	for {
		used := l.used.Load()
		if used+int64(n) > l.limit {
			return false
		}
		if l.used.CompareAndSwap(used, used+int64(n)) {
			return true
		}
	}
}

// Free subtracts n items, which are no longer kept, from the number of used items.
func (l *Limit) Free(n int) { l.used.Add(-int64(n)) }

// Used returns the number of items that are currently kept.
func (l *Limit) Used() int { return int(l.used.Load()) }
