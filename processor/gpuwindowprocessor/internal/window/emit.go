package window

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Row is one point that is ready to be sent. The data that a Row points to is never modified, so
// rows can be read without a lock.
type Row struct {
	// Within one call, all rows with the same Resource have the same Resource pointer. The same
	// applies to Scope and Metric. For the results of rules, Scope is nil.
	Resource *Resource
	Scope    *Scope
	Metric   *Metric
	Own      Attrs // Attributes that identify the series.
	Device   Attrs // Attributes that identify and describe the device.
	Extra    Attrs // Attributes that describe only the series or its samples.
	// For the results of rules, Start and Time are the start and the end of the window. For samples
	// that windows carry, Start and Time are the times of the sample.
	Start, Time int64
	Value       Number
	Ended       bool // whether the row marks the end of a series and has no value

	device *device
	metric *metric
	seq    uint64
}

// row returns a row without times or a value.
func (d *device) row(m *metric, seq uint64, own Attrs) Row {
	r := Row{Resource: d.place.Info, Metric: m.Metric, Own: own, Device: d.Known, device: d, metric: m, seq: seq}
	if m.scope != nil {
		r.Scope = m.scope.Scope
	}
	return r
}

// rowKey is the sort key of a row. Rows are sorted by Resource, then by metric, and then by device.
// Metrics that rules compute come first. If ByDevice is set, rows are sorted by device before they
// are sorted by metric.
type rowKey struct {
	place, first, scope, metric, device, seq uint64
	at                                       int // index of the row before it is moved
}

func (k *rowKey) compare(o *rowKey) int {
	return cmp.Or(
		cmp.Compare(k.place, o.place), cmp.Compare(k.first, o.first), cmp.Compare(k.scope, o.scope),
		cmp.Compare(k.metric, o.metric), cmp.Compare(k.device, o.device), cmp.Compare(k.seq, o.seq),
	)
}

// rowSorter sorts rows into the order in which they are sent. First, rowSorter sorts the keys of
// the rows, because keys are smaller than rows. Then, rowSorter moves each row only once.
type rowSorter struct {
	byDevice bool
	keys     []rowKey // reused buffer
}

func (o *rowSorter) sort(rows []Row) {
	keys := o.keys[:0]
	for i := range rows {
		r := &rows[i]
		k := rowKey{place: r.device.place.seq, device: r.device.seq, seq: r.seq, at: i}
		if o.byDevice {
			k.first = k.device
		}
		k.scope, k.metric = r.metric.rowOrder()
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b rowKey) int { return a.compare(&b) })
	for i := range keys {
		first, to := rows[i], i
		for from := keys[to].at; from != i; from = keys[to].at {
			rows[to] = rows[from]
			keys[to].at = to
			to = from
		}
		rows[to] = first
		keys[to].at = to
	}
	o.keys = keys
}

// Emission is a window whose rows are being read.
type Emission struct {
	e        *Engine
	w        *openWindow
	nodes    []*node // Nodes whose rows have not been read.
	places   int     // Number of places whose rows have been read, in the first node of the nodes slice.
	shortest int64   // Shortest time from the previous sample of a device to a sample in the window, or 0 if there is none.
	clamped  uint64
	sorter   rowSorter
}

// Fetch removes the oldest window that ends at or before upTo from the engine, even if the window
// is not closed yet. If there is no such window, Fetch returns nil. The caller must close the
// Emission before it calls Fetch, Expire, or Store again.
func (e *Engine) Fetch(upTo time.Time) *Emission {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sentUpTo = max(e.sentUpTo, upTo.UnixNano())
	if len(e.windows) == 0 || !e.due(e.windows[0], upTo.UnixNano()) {
		return nil
	}
	w := e.windows[0]
	e.windows = slices.Delete(e.windows, 0, 1)
	if w.era == e.era {
		e.closed = max(e.closed, w.end)
	}
	return &Emission{e: e, w: w, nodes: slices.Clone(e.order), sorter: rowSorter{byDevice: e.set.ByDevice}}
}

// End returns the end of the window.
func (em *Emission) End() time.Time { return time.Unix(0, em.w.end) }

// Next appends more rows to the rows slice, in the order in which they must be sent. Next appends
// the rows of one complete Resource after another until the slice contains at least n rows. Next
// locks each node only while it reads the rows of that node. The caller must call Next again as
// long as the second result is true.
func (em *Emission) Next(rows []Row, n int) (_ []Row, more bool) {
	for len(em.nodes) > 0 && len(rows) < n {
		rows = em.appendNodeRows(rows, em.nodes[0], n)
	}
	return rows, len(em.nodes) > 0
}

func (em *Emission) appendNodeRows(rows []Row, of *node, n int) []Row {
	of.lock()
	defer of.mu.Unlock()
	for ; em.places < len(of.order) && len(rows) < n; em.places++ {
		rows = em.appendPlaceRows(rows, of.order[em.places])
	}
	if em.places == len(of.order) {
		em.nodes, em.places = em.nodes[1:], 0
	}
	return rows
}

// Close ends the emission. Rows that have not been read are lost.
func (em *Emission) Close() {
	em.Next(nil, math.MaxInt)
	em.w.sent.Store(true)
	e := em.e
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stats.WindowsClosed++
	e.stats.Clamped += em.clamped
	if shortest := time.Duration(em.shortest); shortest > 0 {
		if e.stats.WindowsPaired == 0 || shortest < e.stats.ShortestPair {
			e.stats.ShortestPair = shortest
		}
		e.stats.WindowsPaired++
	}
}

// appendPlaceRows appends the rows of a place.
func (em *Emission) appendPlaceRows(rows []Row, p *place) []Row {
	begin := len(rows)
	for _, d := range p.list {
		if dw := d.windows.find(em.w); dw != nil {
			rows = em.appendDeviceRows(rows, d, dw)
		}
	}
	if pw := p.windows.find(em.w); pw != nil {
		for i := range rows[begin:] {
			rows[begin+i].Resource = pw.Info
		}
	}
	em.sorter.sort(rows[begin:])
	return rows
}

// sortOutputs sorts the outputs and the carried series of a device in the order in which their rows
// are sent, so that the rows themselves need little sorting.
func (d *device) sortOutputs() {
	if d.ordered {
		return
	}
	d.ordered = true
	slices.SortStableFunc(d.outputs, func(a, b *output) int { return a.key.Rule.output.compare(b.key.Rule.output) })
	slices.SortStableFunc(d.carried, func(a, b *Series) int { return a.shape.metric.compare(b.shape.metric) })
}

// appendDeviceRows appends the rows of a device.
func (em *Emission) appendDeviceRows(rows []Row, d *device, dw *deviceWindow) []Row {
	e, w := em.e, em.w
	d.sortOutputs()
	if w.era == d.place.node.era && dw.Known.Attrs != "" {
		d.Known = dw.Known.Attrs
	}
	add := func(m *metric, seq uint64, own Attrs, v Number) *Row {
		r := d.row(m, seq, own)
		r.Device, r.Start, r.Time, r.Value = dw.Known.Attrs, w.end-e.length, w.end, v
		rows = append(rows, r)
		return &rows[len(rows)-1]
	}
	for i, o := range d.outputs {
		ow := o.windows.find(w)
		if ow == nil {
			continue
		}
		v, ok := o.key.Rule.result(ow.Function)
		if !ok {
			continue
		}
		// Count only time ratios. No other result that is a ratio can exceed 1, because the samples
		// are already clamped.
		if o.key.Rule.function.ratio && o.key.Rule.function.counts && v > 1 {
			em.clamped++
		}
		o.lastSent = w.end
		r := add(o.key.Rule.output, uint64(i), o.key.Own, o.key.Rule.number(v))
		if ow.Extra != nil {
			r.Extra = ow.Extra.Attrs
		}
	}
	coverage := em.coverage(d, dw)
	if e.coverage != nil && len(dw.Times) > 0 {
		d.SentEnd = w.end
		add(e.coverage, 0, "", Double(coverage))
	}
	if e.samples != nil && len(dw.Times) > 0 {
		d.SentEnd = w.end
		add(e.samples, 0, "", Int(int64(len(dw.Times))))
	}
	for _, s := range d.carried {
		if sw := s.windows.find(w); sw != nil && sw.Last != nil && sw.Last.Notes != nil {
			r := add(s.shape.metric, s.seq, s.shape.own, sw.Last.Value)
			r.Extra, r.Start, r.Time = sw.Last.Notes.Attrs, sw.Last.Start, sw.Last.Time
			s.Sent = sw.Last.Notes
		}
	}
	return rows
}

// coverage returns the share of the window during which the device was observed.
func (em *Emission) coverage(d *device, dw *deviceWindow) float64 {
	// The times can be sorted because no samples are added to a closed window.
	slices.Sort(dw.Times)
	observed, previous := int64(0), d.Before
	for _, t := range dw.Times {
		if gap := t - previous; previous > 0 && gap > 0 {
			if em.shortest == 0 || gap < em.shortest {
				em.shortest = gap
			}
			if gap <= em.e.maxGap && !d.place.node.wasAbsent(previous, t) {
				observed += gap
			}
		}
		previous = t
	}
	if em.w.era == d.place.node.era {
		d.Before = max(d.Before, previous)
	}
	return min(1, float64(observed)/float64(em.e.length))
}
