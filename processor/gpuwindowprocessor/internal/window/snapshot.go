package window

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc64"
	"maps"
	"math"
	"slices"
	"time"
)

// A snapshot is
//
//	magic, version, fingerprint of the settings, body, CRC-64 of all before.
//
// The body holds the tables with the indices that they have in memory, so that
// references stay as they are, then the open windows.
var snapshotMagic = []byte("gpuwindow")

// snapshotVersion changes with the layout of the body.
const snapshotVersion = 2

const checksumSize = 8

var checksums = crc64.MakeTable(crc64.ECMA)

// What may be wrong with a snapshot.
var (
	// ErrForeign says that the data are no snapshot, or a damaged one.
	ErrForeign = errors.New("not a snapshot, or a damaged one")
	// ErrVersion says that another version of the engine wrote the snapshot.
	ErrVersion = errors.New("snapshot of another version")
	// ErrSettings says that the windows or rules are no longer those of the
	// snapshot.
	ErrSettings = errors.New("snapshot made under other settings")
)

// Snapshot appends the state to b. A window whose rows are being read is not
// part of it.
func (e *Engine) Snapshot(b []byte) []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	start := len(b)
	w := &writer{b: append(b, snapshotMagic...)}
	w.byte(snapshotVersion)
	w.fixed(e.set.fingerprint())
	w.int(e.clock)
	w.int(e.closed)
	w.int(e.leftUpTo)
	writeTable(w, &e.scopes, func(s *scope) {
		w.string(s.Name)
		w.string(s.Version)
		w.string(s.SchemaURL)
		w.attrs(s.Attrs)
	})
	writeTable(w, &e.metrics, func(m *metric) {
		w.byte(byte(m.kind))
		w.string(m.name)
		if w.bool(m.info != nil); m.info == nil {
			return
		}
		w.uint(uint64(m.scope))
		w.string(m.unit)
		w.string(m.info.Description)
		w.attrs(m.info.Metadata)
	})
	writeTable(w, &e.sets, func(s *attrSet) { w.attrs(s.attrs) })
	writeTable(w, &e.resources, func(r *resource) {
		w.string(r.id)
		w.resource(r.info)
	})
	writeTable(w, &e.devices, func(d *device) {
		w.uint(uint64(d.resource))
		w.string(d.id)
		w.attrs(d.known)
		w.int(d.before)
		w.int(d.newest)
		w.int(d.second)
		w.int(d.left)
	})
	writeTable(w, &e.outputs, func(o *output) {
		w.uint(uint64(o.device))
		w.uint(uint64(o.rule))
		w.uint(uint64(o.set))
		w.int(o.left)
	})
	writeTable(w, &e.series, func(s *series) { e.writeSeries(w, s) })
	w.notes(e.notes)
	w.uint(uint64(len(e.windows)))
	for _, win := range e.windows {
		win.write(w)
	}
	return binary.LittleEndian.AppendUint64(w.b, crc64.Checksum(w.b[start:], checksums))
}

// writeTable writes every place of a table: empty ones keep the indices of the
// others as they are.
func writeTable[K comparable, V keyed[K]](w *writer, t *table[K, V], item func(*V)) {
	w.uint(uint64(len(t.items)))
	for i := range t.items {
		live := t.refs[i] > 0
		if w.bool(live); live {
			item(&t.items[i])
		}
	}
}

func (w *writer) notes(of annotations) {
	w.uint(uint64(len(of)))
	for _, at := range slices.Sorted(maps.Keys(of)) {
		w.uint(uint64(at))
		w.attrs(of[at])
	}
}

func (w *writer) resource(r *Resource) {
	w.string(r.SchemaURL)
	w.attrs(r.Attrs)
}

func (e *Engine) writeSeries(w *writer, s *series) {
	w.uint(uint64(s.device))
	w.uint(uint64(s.metric))
	w.uint(uint64(s.set))
	w.byte(byte(s.flags))
	if s.flags&carried != 0 {
		w.uint(uint64(s.full))
	}
	w.uint(uint64(s.outLen))
	for _, v := range e.runs.get(s.outs, 2*int(s.outLen)) {
		w.uint(uint64(v))
	}
	w.int(s.last)
	w.int(s.last - s.moved)
	w.int(s.start)
	w.fixed(math.Float64bits(s.value))
	w.int(s.last - s.seen)
}

func (w *openWindow) write(out *writer) {
	out.int(w.end)
	out.uint(uint64(len(w.chunks)))
	for i := range w.chunks {
		for _, v := range w.chunks[i].seen {
			out.fixed(v)
		}
		out.uint(uint64(w.chunks[i].next))
	}
	out.uint(uint64(len(w.lasts)))
	for i := range w.lasts {
		l := &w.lasts[i]
		out.uint(uint64(l.series))
		out.int(l.time)
		out.int(l.start)
		out.bool(l.integer)
		out.fixed(l.bits)
	}
	out.uint(uint64(len(w.cells)))
	for i := range w.cells {
		c := &w.cells[i]
		out.uint(uint64(c.series))
		out.uint(uint64(c.chunk))
		out.uint(uint64(c.last))
		out.fixed(c.seen)
	}
	out.uint(uint64(len(w.accs)))
	for i := range w.accs {
		out.uint(uint64(w.outs[i]))
		out.fixed(math.Float64bits(w.accs[i].a))
		out.fixed(math.Float64bits(w.accs[i].b))
	}
	out.uint(uint64(len(w.resources)))
	for i := range w.resources {
		out.uint(uint64(w.resources[i].resource))
		out.int(w.resources[i].time)
		out.resource(w.resources[i].info)
	}
	out.uint(uint64(len(w.devices)))
	for i := range w.devices {
		d := &w.devices[i]
		out.uint(uint64(d.device))
		out.int(d.time)
		out.attrs(d.attrs)
		out.uint(uint64(len(d.times)))
		previous := w.end
		for _, t := range d.times {
			out.int(t - previous)
			previous = t
		}
	}
	out.uint(uint64(len(w.extras)))
	for _, at := range slices.Sorted(maps.Keys(w.extras)) {
		x := w.extras[at]
		out.uint(uint64(at))
		out.int(x.time)
		out.attrs(x.attrs)
	}
	out.notes(w.notes)
}

// Restore returns an engine at the wall clock now that goes on where the
// snapshot was made, of which leftUpTo is what is known of the time after it: no
// window that ends there or before leaves again, and what a counter did until
// then may have left already, so that its next sample is a baseline.
//
// A nil snapshot is none. The engine can be used also when there is an error,
// which says why the snapshot was not; it then knows leftUpTo and nothing else.
func Restore(set Settings, now, leftUpTo time.Time, snapshot []byte) (*Engine, error) {
	e := New(set, now)
	var err error
	if snapshot != nil {
		if err = e.read(snapshot); err != nil {
			e = New(set, now)
		}
	}
	// The time without an engine is no time without samples.
	away := max(0, now.UnixNano()-e.clock)
	for i := range e.series.items {
		e.series.items[i].seen += away
		e.oldest = min(e.oldest, e.series.items[i].seen)
	}
	if upTo := leftUpTo.UnixNano(); upTo > e.leftUpTo {
		e.forget(upTo)
		e.leftUpTo = upTo
		e.closed = max(e.closed, upTo)
		e.clock = max(e.clock, upTo+e.grace)
	}
	e.observe(now.UnixNano())
	return e, err
}

// forget drops what may have left in windows up to a time after the snapshot.
func (e *Engine) forget(upTo int64) {
	for len(e.windows) > 0 && e.windows[0].end <= upTo {
		e.recycle(e.windows[0])
		e.windows = e.windows[1:]
	}
	for i := range e.series.items {
		if s := &e.series.items[i]; s.last <= upTo {
			s.last, s.moved = 0, 0
		}
	}
	for i := range e.devices.items {
		d := &e.devices.items[i]
		for _, seen := range []*int64{&d.before, &d.newest, &d.second} {
			if *seen <= upTo {
				*seen = 0
			}
		}
	}
}

// read fills an empty engine from a snapshot.
func (e *Engine) read(b []byte) error {
	if len(b) < len(snapshotMagic)+1+checksumSize || !bytes.HasPrefix(b, snapshotMagic) {
		return ErrForeign
	}
	body, sum := b[:len(b)-checksumSize], binary.LittleEndian.Uint64(b[len(b)-checksumSize:])
	if body[len(snapshotMagic)] != snapshotVersion {
		return ErrVersion
	}
	if crc64.Checksum(body, checksums) != sum {
		return ErrForeign
	}
	r := &reader{b: body[len(snapshotMagic)+1:], keys: map[string]string{}}
	if r.fixed() != e.set.fingerprint() {
		return ErrSettings
	}
	// The snapshot's own clock holds until the caller's is observed, so that a
	// step backwards while nobody was looking is noticed like any other.
	e.clock, e.closed, e.leftUpTo = r.int(), r.int(), r.int()
	e.readTables(r)
	n := r.count(8)
	for range n {
		w := &openWindow{}
		w.read(r, e)
		if r.err != nil {
			return r.err
		}
		if len(e.windows) > 0 && e.windows[len(e.windows)-1].end >= w.end {
			return errTruncated
		}
		e.windows = append(e.windows, w)
	}
	if r.err == nil && len(r.b) > 0 {
		r.fail()
	}
	return r.err
}

// readTable reads a table whose items need no reference yet.
func readTable[K comparable, V keyed[K]](r *reader, t *table[K, V], item func() V) {
	n := r.count(1)
	for i := range n {
		var v V
		live := r.bool()
		if live {
			v = item()
		}
		if r.err != nil {
			return
		}
		t.items = append(t.items, v)
		t.refs = append(t.refs, 0)
		if !live {
			t.free = append(t.free, uint32(i))
			continue
		}
		if _, twice := t.index[v.key()]; twice {
			r.fail()
			return
		}
		t.index[v.key()] = uint32(i)
	}
}

// has reports whether a table that is being read has an item at i.
func has[K comparable, V keyed[K]](t *table[K, V], i uint32) bool {
	if uint64(i) >= uint64(len(t.items)) {
		return false
	}
	at, ok := t.index[t.items[i].key()]
	return ok && at == i
}

// refTo reads the index of an item and takes a reference to it.
func refTo[K comparable, V keyed[K]](r *reader, t *table[K, V]) uint32 {
	i := r.index(len(t.items))
	if r.err != nil || !has(t, i) {
		r.fail()
		return 0
	}
	t.hold(i)
	return i
}

// whole reports whether every item of a table is referred to.
func whole[K comparable, V keyed[K]](t *table[K, V]) bool {
	for _, i := range t.index {
		if t.refs[i] == 0 {
			return false
		}
	}
	return true
}

func (e *Engine) readTables(r *reader) {
	readTable(r, &e.scopes, func() scope {
		s := &Scope{Name: r.string(), Version: r.string(), SchemaURL: r.string(), Attrs: r.attrs()}
		return scope{id: string(s.appendKey(nil, slices.Clone(s.Attrs))), Scope: s}
	})
	readTable(r, &e.metrics, func() metric {
		m := metric{metricKey: metricKey{scope: none, kind: Kind(r.byte()), name: r.string()}}
		if m.kind >= kinds {
			r.fail()
		}
		if r.bool() {
			m.scope = refTo(r, &e.scopes)
			m.unit = r.string()
			m.info = &Metric{Name: m.name, Unit: m.unit, Kind: m.kind, Description: r.string(), Metadata: r.attrs()}
		}
		return m
	})
	readTable(r, &e.sets, func() attrSet {
		attrs := r.attrs()
		return attrSet{id: string(appendSet(nil, attrs)), attrs: attrs}
	})
	readTable(r, &e.resources, func() resource { return resource{id: r.string(), info: r.resource()} })
	readTable(r, &e.devices, func() device {
		return device{
			deviceKey: deviceKey{resource: refTo(r, &e.resources), id: r.string()},
			known:     r.attrs(), before: r.int(), newest: r.int(), second: r.int(), left: r.int(),
		}
	})
	readTable(r, &e.outputs, func() output {
		k := outputKey{device: r.index(len(e.devices.items)), rule: r.index(len(e.set.Rules)), set: refTo(r, &e.sets)}
		return output{outputKey: k, left: r.int()}
	})
	readTable(r, &e.series, func() series { return e.readSeries(r) })
	for _, i := range e.series.index {
		e.series.hold(i)
	}
	e.notes = r.notes(e)
	for at, s := range e.series.items {
		if _, ok := e.notes[uint32(at)]; ok != (s.flags&noted != 0) {
			r.fail()
		}
	}
	if !whole(&e.scopes) || !whole(&e.metrics) || !whole(&e.sets) || !whole(&e.resources) ||
		!whole(&e.devices) || !whole(&e.outputs) {
		r.fail()
	}
}

// notes reads annotations of series, none without an attribute.
func (r *reader) notes(e *Engine) annotations {
	var of annotations
	for range r.count(2) {
		at := r.index(len(e.series.items))
		attrs := r.attrs()
		if r.err != nil || !e.series.live(at) || len(attrs) == 0 {
			r.fail()
			return nil
		}
		of.set(at, attrs)
	}
	return of
}

func (r *reader) resource() *Resource { return &Resource{SchemaURL: r.string(), Attrs: r.attrs()} }

func (e *Engine) readSeries(r *reader) series {
	s := series{
		seriesKey: seriesKey{device: refTo(r, &e.devices), metric: refTo(r, &e.metrics), set: refTo(r, &e.sets)},
		full:      none,
		next:      none,
		flags:     seriesFlags(r.byte()),
	}
	if s.flags >= seriesFlagsEnd || s.flags&(left|carried) == left {
		r.fail()
	}
	if s.flags&carried != 0 {
		s.full = refTo(r, &e.metrics)
		if r.err == nil && e.metrics.items[s.full].info == nil {
			r.fail()
		}
	}
	n := r.count(2)
	if n > math.MaxUint8 {
		r.fail()
		n = 0
	}
	list := make([]uint32, 0, 2*n)
	for range n {
		rule, out := r.index(len(e.set.Rules)), refTo(r, &e.outputs)
		if r.err != nil {
			return s
		}
		if o := &e.outputs.items[out]; o.rule != rule || o.device != s.device {
			r.fail()
			return s
		}
		list = append(list, rule, out)
	}
	s.outs, s.outLen = e.runs.add(list), uint8(n)
	s.last = r.int()
	s.moved = s.last - r.int()
	s.start = r.int()
	s.value = math.Float64frombits(r.fixed())
	s.seen = s.last - r.int()
	if s.flags&consumed != 0 && r.err == nil {
		e.devices.items[s.device].consumed++
	}
	return s
}

func (w *openWindow) read(r *reader, e *Engine) {
	w.end = r.int()
	if w.end%e.length != 0 {
		r.fail()
	}
	for range r.count(chunkTimes/8 + 1) {
		var c chunk
		for i := range c.seen {
			c.seen[i] = r.fixed()
		}
		c.next = uint32(r.uint())
		w.chunks = append(w.chunks, c)
	}
	for i := range w.chunks {
		// Chains only ever grow forwards, which also keeps them from being
		// circles.
		if next := w.chunks[i].next; next != 0 && (int(next) <= i+1 || int(next) > len(w.chunks)) {
			r.fail()
		}
	}
	for range r.count(12) {
		l := lastCell{series: r.index(len(e.series.items)), time: r.int(), start: r.int(), integer: r.bool(), bits: r.fixed()}
		if r.err != nil || !e.series.live(l.series) || e.series.items[l.series].flags&carried == 0 {
			r.fail()
			return
		}
		w.lasts = append(w.lasts, l)
	}
	for range r.count(11) {
		c := cell{
			series: r.index(len(e.series.items)),
			chunk:  r.index(len(w.chunks) + 1), last: r.index(len(w.lasts) + 1), seen: r.fixed(),
		}
		if _, twice := w.seriesSlot.get(c.series); r.err != nil || twice || !e.series.live(c.series) {
			r.fail()
			return
		}
		*w.cell(c.series) = c
	}
	for i := range w.lasts {
		at, ok := w.seriesSlot.get(w.lasts[i].series)
		if !ok || w.cells[at].last != uint32(i+1) {
			r.fail()
			return
		}
	}
	for range r.count(17) {
		out := r.index(len(e.outputs.items))
		a := accumulator{a: math.Float64frombits(r.fixed()), b: math.Float64frombits(r.fixed())}
		if _, twice := w.outputSlot.get(out); r.err != nil || twice || !e.outputs.live(out) {
			r.fail()
			return
		}
		*w.accumulator(out) = a
	}
	for range r.count(4) {
		c := resourceCell{resource: r.index(len(e.resources.items)), time: r.int(), info: r.resource()}
		if _, twice := w.resourceSlot.get(c.resource); r.err != nil || twice || !e.resources.live(c.resource) {
			r.fail()
			return
		}
		*w.resource(c.resource) = c
	}
	w.readDevices(r, e)
	for range r.count(3) {
		out := r.index(len(e.outputs.items))
		x := &described{time: r.int(), attrs: r.attrs()}
		if w.extras == nil {
			w.extras = map[uint32]*described{}
		}
		w.extras[out] = x
	}
	w.notes = r.notes(e)
	for i := range w.lasts {
		_, w.lasts[i].noted = w.notes[w.lasts[i].series]
	}
	for i := range w.cells {
		s := &e.series.items[w.cells[i].series]
		_, known := w.deviceSlot.get(s.device)
		_, placed := w.resourceSlot.get(e.devices.items[s.device].resource)
		if !known || !placed {
			r.fail()
			return
		}
	}
}

func (w *openWindow) readDevices(r *reader, e *Engine) {
	for range r.count(4) {
		device := r.index(len(e.devices.items))
		if _, twice := w.deviceSlot.get(device); r.err != nil || twice || !e.devices.live(device) {
			r.fail()
			return
		}
		d := w.device(device, nil)
		d.time, d.attrs = r.int(), r.attrs()
		previous := w.end
		n := r.count(1)
		if n > maxSampleTimes {
			r.fail()
			return
		}
		for range n {
			previous += r.int()
			if previous > w.end || previous <= w.end-e.length {
				r.fail()
				return
			}
			d.unsorted = d.unsorted || len(d.times) > 0 && previous < d.times[len(d.times)-1]
			d.times = append(d.times, previous)
		}
	}
}
