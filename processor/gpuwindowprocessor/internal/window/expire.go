package window

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// scansPerTimeout is how many times the engine can search for idle series during one IdleTimeout.
// If that would be less than once per window, the engine can search once per window, so that end
// markers are not too old for backends.
const scansPerTimeout = 20

// NextExpiry returns the earliest wall clock time at which Expire must be called.
func (e *Engine) NextExpiry() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.series.Load() == 0 || e.oldest > math.MaxInt64-e.idle {
		return time.Unix(0, math.MaxInt64)
	}
	return time.Unix(0, max(e.nextScan, e.oldest+e.idle))
}

// Expire ends series that have had no samples for IdleTimeout. If MarkEnd is set, Expire appends
// rows that mark the ends of the series, in an order in which the rows can be sent. Expire appends
// the rows of one complete node after another until the rows slice contains at least n rows. If a
// series has a sample in a window that has not been sent, the series ends after that window. The
// caller must call Expire again as long as the second result is true.
func (e *Engine) Expire(now time.Time, rows []Row, n int) (_ []Row, more bool) {
	e.mu.Lock()
	e.observe(now.UnixNano())
	if len(e.searching) == 0 {
		e.searching, e.oldest = slices.Clone(e.order), math.MaxInt64
	}
	x := expiry{e: e, clock: e.clock, closed: e.closed, oldest: math.MaxInt64, rows: rows}
	nodes := e.searching
	e.mu.Unlock()
	for len(nodes) > 0 && len(x.rows) < n {
		x.expire(nodes[0])
		nodes = nodes[1:]
	}
	(&rowSorter{byDevice: e.set.ByDevice}).sort(x.rows[len(rows):])
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stats.SeriesEnded += x.ended
	e.oldest = min(e.oldest, x.oldest)
	e.nextScan = e.clock + max(1, min(e.idle/scansPerTimeout, e.length))
	e.searching = nodes
	return x.rows, len(nodes) > 0
}

// expiry is a search for idle series.
type expiry struct {
	e             *Engine
	clock, closed int64
	oldest        int64 // every remaining series was last seen at this time or later
	ended         uint64
	rows          []Row
}

// The expire method ends the idle series of a node.
func (x *expiry) expire(n *node) {
	n.lock()
	defer n.mu.Unlock()
	for _, p := range n.order {
		for _, d := range p.list {
			var idle []*Series
			for _, s := range d.series {
				if x.clock-s.Seen < x.e.idle || s.hasUnsentSamples() || s.Last > x.closed-2*resolution {
					x.oldest = min(x.oldest, s.Seen)
				} else {
					idle = append(idle, s)
				}
			}
			slices.SortStableFunc(idle, func(a, b *Series) int { return cmp.Compare(a.Seen, b.Seen) })
			for _, s := range idle {
				x.end(s)
			}
			d.series = slices.DeleteFunc(d.series, (*Series).Ended)
			d.carried = slices.DeleteFunc(d.carried, (*Series).Ended)
			if len(d.series) <= few {
				d.byIdentity = nil
			}
			if len(d.series) == 0 {
				delete(p.devices, d.ID)
			}
		}
		p.list = slices.DeleteFunc(p.list, func(d *device) bool { return len(d.series) == 0 })
		if len(p.devices) == 0 {
			delete(n.places, p.Key)
			p.Info = nil // a PlacedResource must look up the place again
		}
	}
	if n.order = slices.DeleteFunc(n.order, (*place).isEmpty); len(n.order) == 0 {
		n.remove()
	}
}

// hasUnsentSamples reports whether any window that has not been sent contains a sample of the
// series.
func (s *Series) hasUnsentSamples() bool {
	for range s.windows.open() {
		return true
	}
	return false
}

// resolution is the smallest difference between two timestamps that backends can distinguish.
const resolution = int64(time.Millisecond)

// The end method ends a series and appends the rows that mark the end of the series. Backends
// reject points that are out of order. Therefore, the time of a mark must be later than the last
// point of the series that was sent, and earlier than any point that results from a later sample.
// The time of the mark is earlier than any later point, because it is before the end of the newest
// window that was closed when the series became idle. The time of the mark does not depend on when
// the search takes place. If several series contribute to an output, the series that was seen last
// must end last.
func (x *expiry) end(s *Series) {
	e, d := x.e, s.device
	closed := e.closedAt(s.Seen + e.idle)
	mark := func(m *metric, seq uint64, own Attrs, lastSent int64) *Row {
		if m == nil || lastSent == 0 || !e.set.MarkEnd {
			return &Row{}
		}
		r := d.row(m, seq, own)
		r.Time, r.Ended = max(closed-resolution, lastSent+resolution), true
		x.rows = append(x.rows, r)
		return &x.rows[len(x.rows)-1]
	}
	for i, o := range s.outputs {
		if o.feeders--; o.feeders == 0 {
			mark(o.key.Rule.output, uint64(i), o.key.Own, o.lastSent)
			d.outputs = slices.DeleteFunc(d.outputs, func(other *output) bool { return other == o })
		}
	}
	if s.Sent != nil {
		r := mark(s.shape.metric, s.seq, s.shape.own, max(s.Last, 1))
		r.Extra, r.Start = s.Sent.Attrs, s.Start
	}
	if s.shape.consumed {
		if d.consumed--; d.consumed == 0 {
			mark(e.coverage, 0, "", d.SentEnd)
			mark(e.samples, 0, "", d.SentEnd)
			d.SentEnd = 0
		}
	}
	delete(d.byIdentity, s.shape.identity)
	s.ended, s.next = true, nil
	e.series.Add(-1)
	x.ended++
}
