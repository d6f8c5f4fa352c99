package stage

import (
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// Nodes contains the state that a component keeps for each node. Each node has its own lock, so
// batches from different nodes are processed at the same time. All methods are safe for concurrent
// use.
//
// While a function runs that a method has called with the state of a node, the node is locked. The
// function must not call a method of the same Nodes, and it must not keep a reference to the state.
type Nodes[S any] struct {
	create func(key string) *S
	limit  int

	mu    sync.RWMutex
	nodes map[string]*node[S] // by key

	sweeping sync.Mutex
	swept    time.Time
}

type node[S any] struct {
	key   string
	mu    sync.Mutex
	state *S // nil after the node was deleted
	used  time.Time
}

// NewNodes returns an empty Nodes for at most limit nodes. create returns the state of a new node.
func NewNodes[S any](limit int, create func(key string) *S) *Nodes[S] {
	return &Nodes[S]{create: create, limit: limit, nodes: map[string]*node[S]{}}
}

// Key returns the key of a node. Components also store the node's state under this key.
func Key(p gpudata.Place) string { return p.Cluster + "/" + p.Node }

// With calls f with the state of a node. It adds the node if it is new. If the limit is reached, it
// returns false and does not call f. now is recorded as the time at which the node was last used.
func (n *Nodes[S]) With(p gpudata.Place, now time.Time, f func(*S)) bool {
	return n.Restore(Key(p), now, f)
}

// Restore is like With, but for a node whose key is known and whose place is not.
func (n *Nodes[S]) Restore(key string, now time.Time, f func(*S)) bool {
	for {
		of := n.findOrAdd(key)
		if of == nil {
			return false
		}
		if of.with(func(s *S) { of.used = now; f(s) }) {
			return true
		}
	}
}

// Visit calls f with the state of a node. If the node does not exist, it returns false and does not
// call f.
func (n *Nodes[S]) Visit(p gpudata.Place, f func(*S)) bool {
	of := n.find(Key(p))
	return of != nil && of.with(f)
}

// Each calls f with the state of each node, in no particular order. While f runs, other nodes can
// be used and added.
func (n *Nodes[S]) Each(f func(key string, s *S)) {
	for _, of := range n.list() {
		of.with(func(s *S) { f(of.key, s) })
	}
}

// Len returns the number of nodes.
func (n *Nodes[S]) Len() int {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return len(n.nodes)
}

// Stored calls f with the state of the node that has the given key, and returns f's result encoded
// as JSON. The node's state may change while the result is written to storage. Stored returns nil
// if the node does not exist or if f returns nil.
func (n *Nodes[S]) Stored(key string, f func(*S) any) any {
	of := n.find(key)
	if of == nil {
		return nil
	}
	var out any
	of.with(func(s *S) {
		if value := f(s); value != nil {
			text, err := json.Marshal(value)
			out = encoded{text, err}
		}
	})
	return out
}

// encoded is a value that is already JSON.
type encoded struct {
	text []byte
	err  error
}

// MarshalJSON implements json.Marshaler.
func (e encoded) MarshalJSON() ([]byte, error) { return e.text, e.err }

// Sweep calls f with the state of each node and the time at which the node was last used. It
// deletes the nodes for which f returns true. It does nothing if the last Sweep was less than
// interval before now, or if another Sweep is running. Sweep reports whether it ran.
func (n *Nodes[S]) Sweep(now time.Time, interval time.Duration, f func(key string, s *S, used time.Time) (gone bool)) (ran bool) {
	if !n.sweeping.TryLock() {
		return false
	}
	defer n.sweeping.Unlock()
	if since := now.Sub(n.swept); since >= 0 && since < interval { // negative if the clock was set back
		return false
	}
	n.swept = now
	for _, of := range n.list() {
		of.with(func(s *S) {
			if f(of.key, s, of.used) {
				of.state = nil
				n.delete(of.key)
			}
		})
	}
	return true
}

// with calls f while it holds the node's lock. It returns false if the node was deleted.
func (of *node[S]) with(f func(*S)) bool {
	of.mu.Lock()
	defer of.mu.Unlock()
	if of.state == nil {
		return false
	}
	f(of.state)
	return true
}

func (n *Nodes[S]) find(key string) *node[S] {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.nodes[key]
}

// findOrAdd returns the node with the given key. It adds the node if it is new. If the limit is
// reached, it returns nil for a new node.
func (n *Nodes[S]) findOrAdd(key string) *node[S] {
	if of := n.find(key); of != nil {
		return of
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	of := n.nodes[key]
	if of == nil && len(n.nodes) < n.limit {
		of = &node[S]{key: key, state: n.create(key)}
		n.nodes[key] = of
	}
	return of
}

func (n *Nodes[S]) delete(key string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.nodes, key)
}

// list returns the current nodes.
func (n *Nodes[S]) list() []*node[S] {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return slices.Collect(maps.Values(n.nodes))
}
