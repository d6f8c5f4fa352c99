package componenthelper

import "time"

// RecentAge is the minimum time for which a [Recent] keeps an unused value, unless the [Recent] is
// full. If [Recent.Age] is called often, a [Recent] keeps an unused value for at most twice
// RecentAge.
const RecentAge = 10 * time.Minute

// Recent is a cache that keeps values for a while after their last use. Recent is intended for
// values that are derived from labels. Most labels repeat from scrape to scrape, but each new job
// adds labels.
type Recent[K comparable, V any] struct {
	recent, old map[K]V // values used since r.begun, and values last used before r.begun
	begun       time.Time
	limit       int // maximum number of values in each map
}

// NewRecent returns an empty Recent that stores at most 2*limit values.
func NewRecent[K comparable, V any](limit int) *Recent[K, V] {
	return &Recent[K, V]{recent: map[K]V{}, limit: limit}
}

// Age removes values that have not been used recently.
func (r *Recent[K, V]) Age(now time.Time) {
	if now.Sub(r.begun) >= RecentAge {
		r.recent, r.old = map[K]V{}, r.recent
		r.begun = now
	}
}

// Get returns a value.
func (r *Recent[K, V]) Get(k K) (V, bool) {
	v, ok := r.recent[k]
	if !ok {
		if v, ok = r.old[k]; ok {
			delete(r.old, k)
			r.Put(k, v)
		}
	}
	return v, ok
}

// Put stores a value. If the limit is reached, Put first removes all values that were used since
// Age last removed values.
func (r *Recent[K, V]) Put(k K, v V) {
	if len(r.recent) >= r.limit {
		clear(r.recent)
	}
	r.recent[k] = v
}

// Clear removes all values.
func (r *Recent[K, V]) Clear() {
	clear(r.recent)
	clear(r.old)
}

// Len returns the number of stored values.
func (r *Recent[K, V]) Len() int { return len(r.recent) + len(r.old) }
