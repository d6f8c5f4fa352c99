package gpuk8sprocessor

import (
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/attribution"
)

const (
	// nodeTimeout is how long the state of a node without frames is kept.
	nodeTimeout = time.Hour
	// sweepEvery is the shortest time between two sweeps of old state.
	sweepEvery = time.Minute
)

// nodeState is the state of a node.
type nodeState struct {
	processes *attribution.ProcessLog
	placement *attribution.Placement
	lists     *attribution.ProcessSources
	jobs      map[string]time.Time // time at which each job was last seen, by ID
}

func newNode(string) *nodeState {
	return &nodeState{
		processes: attribution.NewProcessLog(history),
		placement: attribution.NewPlacement(history),
		lists:     attribution.NewProcessSources(history),
		jobs:      map[string]time.Time{},
	}
}

// sweep removes expired jobs, and nodes without frames.
func (p *gpuK8s) sweep(now time.Time) {
	p.nodes.Sweep(now, sweepEvery, func(_ string, n *nodeState, used time.Time) (gone bool) {
		p.jobs.deleteExpired(n, now)
		return len(n.jobs) == 0 && now.Sub(used) > nodeTimeout
	})
}
