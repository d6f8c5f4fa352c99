package gpuk8sprocessor

import (
	"maps"
	"strings"
	"sync"
	"time"

	base "github.com/otelcol-gpu/otelcol-gpu/internal/component"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// jobs has the batch jobs that have series. Each job counts once per place. It is safe for
// concurrent use.
type jobs struct {
	limit base.Limit

	mu       sync.Mutex
	lastSeen map[placedJob]time.Time // when they were last seen
}

type placedJob struct {
	place gpudata.Place
	id    string
}

// deleteExpired removes jobs that have not been seen for as long as gpu_window keeps their series.
func (j *jobs) deleteExpired(now time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	maps.DeleteFunc(j.lastSeen, func(_ placedJob, lastSeen time.Time) bool { return now.Sub(lastSeen) >= base.RecentAge })
}

// admit reports whether a holder may have series. It refuses only new jobs, and only if the limit
// is reached.
func (j *jobs) admit(now time.Time, place gpudata.Place, h gpudata.Holder) bool {
	if h.Job == "" {
		return true
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	key := placedJob{place, h.Job}
	if _, exists := j.lastSeen[key]; !exists {
		if len(j.lastSeen) >= j.limit.Value {
			return false
		}
		key = placedJob{place.Clone(), strings.Clone(h.Job)}
	}
	j.lastSeen[key] = now
	return true
}

// len returns the number of jobs that have series.
func (j *jobs) len() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.lastSeen)
}
