package gpuk8sprocessor

import (
	"maps"
	"strings"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/stage"
)

// jobs counts the batch jobs for which the processor emits series. A job that runs on several nodes
// is counted once for each node.
type jobs struct {
	*stage.Limit
	limit componenthelper.Limit
}

// deleteExpired removes the node's expired jobs. A job expires after it has not been seen for the
// default idle_timeout of gpu_window, because gpu_window then no longer keeps the job's series.
func (j *jobs) deleteExpired(n *nodeState, now time.Time) {
	before := len(n.jobs)
	maps.DeleteFunc(n.jobs, func(_ string, lastSeen time.Time) bool { return now.Sub(lastSeen) >= componenthelper.RecentAge })
	j.Free(before - len(n.jobs))
}

// admit reports whether series may be emitted for a holder on a node. Only new jobs are refused,
// and only after the limit is reached.
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
