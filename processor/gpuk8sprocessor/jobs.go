package gpuk8sprocessor

import (
	"maps"
	"strings"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/stage"
)

// jobs counts the batch jobs that have series. Each job counts once per node.
type jobs struct {
	*stage.Limit
	limit componenthelper.Limit
}

// deleteExpired removes a node's jobs that have not been seen for so long that gpu_window no longer
// keeps their series.
func (j *jobs) deleteExpired(n *nodeState, now time.Time) {
	before := len(n.jobs)
	maps.DeleteFunc(n.jobs, func(_ string, lastSeen time.Time) bool { return now.Sub(lastSeen) >= componenthelper.RecentAge })
	j.Free(before - len(n.jobs))
}

// admit reports whether a holder on a node may have series. It refuses only new jobs, and only if the
// limit is reached.
func (j *jobs) admit(n *nodeState, now time.Time, h gpudata.Holder) bool {
	if h.Job == "" {
		return true
	}
	id := h.Job
	if _, exists := n.jobs[id]; !exists {
		if !j.Take() {
			return false
		}
		id = strings.Clone(id)
	}
	n.jobs[id] = now
	return true
}
