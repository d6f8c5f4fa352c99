package window

import (
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// A node is considered absent if no sample arrives from it for longer than its usual interval
	// multiplied by the missed constant. If the constant were 2 or less, a single lost scrape would
	// be treated as an absence.
	missed = 2.5
	// minAbsence is the minimum length of an absence. Shorter gaps are not treated as absences,
	// because they may occur when a machine stalls.
	minAbsence = int64(time.Second)
	// maxAbsences is the maximum number of absences that are stored for a node. Only absences in
	// open windows, or after the last sample of a series, are needed.
	maxAbsences = 32
)

// node contains all places with the same node name, which may be empty. Each node has its own lock,
// and its state is stored as one value.
//
// In a tier of collectors, another collector may receive and count a node's samples for some time.
// Therefore, the time between the last sample before an absence and the first sample after it is
// not treated as observed, and increases during this time are not counted. A node is considered
// absent if no sample arrives from it for 2.5 times its usual interval, and for at least one
// second. A failed scrape is not an absence, because gpu.exporter.up also counts as a sample. The
// time before the first sample after a crash is also an absence, because the samples that arrived
// since the node was last stored are lost.
type node struct {
	e    *Engine
	name string

	mu       sync.Mutex // guards the following fields and all places, devices, and series of the node
	removed  bool
	era      int // the engine's era when the node was last locked
	places   map[ResourceKey]*place
	order    []*place // Places in the order in which they were first seen.
	size     int      // Size of the state that was last stored.
	attached any      // See Ingest.Attached.
	absences
}

// absences contains the absences of a node in a tier of collectors. The struct is empty outside a
// tier, and for places without a node name.
type absences struct {
	Newest int64 // Time of the newest sample.
	// Longest is the longest interval between samples in the period that contains Newest. Before is
	// the longest interval in the most recent earlier period. Absences do not count as intervals. A
	// period is as long as a window.
	Longest, Before int64
	// Ends contains the time of the first sample after each absence, in chronological order. Last
	// is true if the interval before Newest was an absence.
	Ends []int64
	Last bool
}

// limit returns the maximum length of an interval that is not an absence.
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
	// After two consecutive absences, the usual interval of the node is assumed to be longer than
	// before.
	if !absent || n.Last {
		n.Longest = max(n.Longest, interval)
	}
	n.Last = absent
}

// recordAbsence records t as the time of the first sample after an absence.
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

// interrupt treats the time before the next sample of the node as an absence.
func (n *node) interrupt() {
	n.Longest, n.Before = 0, 0
	n.recordAbsence(n.Newest + 1)
}

// node returns the node with the given name, and adds the node if it is new.
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

// lock locks the node. If the clock has been set back since the node was last locked, the method
// also restarts the node.
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

// The restart method resets all sample times of the node after the clock was set back to the time
// in the now parameter.
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

// RecordArrival records that a sample arrived from a node, although the sample is not added to the
// engine.
func (in *Ingest) RecordArrival(node string, t int64) {
	if in.e.set.Tier {
		in.SetNode(node)
		if in.checkSample(false, t, Number{}) == Accepted {
			in.node.recordSample(t)
		}
	}
}

// Stop marks the end of the input. State that is stored after Stop contains all samples.
func (e *Engine) Stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stopped = true
}
