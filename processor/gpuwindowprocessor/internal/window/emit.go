package window

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Row is one point that leaves the engine. Everything that it refers to is
// never changed in place, so that rows may be read without the engine's lock.
type Row struct {
	// Resource, Scope and Metric are the same pointers for all rows that belong
	// together within one call. Scope is nil for rows that a window made.
	Resource *Resource
	Scope    *Scope
	Metric   *Metric
	// Own are the attributes that make the series and Device those that
	// describe its device, including the device's identity; Extra describe the
	// series alone.
	Own, Device, Extra []Attr
	// Start and Time are the window's limits for rows that a window made and
	// the sample's own times for carried ones.
	Start, Time int64
	Value       Number
	// NoValue marks the end of a series.
	NoValue bool
}

// ref is one row to come. Its order is that in which rows leave: by Resource,
// then by metric, then by device.
type ref struct {
	resource uint32
	// rank is the rule for its output, then follow coverage, samples and the
	// carried metrics, scope by scope.
	rank   uint32
	device uint32
	// at is the position of the row's state in its window.
	at uint32
}

func compareRefs(a, b ref) int {
	return cmp.Or(
		cmp.Compare(a.resource, b.resource),
		cmp.Compare(a.rank, b.rank),
		cmp.Compare(a.device, b.device),
		cmp.Compare(a.at, b.at),
	)
}

// ranks returns the rank of every carried metric.
func (e *Engine) ranks() []uint32 {
	order := make([]uint32, len(e.metrics.items))
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortStableFunc(order, func(a, b uint32) int {
		return cmp.Compare(e.metrics.items[a].scope, e.metrics.items[b].scope)
	})
	ranks := make([]uint32, len(order))
	for rank, i := range order {
		ranks[i] = uint32(len(e.windowMetrics) + rank)
	}
	return ranks
}

// Emission is a closed window whose rows are being read.
type Emission struct {
	e    *Engine
	w    *openWindow
	refs []ref
	next int
}

// Fetch takes the oldest window out of the engine that ends at or before upTo,
// whether or not it is closed by the clock. It returns nil when there is none.
// Close the Emission before the next call.
func (e *Engine) Fetch(upTo time.Time) *Emission {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.leftUpTo = max(e.leftUpTo, upTo.UnixNano())
	var w *openWindow
	switch {
	case len(e.stranded) > 0:
		w, e.stranded = e.stranded[0], e.stranded[1:]
	case len(e.windows) > 0 && e.windows[0].end <= upTo.UnixNano():
		w = e.windows[0]
		e.windows = slices.Delete(e.windows, 0, 1)
		e.closed = max(e.closed, w.end)
	default:
		return nil
	}
	e.fetched = w
	e.stats.WindowsClosed++
	em := &Emission{e: e, w: w, refs: w.refs[:0]}
	for i, out := range w.outs {
		o := &e.outputs.items[out]
		if _, ok := w.accs[i].value(&e.set.Rules[o.rule]); !ok {
			continue
		}
		o.left = w.end
		em.refs = append(em.refs, ref{
			resource: e.devices.items[o.device].resource, rank: o.rule, device: o.device, at: uint32(i),
		})
	}
	shortest := int64(math.MaxInt64)
	for i := range w.devices {
		shortest = min(shortest, em.closeDevice(uint32(i)))
	}
	if shortest < math.MaxInt64 {
		if e.stats.WindowsPaired == 0 || time.Duration(shortest) < e.stats.ShortestPair {
			e.stats.ShortestPair = time.Duration(shortest)
		}
		e.stats.WindowsPaired++
	}
	if len(w.lasts) == 0 {
		return em
	}
	ranks := e.ranks()
	for i := range w.lasts {
		l := &w.lasts[i]
		s := &e.series.items[l.series]
		s.flags |= left
		if l.noted || s.flags&noted != 0 {
			s.flags &^= noted
			if e.notes.set(l.series, w.notes[l.series]) {
				s.flags |= noted
			}
		}
		em.refs = append(em.refs, ref{
			resource: e.devices.items[s.device].resource, rank: ranks[s.full], device: s.device, at: uint32(i),
		})
	}
	return em
}

// closeDevice works out how much of the window was observed on a device, and returns the
// shortest time between two of its samples.
func (em *Emission) closeDevice(i uint32) (shortest int64) {
	e, w := em.e, em.w
	dc := &w.devices[i]
	d := &e.devices.items[dc.device]
	current := w.era == e.era
	if current && len(dc.attrs) > 0 {
		d.known = dc.attrs
	}
	shortest = math.MaxInt64
	if len(dc.times) == 0 {
		return shortest
	}
	if dc.unsorted {
		// Positions no longer matter: nothing is added to a closed window.
		slices.Sort(dc.times)
	}
	var observed int64
	previous := d.before
	for _, t := range dc.times {
		if gap := t - previous; previous > 0 && gap > 0 {
			shortest = min(shortest, gap)
			if gap <= e.maxGap {
				observed += gap
			}
		}
		previous = t
	}
	dc.coverage = min(1, float64(observed)/float64(e.length))
	if current {
		d.before = max(d.before, previous)
	}
	if e.set.Coverage.Disabled && e.set.Samples.Disabled {
		return shortest
	}
	d.left = w.end
	r := ref{resource: d.resource, rank: e.coverageRank(), device: dc.device, at: i}
	if !e.set.Coverage.Disabled {
		em.refs = append(em.refs, r)
	}
	if !e.set.Samples.Disabled {
		r.rank++
		em.refs = append(em.refs, r)
	}
	return shortest
}

// coverageRank is the rank of coverage; that of samples follows.
func (e *Engine) coverageRank() uint32 { return uint32(len(e.set.Rules)) }

// maxInt is the least number that an int64 cannot hold.
const maxInt = 1 << 63

// value returns the rule's result, and whether there is one: a function over no
// sample and a ratio over no pair are absent, and so is what its point cannot hold.
func (a *accumulator) value(r *Rule) (float64, bool) {
	if a.b == 0 {
		return 0, false
	}
	v := a.a
	switch r.Function {
	case Mean, Max, Increase:
	case Rate, TimeRatio:
		v /= a.b / float64(time.Second)
	default:
		v /= a.b
	}
	limit := math.MaxFloat64
	if r.Output.Int {
		limit = math.Nextafter(maxInt, 0)
	}
	return v, math.Abs(v) <= limit
}

// End returns the end of the window.
func (em *Emission) End() time.Time { return time.Unix(0, em.w.end) }

// Rows returns the number of rows.
func (em *Emission) Rows() int { return len(em.refs) }

// Next appends at most n further rows to rows, in the order in which they are
// to leave. It holds the engine's lock for these rows only.
func (em *Emission) Next(rows []Row, n int) []Row {
	if em.next == 0 {
		slices.SortFunc(em.refs, compareRefs)
	}
	e := em.e
	e.mu.Lock()
	defer e.mu.Unlock()
	for ; n > 0 && em.next < len(em.refs); n-- {
		rows = append(rows, em.row(&em.refs[em.next]))
		em.next++
	}
	return rows
}

func (em *Emission) row(r *ref) Row {
	e, w := em.e, em.w
	row := Row{Start: w.end - e.length, Time: w.end}
	if i, ok := w.resourceSlot.get(r.resource); ok {
		row.Resource = w.resources[i].info
	}
	if i, ok := w.deviceSlot.get(r.device); ok {
		row.Device = w.devices[i].attrs
	}
	switch coverage := e.coverageRank(); {
	case r.rank < coverage:
		out := w.outs[r.at]
		row.Metric = &e.windowMetrics[r.rank]
		row.Own = e.sets.items[e.outputs.items[out].set].attrs
		row.Value = e.result(&w.accs[r.at], &e.set.Rules[r.rank])
		if x := w.extras[out]; x != nil {
			row.Extra = x.attrs
		}
	case r.rank == coverage:
		row.Metric = &e.windowMetrics[r.rank]
		row.Value = Double(w.devices[r.at].coverage)
	case r.rank == coverage+1:
		row.Metric = &e.windowMetrics[r.rank]
		row.Value = Int(int64(len(w.devices[r.at].times)))
	default:
		l := &w.lasts[r.at]
		s := &e.series.items[l.series]
		m := &e.metrics.items[s.full]
		row.Metric, row.Scope = m.info, e.scopes.items[m.scope].Scope
		row.Own = e.sets.items[s.set].attrs
		row.Start, row.Time, row.Value = l.start, l.time, Number{bits: l.bits, integer: l.integer}
		if l.noted {
			row.Extra = w.notes[l.series]
		}
	}
	return row
}

// result returns the point's value of an output.
func (e *Engine) result(a *accumulator, r *Rule) Number {
	v, _ := a.value(r)
	if r.ratio() || r.Function == ShareAtLeast || r.Function == TimeRatio {
		// Sums of ratios may round beyond 1; only a ratio of times can be
		// beyond it for a reason that is worth counting.
		if r.Function == TimeRatio && v > 1 {
			e.stats.Clamped++
		}
		v = min(max(v, 0), 1)
	}
	if r.Output.Int {
		return Int(int64(math.Round(v)))
	}
	return Double(v)
}

// Close gives the window's memory back.
func (em *Emission) Close() {
	e := em.e
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fetched == em.w {
		e.fetched = nil
		em.w.refs = em.refs[:0]
		e.recycle(em.w)
	}
}

// scansPerTimeout is how often idle series are looked for within IdleTimeout.
const scansPerTimeout = 20

// NextExpiry returns the wall clock before which Expire need not be called.
func (e *Engine) NextExpiry() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.series.len() == 0 {
		return time.Unix(0, math.MaxInt64)
	}
	return time.Unix(0, max(e.nextScan, satAdd(e.oldest, e.idle)))
}

func satAdd(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Expire ends series without a sample for IdleTimeout and appends at most about
// n rows to rows that say so, when MarkEnd is set, in an order in which they may
// leave. A series that still has a sample in a window that was not read ends
// after it. Call it again while more is true.
func (e *Engine) Expire(now time.Time, rows []Row, n int) (_ []Row, more bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.observe(now.UnixNano())
	var ends []endRef
	ranks := e.ranks()
	if e.cursor == 0 {
		e.oldest = math.MaxInt64
	}
	for ; uint64(e.cursor) < uint64(len(e.series.items)); e.cursor++ {
		if len(ends) >= n {
			return e.endRows(rows, ends), true
		}
		if !e.series.live(e.cursor) {
			continue
		}
		seen := e.series.items[e.cursor].seen
		if e.clock-seen < e.idle || e.inWindow(e.cursor) {
			e.oldest = min(e.oldest, seen)
			continue
		}
		e.stats.SeriesEnded++
		ends = e.expire(ends, e.cursor, ranks)
	}
	e.cursor = 0
	e.nextScan = e.clock + max(1, e.idle/scansPerTimeout)
	return e.endRows(rows, ends), false
}

// inWindow reports whether a window that was not read holds a sample of series i.
func (e *Engine) inWindow(i uint32) bool {
	holds := func(w *openWindow) bool {
		_, ok := w.seriesSlot.get(i)
		return ok
	}
	return e.fetched != nil && holds(e.fetched) || slices.ContainsFunc(e.windows, holds) || slices.ContainsFunc(e.stranded, holds)
}

// endRef is a row that marks an end, with its order.
type endRef struct {
	ref
	row Row
}

// expire ends the series at i.
func (e *Engine) expire(ends []endRef, i uint32, ranks []uint32) []endRef {
	s := e.series.items[i]
	d := &e.devices.items[s.device]
	mark := func(rank uint32, row Row, lastLeft int64) {
		if !e.set.MarkEnd || lastLeft == 0 {
			return
		}
		if row.Metric == nil {
			row.Metric = &e.windowMetrics[rank]
		}
		row.Resource, row.Device = e.resources.items[d.resource].info, d.known
		row.Time, row.NoValue = max(e.clock, lastLeft+1), true
		ends = append(ends, endRef{ref: ref{resource: d.resource, rank: rank, device: s.device, at: i}, row: row})
	}
	outs := e.runs.get(s.outs, 2*int(s.outLen))
	for j := 0; j < len(outs); j += 2 {
		o, last := e.outputs.release(outs[j+1])
		if !last {
			continue
		}
		mark(o.rule, Row{Own: e.sets.items[o.set].attrs}, o.left)
		e.sets.release(o.set)
	}
	if s.flags&left != 0 {
		m := &e.metrics.items[s.full]
		mark(ranks[s.full], Row{
			Metric: m.info, Scope: e.scopes.items[m.scope].Scope, Own: e.sets.items[s.set].attrs, Extra: e.notes[i], Start: s.start,
		}, max(s.last, 1))
	}
	if s.flags&consumed != 0 {
		d.consumed--
		if d.consumed == 0 {
			if !e.set.Coverage.Disabled {
				mark(e.coverageRank(), Row{}, d.left)
			}
			if !e.set.Samples.Disabled {
				mark(e.coverageRank()+1, Row{}, d.left)
			}
			d.left = 0
		}
	}
	e.end(i)
	return ends
}

func (e *Engine) endRows(rows []Row, ends []endRef) []Row {
	slices.SortFunc(ends, func(a, b endRef) int { return compareRefs(a.ref, b.ref) })
	for i := range ends {
		rows = append(rows, ends[i].row)
	}
	return rows
}
