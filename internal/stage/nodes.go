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
// batches from different nodes can be processed at the same time. All methods are safe for
// concurrent use.
//
// Methods such as [Nodes.With] pass the state of a node to a function. The node is locked until the
// function returns. The function must not call a method of the same Nodes and must not keep a
// reference to the state.
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
	state *S // nil if the node has been deleted
	used  time.Time
}

// NewNodes returns an empty Nodes that can contain at most limit nodes. The create function returns
// the initial state of a new node.
func NewNodes[S any](limit int, create func(key string) *S) *Nodes[S] {
	return &Nodes[S]{create: create, limit: limit, nodes: map[string]*node[S]{}}
}

// Key returns the key of a node. Components also use this key to store the node's state in a
// storage extension.
func Key(p gpudata.Place) string { return p.Cluster + "/" + p.Node }

// With calls f with the state of a node while it holds the node's lock. If the node is new, With
// adds the node. If the node is new and the limit is reached, With returns false and does not call
// f. The now parameter becomes the time of the node's last use.
func (n *Nodes[S]) With(p gpudata.Place, now time.Time, f func(*S)) bool {
	return n.Restore(Key(p), now, f)
}

// Restore works like With, but identifies the node by its key. Use Restore if the node's place is
// unknown.
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

// Visit calls f with the state of a node. If the node does not exist, Visit returns false and does
// not call f.
func (n *Nodes[S]) Visit(p gpudata.Place, f func(*S)) bool {
	of := n.find(Key(p))
	return of != nil && of.with(f)
}

// Each calls f with the key and the state of every node, in no particular order. While f runs,
// other goroutines can use other nodes and add nodes.
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

// Stored calls f with the state of the node that has the given key, and returns the result of f
// encoded as JSON. Because the result is already encoded, the node's state may change while the
// result is written to storage. If the node does not exist or f returns nil, Stored returns nil.
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

// The encoded type contains a value that has already been encoded as JSON.
type encoded struct {
	text []byte
	err  error
}

// MarshalJSON implements json.Marshaler.
func (e encoded) MarshalJSON() ([]byte, error) { return e.text, e.err }

// Sweep calls f for every node, with the node's key, state, and time of last use. Sweep deletes the
// nodes for which f returns true. If the last sweep was less than the given interval ago, or if
// another sweep is in progress, Sweep does nothing and returns false.
func (n *Nodes[S]) Sweep(now time.Time, interval time.Duration, f func(key string, s *S, used time.Time) (gone bool)) (ran bool) {
	if !n.sweeping.TryLock() {
		return false
	}
	defer n.sweeping.Unlock()
	if since := now.Sub(n.swept); since >= 0 && since < interval { // since is negative if the clock was set back
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

// The with method locks the node and calls f with the node's state. If the node has been deleted,
// the method returns false and does not call f.
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

// findOrAdd returns the node with the given key. If the node is new, findOrAdd adds the node. If
// the node is new and the limit is reached, findOrAdd returns nil.
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

// The list method returns all nodes that currently exist.
func (n *Nodes[S]) list() []*node[S] {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return slices.Collect(maps.Values(n.nodes))
}
