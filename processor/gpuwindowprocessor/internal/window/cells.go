package window

import (
	"math"
	"slices"
)

const (
	// maxSampleTimes bounds the distinct sample times of one device in one
	// window: a second of resolution over a day.
	maxSampleTimes = 1 << 17
	// maxDescriptive bounds the descriptive attributes that are kept for one
	// device or Resource, so that keys that change all the time cannot pile up.
	maxDescriptive = 128
	// inlineTimes is how many sample times a cell marks without a chunk.
	inlineTimes = 64
	// chunkTimes is how many sample times one chunk marks.
	chunkTimes = 256
)

// slots maps table indices to positions in a window's cells, plus one.
type slots []uint32

func (s slots) get(i uint32) (int, bool) {
	if uint64(i) >= uint64(len(s)) || s[i] == 0 {
		return 0, false
	}
	return int(s[i] - 1), true
}

func (s *slots) set(i uint32, pos int) {
	if grow := int(i) + 1 - len(*s); grow > 0 {
		*s = append(*s, make([]uint32, grow)...)
	}
	(*s)[i] = uint32(pos + 1)
}

// openWindow is the state of one window. Its slices are arenas that are used
// again for later windows.
type openWindow struct {
	end int64
	// era is the engine's when the window was opened.
	era uint32

	seriesSlot, outputSlot, deviceSlot, resourceSlot slots

	cells     []cell
	accs      []accumulator
	outs      []uint32
	devices   []deviceCell
	resources []resourceCell
	lasts     []lastCell
	chunks    []chunk
	// extras are attributes by output that neither identify a series nor are
	// declared descriptive. They are rare, so that most windows have none.
	extras map[uint32]*described
	// notes are the annotations of last values, by series.
	notes annotations
	// refs are used while the window's rows are read.
	refs []ref
}

// cell is the state of an input series in a window.
type cell struct {
	series uint32
	// chunk and last are positions, plus one, in chunks and lasts.
	chunk, last uint32
	// seen marks the device's sample times at which the series was seen.
	seen uint64
}

// chunk marks further sample times of a cell.
type chunk struct {
	seen [chunkTimes / 64]uint64
	next uint32
}

// accumulator is the state of an output series in a window. What a and b hold
// depends on the function: see (*accumulator).value.
// The output that accs[i] belongs to is outs[i].
type accumulator struct{ a, b float64 }

// lastCell is the last value of a series that windows carry as it is.
type lastCell struct {
	time, start int64
	bits        uint64
	series      uint32
	integer     bool
	noted       bool // has annotations
}

// deviceCell is the state of a device in a window.
type deviceCell struct {
	device uint32
	// unsorted says that a sample time arrived out of order.
	unsorted bool
	// hint is the position of the last sample time that was looked up.
	hint int
	// times are the distinct times of samples that a rule consumed, in the
	// order of their arrival.
	times []int64
	// coverage is set when the window is closed.
	coverage float64
	described
}

// resourceCell is the Resource's attributes as last seen in a window.
type resourceCell struct {
	resource uint32
	time     int64
	info     *Resource
}

// described is a set of descriptive attributes. The slice is never changed in
// place, since rows refer to it.
type described struct {
	time  int64
	attrs []Attr
}

// add takes the attribute of a sample of time t into d: of two values the one
// of the later sample wins, of two at the same time the one that arrived later.
// expect is the position at which the attribute is looked for first. The
// position at which it was found and whether d changed are returned.
func (d *described) add(key string, v Value, t int64, expect int) (int, bool) {
	at := expect
	if at >= len(d.attrs) || d.attrs[at].Key != key {
		at = slices.IndexFunc(d.attrs, func(a Attr) bool { return a.Key == key })
	}
	switch {
	case at < 0:
		if len(d.attrs) >= maxDescriptive {
			return expect, false
		}
		// Rows that refer to the slice do not look beyond their own length.
		d.attrs = append(d.attrs, cloneAttr(Attr{Key: key, Value: v}))
		return len(d.attrs) - 1, true
	case d.attrs[at].Value == v || t < d.time:
		return at, false
	default:
		d.attrs = slices.Clone(d.attrs)
		d.attrs[at] = cloneAttr(Attr{Key: key, Value: v})
		return at, true
	}
}

func (w *openWindow) cell(series uint32) *cell {
	if i, ok := w.seriesSlot.get(series); ok {
		return &w.cells[i]
	}
	w.seriesSlot.set(series, len(w.cells))
	w.cells = append(w.cells, cell{series: series})
	return &w.cells[len(w.cells)-1]
}

func (w *openWindow) accumulator(out uint32) *accumulator {
	if i, ok := w.outputSlot.get(out); ok {
		return &w.accs[i]
	}
	w.outputSlot.set(out, len(w.accs))
	w.accs = append(w.accs, accumulator{})
	w.outs = append(w.outs, out)
	return &w.accs[len(w.accs)-1]
}

// device returns the device's cell; a new one starts with the attributes that
// are known of the device, which any sample of this window may replace.
func (w *openWindow) device(device uint32, known []Attr) *deviceCell {
	if i, ok := w.deviceSlot.get(device); ok {
		return &w.devices[i]
	}
	n := len(w.devices)
	w.deviceSlot.set(device, n)
	var times []int64
	if n < cap(w.devices) {
		w.devices = w.devices[:n+1]
		times = w.devices[n].times[:0]
	} else {
		w.devices = append(w.devices, deviceCell{})
	}
	w.devices[n] = deviceCell{device: device, times: times, described: described{attrs: slices.Clip(known), time: math.MinInt64}}
	return &w.devices[n]
}

func (w *openWindow) resource(resource uint32) *resourceCell {
	if i, ok := w.resourceSlot.get(resource); ok {
		return &w.resources[i]
	}
	w.resourceSlot.set(resource, len(w.resources))
	w.resources = append(w.resources, resourceCell{resource: resource, time: math.MinInt64})
	return &w.resources[len(w.resources)-1]
}

// reset empties the window and keeps its arenas.
func (w *openWindow) reset() {
	for i := range w.cells {
		w.seriesSlot[w.cells[i].series] = 0
	}
	for _, out := range w.outs {
		w.outputSlot[out] = 0
	}
	for i := range w.devices {
		w.deviceSlot[w.devices[i].device] = 0
		w.devices[i].attrs = nil
	}
	for i := range w.resources {
		w.resourceSlot[w.resources[i].resource] = 0
		w.resources[i].info = nil
	}
	w.cells, w.accs, w.outs, w.lasts, w.chunks = w.cells[:0], w.accs[:0], w.outs[:0], w.lasts[:0], w.chunks[:0]
	w.devices, w.resources = w.devices[:0], w.resources[:0]
	w.extras, w.notes = nil, nil
}

// position returns the position of t among the device's sample times, to which
// it is added when it is new and there is room.
func (d *deviceCell) position(t int64) (int, bool) {
	n := len(d.times)
	if n > 0 {
		if d.times[d.hint] == t {
			return d.hint, true
		}
		// Series that come one after the other, each with all its times, ask
		// for the times in order.
		if next := d.hint + 1; next < n && d.times[next] == t {
			d.hint = next
			return next, true
		}
		if d.unsorted {
			if i := slices.Index(d.times, t); i >= 0 {
				d.hint = i
				return i, true
			}
		} else if t <= d.times[n-1] {
			i, found := slices.BinarySearch(d.times, t)
			if found {
				d.hint = i
				return i, true
			}
		}
	}
	if n == maxSampleTimes {
		return 0, false
	}
	d.unsorted = d.unsorted || n > 0 && t < d.times[n-1]
	d.times = append(d.times, t)
	d.hint = n
	return n, true
}

// before returns the greatest sample time before t, or 0.
func (d *deviceCell) before(t int64) int64 {
	var found int64
	for _, s := range d.times {
		if s < t && s > found {
			found = s
		}
	}
	return found
}

// mark notes that the series of the cell was seen at the device's sample time
// number pos, and reports whether it had been seen there already.
func (w *openWindow) mark(c *cell, pos int) (seen bool) {
	word := &c.seen
	if pos >= inlineTimes {
		pos -= inlineTimes
		at := c.chunk
		for {
			if at == 0 {
				at = w.chain(c)
			}
			k := &w.chunks[at-1]
			if pos < chunkTimes {
				word = &k.seen[pos/64]
				break
			}
			pos -= chunkTimes
			at = k.next
		}
	}
	bit := uint64(1) << (pos % 64)
	seen = *word&bit != 0
	*word |= bit
	return seen
}

// chain appends a chunk to the cell's chain and returns its position plus one.
func (w *openWindow) chain(c *cell) uint32 {
	w.chunks = append(w.chunks, chunk{})
	at := &c.chunk
	for *at != 0 {
		at = &w.chunks[*at-1].next
	}
	*at = uint32(len(w.chunks))
	return *at
}
