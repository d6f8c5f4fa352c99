package window

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

const (
	// missed is the number of usual intervals without a sample after which a node is absent. With a
	// smaller number, each lost scrape would be an absence.
	missed = 2.5
	// minAbsence is the shortest absence: a machine may stall for less.
	minAbsence = int64(time.Second)
	// maxAbsences bounds the absences of a node that are remembered. Those that matter lie in open
	// windows or behind the last sample of a series.
	maxAbsences = 32
)

// node is the sender of its places' samples. It exists only in a tier, where another collector may
// receive and count a node's samples for some time. So the time between the samples before and
// after an absence is neither observed nor counted here.
//
// A node is absent if no sample arrives from it for 2.5 times its usual interval, at least a
// second. gpu.exporter.up counts as a sample, so a failed scrape is not an absence. The first
// sample after a crash ends an absence too, because the samples since the last snapshot are lost.
type node struct {
	places int
	nodeState
}

// nodeState is the stored state of a node.
type nodeState struct {
	Name   string
	Newest int64 // time of the newest sample
	// Longest is the longest interval without an absence in the period that holds Newest, and
	// Before in an earlier one. A period has the length of a window.
	Longest, Before int64
	// Absences are the times of the first samples after an absence, in order. Last is true if
	// Newest is one of them.
	Absences []int64
	Last     bool
}

// limit returns the longest interval that is not an absence.
func (n *node) limit(maxGap int64) int64 {
	if usual := max(n.Longest, n.Before); usual > 0 {
		return max(minAbsence, int64(missed*float64(usual)))
	}
	return maxGap
}

// sees records the time of a sample.
func (n *node) sees(t int64, e *Engine) {
	if n == nil || t <= n.Newest {
		return
	}
	before, interval := n.Newest, t-n.Newest
	n.Newest = t
	if before == 0 {
		return
	}
	absent := interval > n.limit(e.maxGap)
	if absent {
		n.absent(t)
	}
	if t/e.length != before/e.length && n.Longest > 0 {
		n.Before, n.Longest = n.Longest, 0
	}
	// Two absences in a row are one long interval, which is usual from now on.
	if !absent || n.Last {
		n.Longest = max(n.Longest, interval)
	}
	n.Last = absent
}

// absent records that t is the first sample time after an absence.
func (n *node) absent(t int64) {
	if over := len(n.Absences) + 1 - maxAbsences; over > 0 {
		n.Absences = slices.Delete(n.Absences, 0, over)
	}
	n.Absences = append(n.Absences, t)
}

// missedSome reports whether the node was absent between two sample times.
func (n *node) missedSome(previous, t int64) bool {
	if n == nil {
		return false
	}
	for _, at := range slices.Backward(n.Absences) {
		if previous < at && at <= t {
			return true
		}
	}
	return false
}

// interrupt makes the next sample of each node the first one after an absence.
func (e *Engine) interrupt() {
	for _, n := range e.nodes {
		n.Longest, n.Before = 0, 0
		n.absent(n.Newest + 1)
	}
}

// restartNodes resets the nodes after the clock was set back.
func (e *Engine) restartNodes() {
	for _, n := range e.nodes {
		n.nodeState = nodeState{Name: n.Name}
	}
}

// nodeName returns the attribute of a Resource that identifies its node, which is the first
// identifying one.
func (e *Engine) nodeName(attrs []Attr) string {
	if !e.set.Tier || len(e.set.Identity.Resource) == 0 {
		return ""
	}
	for name := range strings.SplitSeq(e.set.Identity.Resource[0], "|") {
		if v, ok := find(attrs, name); ok {
			return v.Str
		}
	}
	return ""
}

// join adds a place to its node.
func (e *Engine) join(p *place) {
	name := e.nodeName(p.Info.Attrs)
	if name == "" {
		return
	}
	p.node = e.nodes[name]
	if p.node == nil {
		p.node = &node{nodeState: nodeState{Name: name}}
		e.nodes[name] = p.node
	}
	p.node.places++
}

// leave removes a place from its node.
func (e *Engine) leave(p *place) {
	if p.node == nil {
		return
	}
	if p.node.places--; p.node.places == 0 {
		delete(e.nodes, p.node.Name)
	}
}

// savedNodes returns the state of all nodes, by name.
func (e *Engine) savedNodes() []nodeState {
	var all []nodeState
	for _, n := range e.nodes {
		all = append(all, n.nodeState)
	}
	slices.SortFunc(all, func(a, b nodeState) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// restoreNodes restores the state of the nodes. A node without stored state, because tier was not
// set then, starts again with its next sample.
func (e *Engine) restoreNodes(saved []nodeState) {
	for _, s := range saved {
		if n := e.nodes[s.Name]; n != nil {
			n.nodeState = s
		}
	}
}

// Sees records the arrival of a sample of the current Resource that no rule can read.
func (in *Ingest) Sees(t int64) {
	if in.e.set.Tier && in.screen(false, t, Number{}) == Accepted {
		in.e.nodes[in.e.nodeName(in.attrs)].sees(t, in.e)
	}
}

// Stop marks the end of the input. A snapshot taken after it contains all samples.
func (e *Engine) Stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stopped = true
}
