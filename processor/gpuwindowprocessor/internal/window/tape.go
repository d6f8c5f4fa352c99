package window

import (
	"math"
	"math/bits"
)

// tape carries the state of a place into a snapshot or out of it. Its methods write what
// they are given or, while reading, set it, so that one description serves both ways.
// Nearly all are numbers: one list of them takes a third of the time that gob needs for as
// many structs (BenchmarkSnapshot).
type tape struct {
	Numbers []int64
	Texts   []string
	Attrs   [][]Attr
	Infos   []*Resource

	e       *Engine
	written map[*Attr]int64 // position in Attrs by the first attribute
	reading bool
	windows map[uint64]*openWindow // by number, while reading
	broken  bool                   // what was asked for is not there
}

// clear makes the tape that of the next place that is written.
func (t *tape) clear() {
	t.Numbers, t.Texts, t.Attrs, t.Infos = t.Numbers[:0], t.Texts[:0], t.Attrs[:0], t.Infos[:0]
	clear(t.written)
}

// take moves a value to or from the list that holds it.
func take[T any](t *tape, list *[]T, v *T) {
	switch {
	case !t.reading:
		*list = append(*list, *v)
	case len(*list) == 0:
		t.broken = true
	default:
		*v, *list = (*list)[0], (*list)[1:]
	}
}

func (t *tape) int(v *int64) { take(t, &t.Numbers, v) }

func (t *tape) uint(v *uint64) {
	n := int64(*v)
	t.int(&n)
	*v = uint64(n)
}

// float turns the bytes around, because gob writes small numbers in few bytes.
func (t *tape) float(v *float64) {
	n := bits.ReverseBytes64(math.Float64bits(*v))
	t.uint(&n)
	*v = math.Float64frombits(bits.ReverseBytes64(n))
}

func (t *tape) bool(v *bool) {
	n := int64(0)
	if *v {
		n = 1
	}
	t.int(&n)
	*v = n != 0
}

// has moves whether something is there.
func (t *tape) has(is bool) bool {
	t.bool(&is)
	return is
}

// length moves the length of a list, of which each item has a number at least.
func (t *tape) length(n int) int {
	v := int64(n)
	t.int(&v)
	if t.reading && (v < 0 || v > int64(len(t.Numbers))) {
		t.broken = true
		return 0
	}
	return int(v)
}

// attrs writes a list that many things share once.
func (t *tape) attrs(v *[]Attr) {
	at := int64(-1)
	if !t.reading && len(*v) > 0 {
		first := &(*v)[0]
		if _, known := t.written[first]; !known {
			t.written[first] = int64(len(t.Attrs))
			t.Attrs = append(t.Attrs, *v)
		}
		at = t.written[first]
	}
	t.int(&at)
	switch {
	case !t.reading || at == -1:
	case at < 0 || at >= int64(len(t.Attrs)):
		t.broken = true
	default:
		*v = t.Attrs[at]
	}
}

func (t *tape) notes(v **annotations) {
	if !t.has(*v != nil) {
		return
	}
	if t.reading {
		*v = &annotations{}
	}
	t.attrs(&(*v).Attrs)
}

func (t *tape) details(v *details) {
	t.int(&v.Time)
	t.attrs(&v.Attrs)
}

// list moves all items of a list.
func list[T any](t *tape, items *[]T, item func(*T)) {
	n := t.length(len(*items))
	if t.reading {
		*items = make([]T, n)
	}
	for i := range *items {
		item(&(*items)[i])
	}
}

// states moves the states in open windows. Those of a window that the snapshot does not
// have, because it is newer, are left out.
func states[T any](t *tape, all *perWindow[T], state func(*T)) {
	n := 0
	for range all.open() {
		n++
	}
	n = t.length(n)
	for at := range all.open() {
		t.uint(&at.Window.Number)
		state(&at.State)
	}
	for range n {
		if !t.reading {
			break
		}
		number, read := uint64(0), *new(T)
		t.uint(&number)
		state(&read)
		if w := t.windows[number]; w != nil {
			at, _ := all.in(w)
			*at = read
		}
	}
}

func (t *tape) place(p *place) {
	take(t, &t.Texts, &p.Key)
	take(t, &t.Infos, &p.Info)
	states(t, &p.Windows, func(pw *placeWindow) {
		t.int(&pw.Time)
		take(t, &t.Infos, &pw.Info)
	})
}

func (t *tape) device(d *device) {
	take(t, &t.Texts, &d.ID)
	t.attrs(&d.Known)
	for _, v := range []*int64{&d.Before, &d.Newest, &d.Second, &d.Left} {
		t.int(v)
	}
	states(t, &d.Windows, func(dw *deviceWindow) {
		list(t, &dw.Times, t.int)
		t.details(&dw.Known)
		for _, at := range dw.Times {
			dw.latest = max(dw.latest, at)
		}
	})
	list(t, &d.Outputs, t.output)
}

func (t *tape) output(v **output) {
	if t.reading {
		*v = &output{Key: &outputKey{}}
	}
	o := *v
	at := int64(0)
	if !t.reading {
		at = int64(o.Key.Rule.position)
	}
	t.int(&at)
	t.attrs(&o.Key.Own)
	t.int(&o.Left)
	if at < 0 || at >= int64(len(t.e.rules)) {
		t.broken = true
		return
	}
	if t.reading {
		o.Key.Rule = t.e.rules[at]
	}
	states(t, &o.Windows, func(ow *outputWindow) {
		if t.reading {
			ow.Function = o.Key.Rule.newFunction()
		}
		ow.Function.state(t)
		if t.has(ow.Extra != nil) {
			if t.reading {
				ow.Extra = &details{}
			}
			t.details(ow.Extra)
		}
	})
}

func (t *tape) series(s *Series) {
	for _, v := range []*int64{&s.Last, &s.Moved, &s.Start, &s.Seen} {
		t.int(v)
	}
	t.float(&s.Value)
	t.notes(&s.Left)
	states(t, &s.Windows, func(sw *seriesWindow) {
		t.uint(&sw.Marks)
		if t.has(sw.More != nil) {
			if t.reading {
				sw.More = &[]uint64{}
			}
			list(t, sw.More, t.uint)
		}
		if t.has(sw.Last != nil) {
			if t.reading {
				sw.Last = &lastValue{}
			}
			t.last(sw.Last)
		}
	})
}

func (t *tape) last(l *lastValue) {
	t.int(&l.Time)
	t.int(&l.Start)
	t.uint(&l.Value.Bits)
	t.bool(&l.Value.Integer)
	t.notes(&l.Notes)
}
