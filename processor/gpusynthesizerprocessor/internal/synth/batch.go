package synth

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/exporters"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Batch collects rows and computes samples from them. A Batch must be used by only one goroutine.
type Batch struct {
	*Synthesizer

	now     time.Time     // When the batch arrived.
	arrived time.Duration // Time from the first batch to now, as measured by the monotonic clock.

	rows      []observation
	have      content             // Kinds of rows in the batch.
	readings  []catalogue.Reading // Reused buffer.
	scrapes   []scraped           // Sources of the rows, by sample time.
	unproven  []*Source           // Sources that had not exposed a device before this batch.
	conflict  *Conflict
	diagnosis *diagnosis // nil unless gpu.signal.available is enabled
	active    []*accumulator
	pool      []*accumulator
	stats     Stats
	changed   []Place
	frames    []*gpudata.Frame // Frames of the current node.
}

// Begin returns an empty batch. The now parameter is the arrival time of the batch. The arrival
// time must be zero or have a monotonic clock reading. If the arrival time is zero, no sample is
// treated as being in the future, and a sample that is older than another sample is always treated
// as late.
func (s *Synthesizer) Begin(now time.Time) *Batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b *Batch
	if n := len(s.idle); n > 0 {
		b, s.idle = s.idle[n-1], s.idle[:n-1]
	} else {
		b = &Batch{Synthesizer: s}
		if !slices.Contains(s.disabled, signal.GPUSignalAvailable) {
			b.diagnosis = &diagnosis{}
		}
	}
	b.now, b.arrived = now, 0
	switch {
	case now.IsZero():
	case s.began.IsZero():
		s.began = now
	default:
		b.arrived = now.Sub(s.began)
	}
	return b
}

// End ends the batch. The batch must not be used after End.
func (b *Batch) End() {
	b.stats, b.conflict, b.changed = Stats{}, nil, nil
	b.mu.Lock()
	defer b.mu.Unlock()
	b.idle = append(b.idle, b)
}

// TakeStats returns the counts since the previous call to TakeStats.
func (b *Batch) TakeStats() Stats {
	out := b.stats
	b.stats = Stats{}
	return out
}

// TakeConflict returns a conflict that was detected since the previous call to TakeConflict, or nil
// if none was detected.
func (b *Batch) TakeConflict() *Conflict {
	c := b.conflict
	b.conflict = nil
	return c
}

// TakeChanged returns the places whose State changed since the previous call to TakeChanged.
func (b *Batch) TakeChanged() []Place {
	changed := b.changed
	b.changed = nil
	return changed
}

// Add adds one row to the batch. If the row does not name its source, src is nil. The at parameter
// is the sample time in nanoseconds since the epoch.
func (b *Batch) Add(row *Row, src *Source, spelling catalogue.Spelling, at int64, exposed float64) {
	if row.drop != DropNone {
		b.stats.Dropped[row.drop]++
		return
	}
	if b.future(at) {
		b.stats.Dropped[DropFuture]++
		return
	}
	field := spelling.Field
	if spelling.Cut != nil {
		if field = spelling.Cut[row.cut]; field == nil {
			b.stats.Dropped[DropOtherEntity]++
			return
		}
	}
	h := &b.have
	h.unresolved = h.unresolved || row.of.Resolve != nil
	h.relayed = h.relayed || row.relayed && !row.of.OfContainers
	h.ofOthers = h.ofOthers || row.of.OfContainers
	h.processes = h.processes || row.process != nil
	h.scaled = h.scaled || spelling.Unit == catalogue.RatioOrPercent
	h.placeless = h.placeless || row.of.OfContainers && row.place.Node == ""
	if n := len(b.rows); n > 0 {
		last := &b.rows[n-1]
		h.mixed = h.mixed || last.time != at || last.source != src
		h.nodes = h.nodes || last.row.place.Node != row.place.Node
	}
	b.rows = append(b.rows, observation{row, field, spelling.Unit, spelling.BaseUnits, spelling.Alias, at, exposed, src, false})
}

// Drop counts a value that the caller rejected for the given reason.
func (b *Batch) Drop(reason DropReason) { b.stats.Dropped[reason]++ }

// future reports whether a sample time is too far ahead of the wall clock.
func (b *Batch) future(at int64) bool { return !b.now.IsZero() && gpudata.Ahead(at, b.now) }

// Flush returns the frames of the batch, oldest first.
func (b *Batch) Flush() []*gpudata.Frame {
	b.assignSources()
	if b.have.relayed {
		b.findTargets()
	}
	all := b.rows
	if b.have.placeless {
		b.eachNode(b.rows, (*node).identify)
		b.rows = slices.DeleteFunc(b.rows, func(o observation) bool { return o.row == nil })
		b.findNodes()
	}
	var frames []*gpudata.Frame
	b.eachNode(b.rows, func(s *node) {
		if !s.have.placeless {
			s.identify()
		}
		s.flush()
		frames = append(frames, s.frames...)
		s.frames = nil
	})
	if b.have.nodes {
		slices.SortStableFunc(frames, func(x, y *gpudata.Frame) int { return cmp.Compare(x.Time, y.Time) })
	}
	b.forgetUnproven()
	b.sweep()
	clear(all)
	b.rows, b.have = all[:0], content{}
	return frames
}

// eachNode sorts rows by node. For each node, eachNode sets b.rows to the rows of that node and
// then calls f. The function f may remove rows from b.rows. Removed rows, and the rows of nodes
// beyond the limit, are replaced with zero observations in the rows slice.
func (b *Batch) eachNode(rows []observation, f func(*node)) {
	if b.have.nodes {
		slices.SortStableFunc(rows, func(x, y observation) int { return cmp.Compare(x.node(), y.node()) })
	}
	all := b.rows
	for len(rows) > 0 {
		of, n := rows[0].node(), len(rows)
		if b.have.nodes {
			if next := slices.IndexFunc(rows, func(o observation) bool { return o.node() != of }); next > 0 {
				n = next
			}
		}
		b.rows = rows[:n:n]
		if !b.withNode(of, f) {
			b.stats.Dropped[DropDeviceLimit] += int64(n)
			clear(b.rows)
		}
		rows = rows[n:]
	}
	b.rows = all
}

// withNode calls f with the state of a node. If the node limit is reached, withNode returns false
// without calling f.
func (b *Batch) withNode(name string, f func(*node)) bool {
	return b.nodes.With(b.place(Place{Node: name}), b.now, func(s *node) {
		s.Batch = b
		f(s)
		s.takeChanged()
		s.Batch = nil
	})
}

// sweep removes state that no scrape has used for longer than idleLimit. The state is checked at
// most once every idleLimit/4.
func (b *Batch) sweep() {
	removed := false
	swept := b.nodes.Sweep(b.now, idleLimit/4, func(_ string, s *node, _ time.Time) (gone bool) {
		s.Batch = b
		removed = s.sweep() || removed
		s.takeChanged()
		s.Batch = nil
		return len(s.devices) == 0 && len(s.claims) == 0 && len(s.migs) == 0
	})
	if !swept {
		return
	}
	b.migged.Free(b.boards.forget(b.arrived))
	b.sources.sweep(b.arrived)
	if removed {
		b.targets.clear()
	}
}

// node returns the name of the node to which a row belongs.
func (o *observation) node() string {
	if o.row.located != "" {
		return o.row.located
	}
	return o.row.place.Node
}

// targets contains the pods that were scraped by Prometheus servers that relay metrics. If a GPU
// has no holder, the scraped pod is named as the holder in the GPU's rows, even if no other GPU on
// the node has a holder.
type targets struct {
	mu   sync.RWMutex
	pods catalogue.Targets
}

func (t *targets) has(h catalogue.Holder) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.pods.Has(h)
}

func (t *targets) add(h catalogue.Holder) {
	if t.has(h) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pods.Add(h)
}

func (t *targets) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.pods)
}

// findTargets records the scraped pods that are named in the rows of the batch.
func (b *Batch) findTargets() {
	for i := range b.rows {
		if r := b.rows[i].row; r.relayed && !r.of.OfContainers {
			b.targets.add(r.target)
		}
	}
}

// boardIndex contains the places of all boards. The rows of container and process exporters might
// not name their node. If exactly one place has the board of a row, the row belongs to the node of
// that place.
type boardIndex struct {
	mu     sync.Mutex
	places map[string][]Place // By hw.id.
	// Boards of MIG devices, by MIG UUID. Only rows that do not name their node are recorded.
	migs map[string]migBoard
}

type migBoard struct {
	id      string
	arrived time.Duration
}

func (x *boardIndex) add(id string, p Place) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.places[id] = append(x.places[id], p)
}

func (x *boardIndex) remove(id string, p Place) {
	x.mu.Lock()
	defer x.mu.Unlock()
	places := x.places[id]
	if i := slices.Index(places, p); i >= 0 {
		places = slices.Delete(places, i, i+1)
	}
	if x.places[id] = places; len(places) == 0 {
		delete(x.places, id)
	}
}

// findNodes determines the node of each row that does not name its node.
func (b *Batch) findNodes() {
	x := &b.boards
	x.mu.Lock()
	defer x.mu.Unlock()
	placeless := func(r *Row) bool { return r.of.OfContainers && r.place.Node == "" }
	for i := range b.rows {
		r := b.rows[i].row
		if _, known := x.migs[r.migUUID]; placeless(r) && r.migUUID != "" && r.instance != "" && (known || b.migged.Take()) {
			x.migs[r.migUUID] = migBoard{r.is.Board, b.arrived}
		}
	}
	located := map[*Row]*Row{} // rows are copied, because a later batch may find a different node for the same Row
	for i := range b.rows {
		o := &b.rows[i]
		if !placeless(o.row) {
			continue
		}
		r := located[o.row]
		if r == nil {
			copied := *o.row
			r = &copied
			located[o.row] = r
			r.located = x.nodeOf(r)
		}
		o.row = r
		b.have.nodes = true
	}
}

// nodeOf determines the node of a row that does not name its node. The result is the node that has
// the row's board, or "" if no place or several places have the board. For a row of a process, if
// no single place has the board or the row names no board, the result is the node of the only place
// that has any boards. The caller must hold x.mu.
func (x *boardIndex) nodeOf(r *Row) string {
	if r.process == nil {
		id := r.is.Board
		if mig, known := x.migs[cmp.Or(r.migUUID, id)]; known {
			id = mig.id
		}
		if node := onlyNode(x.places[id]); node != "" {
			return node
		}
		id = exporters.BoardID(id)
		return onlyNode(x.places[id])
	}
	if id := r.process.Named.Board; id != "" {
		if node := onlyNode(x.places[id]); node != "" {
			return node
		}
	}
	return onlyNode(slices.Collect(maps.Values(x.places))...)
}

// onlyNode returns the node of the only place in the lists. If the lists are empty, or if they
// contain different places, the result is "".
func onlyNode(lists ...[]Place) string {
	var found *Place
	for _, places := range lists {
		for i := range places {
			if found != nil && *found != places[i] {
				return ""
			}
			found = &places[i]
		}
	}
	if found == nil {
		return ""
	}
	return found.Node
}

// The forget method removes MIG devices that no row has named for longer than idleLimit. The result
// is the number of removed devices.
func (x *boardIndex) forget(arrived time.Duration) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	before := len(x.migs)
	maps.DeleteFunc(x.migs, func(_ string, m migBoard) bool { return arrived-m.arrived > idleLimit })
	return before - len(x.migs)
}
