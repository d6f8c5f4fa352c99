package gpuk8sprocessor

import (
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/attribution"
)

const (
	// nodeTimeout is how long the state of a node is kept after the node's last frame.
	nodeTimeout = time.Hour
	// sweepEvery is the minimum time between two deletions of expired state.
	sweepEvery = time.Minute
)

// nodeState is the state of a node.
type nodeState struct {
	users     *attribution.UserLog
	placement *attribution.Placement
	sources   *attribution.ProcessSources
	jobs      map[string]time.Time // jobs maps job IDs to the time at which each job was last seen.
}

func newNode(string) *nodeState {
	return &nodeState{
		users:     attribution.NewUserLog(history),
		placement: attribution.NewPlacement(history),
		sources:   attribution.NewProcessSources(history),
		jobs:      map[string]time.Time{},
	}
}

// sweep deletes expired jobs, and the state of nodes that no longer send frames.
func (p *gpuK8s) sweep(now time.Time) {
	p.nodes.Sweep(now, sweepEvery, func(_ string, n *nodeState, used time.Time) (gone bool) {
		p.jobs.deleteExpired(n, now)
		return len(n.jobs) == 0 && now.Sub(used) > nodeTimeout
	})
}
