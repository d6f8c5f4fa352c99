package store

import (
	"strings"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// nodeKey identifies a node, or the cluster itself if the node name is empty.
type nodeKey struct{ cluster, node string }

// nodeState contains the data that is needed to detect changes to a node's clock.
type nodeState struct {
	key   nodeKey
	clock gpudata.Clock // Observes the timestamp of the newest point in each batch.
	// The newest field is the end of the newest window.
	newest int64
	// The batch field is the timestamp of the node's newest point in the current batch, or 0.
	batch int64
}

// The observe method records the timestamp of an accepted point.
func (b *Batch) observe(place *Place, p *Point) {
	key := nodeKey{place.Cluster, place.Node}
	n := b.node
	if n == nil || n.key != key {
		if n = b.s.nodes[key]; n == nil {
			key = nodeKey{strings.Clone(key.cluster), strings.Clone(key.node)}
			n = &nodeState{key: key}
			b.s.nodes[key] = n
		}
		b.node = n
	}
	if n.batch == 0 {
		b.nodes = append(b.nodes, n)
	}
	n.batch = max(n.batch, p.End)
	if p.Metric.metricKind == windowKind {
		n.newest = max(n.newest, p.End)
	}
}

// observeNodes passes the timestamps in the batch to the clocks of the nodes. If, for some time,
// all new points of a node are older than the node's newest point, the node's clock was set back.
// If a clock was set back, observeNodes deletes the stored data of the node, because the timestamps
// of the data are in the future.
func (b *Batch) observeNodes() {
	for _, n := range b.nodes {
		if n.clock.Observe(n.batch, b.wall, b.s.staleAfter()) == gpudata.SetBack {
			b.setBack = true
			b.s.forgetNode(n)
		}
		n.batch = 0
	}
}

// forgetNode deletes all data of a node except its clock.
func (s *Store) forgetNode(n *nodeState) {
	for key, d := range s.devices {
		if key.cluster == n.key.cluster && key.node == n.key.node {
			s.holders -= len(d.holders)
			delete(s.devices, key)
		}
	}
	if n.key.node == "" {
		for key := range s.demand {
			if key.cluster == n.key.cluster {
				delete(s.demand, key)
			}
		}
		s.forgetClaims(n.key.cluster)
	}
	n.newest, s.newest = 0, 0
	for _, o := range s.nodes {
		s.newest = max(s.newest, o.newest)
	}
	s.swept = min(s.swept, s.newest)
}

// sweepNodes deletes the state of nodes that have no stored data.
func (s *Store) sweepNodes() {
	used := map[nodeKey]bool{}
	for key := range s.devices {
		used[nodeKey{key.cluster, key.node}] = true
	}
	for key := range s.demand {
		used[nodeKey{key.cluster, ""}] = true
	}
	for cluster := range s.claimsAt {
		used[nodeKey{cluster, ""}] = true
	}
	for key := range s.nodes {
		if !used[key] {
			delete(s.nodes, key)
		}
	}
}

// NewestOf returns the end of a node's newest window in Unix nanoseconds, or 0 if there is none.
func (v *View) NewestOf(cluster, name string) int64 {
	if n := v.s.nodes[nodeKey{cluster, name}]; n != nil {
		return n.newest
	}
	return 0
}
