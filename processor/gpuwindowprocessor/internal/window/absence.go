package window

import (
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// missed is the number of usual intervals without a sample after which a node is absent. With a
	// value of 2 or less, one lost scrape would be an absence.
	missed = 2.5
	// minAbsence is the shortest absence. Shorter gaps may occur because a machine is stalled.
	minAbsence = int64(time.Second)
	// maxAbsences limits the stored absences of a node. Only absences in open windows, or after the
	// last sample of a series, are needed.
	maxAbsences = 32
)

// node contains the places with the same node name, which may be empty. It has a lock, and its
// state is stored as one value.
//
// In a tier, another collector may receive and count a node's samples for some time. Therefore, the
// time between the samples before and after an absence is neither observed nor counted here. A node
// is absent if no sample from it arrives for 2.5 times its usual interval, and for at least one
// second. gpu.exporter.up is also a sample, so a failed scrape is not an absence. The first sample
// after a crash also ends an absence, because the samples since the node was last stored are lost.
type node struct {
	e    *Engine
	name string

	mu       sync.Mutex // guards the following fields and all places, devices, and series of the node
	removed  bool
	era      int // the engine's era when the node was last locked
	places   map[ResourceKey]*place
	order    []*place // in the order in which they were first seen
	size     int      // size of the state that was last stored
	attached any      // see Ingest.Attached
	absences
}

// absences are the absences of a node in a tier. They are empty outside a tier, and for places
// without a node name.
type absences struct {
	Newest int64 // time of the newest sample
	// Longest is the longest interval between samples, except absences, in the period that contains
	// Newest. Before is the longest such interval in an earlier period. A period has the length of
	// a window.
	Longest, Before int64
	// Ends are the times of the first samples after each absence, in order. Last is true if the
	// interval before Newest was an absence.
	Ends []int64
	Last bool
}

// limit returns the longest interval that is not an absence.
func (n *node) limit(maxGap int64) int64 {
	if usual := max(n.Longest, n.Before); usual > 0 {
		return max(minAbsence, int64(missed*float64(usual)))
	}
	return maxGap
}

// recordSample records the time of a sample.
func (n *node) recordSample(t int64) {
	e := n.e
	if !e.set.Tier || n.name == "" || t <= n.Newest {
		return
	}
	previous, interval := n.Newest, t-n.Newest
	n.Newest = t
	if previous == 0 {
		return
	}
	absent := interval > n.limit(e.maxGap)
	if absent {
		n.recordAbsence(t)
	}
	if t/e.length != previous/e.length && n.Longest > 0 {
		n.Before, n.Longest = n.Longest, 0
	}
	// After two consecutive absences, the node is assumed to have a longer usual interval.
	if !absent || n.Last {
		n.Longest = max(n.Longest, interval)
	}
	n.Last = absent
}

// recordAbsence records that t is the first sample time after an absence.
func (n *node) recordAbsence(t int64) {
	if over := len(n.Ends) + 1 - maxAbsences; over > 0 {
		n.Ends = slices.Delete(n.Ends, 0, over)
	}
	n.Ends = append(n.Ends, t)
}

// wasAbsent reports whether the node was absent between two sample times.
func (n *node) wasAbsent(previous, t int64) bool {
	for _, at := range slices.Backward(n.Ends) {
		if previous < at && at <= t {
			return true
		}
	}
	return false
}

// interrupt causes the next sample of the node to end an absence.
func (n *node) interrupt() {
	n.Longest, n.Before = 0, 0
	n.recordAbsence(n.Newest + 1)
}

// node returns a node and adds it if it is new.
func (e *Engine) node(name string) *node {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := e.nodes[name]
	if n == nil {
		n = &node{e: e, name: strings.Clone(name), era: e.era, places: map[ResourceKey]*place{}}
		e.nodes[n.name] = n
		e.order = append(e.order, n)
	}
	return n
}

// lock locks the node. If the clock was set back since the node was last locked, lock also restarts
// the node.
func (n *node) lock() {
	n.mu.Lock()
	n.e.mu.Lock()
	era, now := n.e.era, n.e.steppedTo
	n.e.mu.Unlock()
	if n.era != era {
		n.era = era
		n.restart(now)
	}
}

// restart resets all sample times of the node after the clock was set back to now.
func (n *node) restart(now int64) {
	n.absences = absences{}
	for _, p := range n.order {
		for _, d := range p.list {
			d.Before, d.Newest, d.Second = 0, 0, 0
			for _, s := range d.series {
				s.Last, s.Moved = 0, 0
				s.Seen = min(s.Seen, now)
			}
		}
	}
}

// remove removes the node from the engine. The caller must hold the node's lock.
func (n *node) remove() {
	n.removed = true
	n.e.mu.Lock()
	defer n.e.mu.Unlock()
	delete(n.e.nodes, n.name)
	n.e.order = slices.DeleteFunc(n.e.order, func(other *node) bool { return other == n })
}

// RecordArrival records that a node sent a sample that is not added to the engine.
func (in *Ingest) RecordArrival(node string, t int64) {
	if in.e.set.Tier {
		in.SetNode(node)
		if in.checkSample(false, t, Number{}) == Accepted {
			in.node.recordSample(t)
		}
	}
}

// Stop marks the end of the input. State that is stored after it contains all samples.
func (e *Engine) Stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stopped = true
}
