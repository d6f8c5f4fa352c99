package stage

import "sync/atomic"

// Limit counts items, such as devices, that a component keeps for all nodes together. It is safe
// for concurrent use.
type Limit struct {
	limit int64
	used  atomic.Int64
}

// NewLimit returns a Limit of n items.
func NewLimit(n int) *Limit { return &Limit{limit: int64(n)} }

// Take reports whether one more item may be kept. If so, it counts the item.
func (l *Limit) Take() bool { return l.TakeAll(1) }

// TakeAll reports whether n more items may be kept. It counts either all of them or none.
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

// Free subtracts n items that are no longer kept.
func (l *Limit) Free(n int) { l.used.Add(-int64(n)) }

// Used returns the number of items that are kept.
func (l *Limit) Used() int { return int(l.used.Load()) }
