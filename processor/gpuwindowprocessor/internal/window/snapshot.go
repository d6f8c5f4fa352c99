package window

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// A snapshot is magic, version and a stream of gob: the places, each as a tape, then the
// engine. It has no checksum: that is the storage's business.
const (
	magic   = "gpuwindow"
	version = 3 // changes with the layout of what is saved
)

// saved is a place or, at the end, the engine.
type saved struct {
	Place  *tape
	Engine *savedEngine
}

type savedEngine struct {
	Fingerprint             uint64
	Clock, Closed, LeftUpTo int64
	Windows                 []savedWindow
	Shapes                  []savedShape
	// Complete is true if no sample arrived after the snapshot, because a clean shutdown made it.
	Complete bool
	Nodes    []nodeState
}

type savedWindow struct {
	Number uint64
	End    int64
}

type savedShape struct {
	Metric *Metric // nil for points that nothing is made of
	Scope  Scope
	Loose  bool
	Attrs  []Attr
}

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

// Snapshot returns the state. Batches may come in between two places; of what is new in
// them it has only a part, as if they had come later.
func (e *Engine) Snapshot() []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	b := bytes.NewBuffer(make([]byte, 0, e.snapshotSize))
	b.WriteString(magic)
	b.WriteByte(version)
	encoder := gob.NewEncoder(b)
	var shapes []*shape
	t := &tape{e: e, written: map[*Attr]int64{}}
	for _, p := range e.order {
		t.clear()
		t.place(p)
		t.length(len(p.devices))
		for _, d := range p.list {
			t.device(d)
			t.length(len(d.series))
			for _, s := range d.series {
				at := int64(s.Shape.Index)
				if at >= int64(len(shapes)) || shapes[at] != s.Shape {
					at = int64(len(shapes))
					s.Shape.Index = len(shapes)
					shapes = append(shapes, s.Shape)
				}
				t.int(&at)
				t.series(s)
			}
		}
		// What is saved can always be encoded, and the buffer takes it.
		_ = encoder.Encode(saved{Place: t})
		e.mu.Unlock()
		e.mu.Lock()
	}
	s := savedEngine{Fingerprint: e.set.fingerprint(), Clock: e.clock, Closed: e.closed, LeftUpTo: e.leftUpTo, Complete: e.stopped, Nodes: e.savedNodes()}
	for _, w := range e.windows {
		if w.era == e.era {
			s.Windows = append(s.Windows, savedWindow{w.Number, w.end})
		}
	}
	for _, sh := range shapes {
		if sh == &e.sighted {
			s.Shapes = append(s.Shapes, savedShape{})
		} else {
			s.Shapes = append(s.Shapes, savedShape{sh.metric.Metric, *sh.metric.scope.Scope, sh.loose, sh.attrs})
		}
	}
	_ = encoder.Encode(saved{Engine: &s})
	e.snapshotSize = b.Len() + b.Len()/10
	return b.Bytes()
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
	before := int64(math.MinInt64)
	if upTo := leftUpTo.UnixNano(); upTo > e.leftUpTo {
		before = upTo
		for len(e.windows) > 0 && e.windows[0].end <= upTo {
			e.windows[0].left = true
			e.windows = e.windows[1:]
		}
		e.leftUpTo = upTo
		e.closed = max(e.closed, upTo)
		e.clock = max(e.clock, upTo+e.grace)
	}
	// Samples from further ahead came before the clock was set back.
	after := max(e.clock, now.UnixNano()) + e.length
	for _, p := range e.order {
		for _, d := range p.list {
			for _, seen := range []*int64{&d.Before, &d.Newest, &d.Second} {
				if *seen <= before || *seen > after {
					*seen = 0
				}
			}
			for _, s := range d.series {
				s.Seen += away
				e.oldest = min(e.oldest, s.Seen)
				if s.Last <= before || s.Last > after {
					s.Last, s.Moved = 0, 0
				}
			}
		}
	}
	e.observe(now.UnixNano())
	return e, err
}

// read fills an empty engine from a snapshot.
func (e *Engine) read(b []byte) error {
	if !bytes.HasPrefix(b, []byte(magic)) || len(b) == len(magic) {
		return ErrForeign
	}
	if b[len(magic)] != version {
		return ErrVersion
	}
	from := bytes.NewReader(b[len(magic)+1:])
	decoder := gob.NewDecoder(from)
	var places []*saved
	for {
		s := &saved{}
		if err := decoder.Decode(s); err != nil {
			return fmt.Errorf("%w: %w", ErrForeign, err)
		}
		if s.Engine == nil {
			places = append(places, s)
			continue
		}
		if s.Engine.Fingerprint != e.set.fingerprint() {
			return ErrSettings
		}
		r := restoring{e: e, windows: map[uint64]*openWindow{}}
		if from.Len() > 0 || !r.engine(s.Engine) || slices.ContainsFunc(places, func(s *saved) bool { return !r.place(s) }) {
			return ErrForeign
		}
		e.restoreNodes(s.Engine.Nodes)
		if !s.Engine.Complete {
			e.interrupt()
		}
		return nil
	}
}

// restoring puts together what was read from a snapshot. Its methods report whether that
// is sound.
type restoring struct {
	e       *Engine
	windows map[uint64]*openWindow
	shapes  []*shape
}

func (r *restoring) engine(s *savedEngine) bool {
	e := r.e
	// The snapshot's own clock holds until the caller's is observed, so that a
	// step backwards while nobody was looking is noticed like any other.
	e.clock, e.closed, e.leftUpTo = s.Clock, s.Closed, s.LeftUpTo
	for _, w := range s.Windows {
		if w.End%e.length != 0 || len(e.windows) > 0 && w.End <= e.windows[len(e.windows)-1].end {
			return false
		}
		r.windows[w.Number] = &openWindow{Number: w.Number, end: w.End}
		e.windows = append(e.windows, r.windows[w.Number])
		e.made = max(e.made, w.Number)
	}
	for i := range s.Shapes {
		sh, of := &e.sighted, &s.Shapes[i]
		if of.Metric != nil {
			m := e.metric(e.scope(&of.Scope, of.Scope.appendKey(nil)), of.Metric)
			sh = e.shape(m, of.Loose, of.Attrs, appendAttrs(nil, of.Attrs))
		}
		r.shapes = append(r.shapes, sh)
	}
	return true
}

func (r *restoring) place(s *saved) bool {
	t, p := s.Place, &place{}
	if t == nil {
		return false
	}
	t.e, t.reading, t.windows = r.e, true, r.windows
	t.place(p)
	if t.broken || r.e.places[p.Key] != nil {
		return false
	}
	r.e.addPlace(p)
	for range t.length(0) {
		if !r.device(t, p) {
			return false
		}
	}
	return !t.broken && len(t.Numbers)+len(t.Texts)+len(t.Infos) == 0
}

func (r *restoring) device(t *tape, p *place) bool {
	d := &device{}
	t.device(d)
	if t.broken || p.devices[d.ID] != nil {
		return false
	}
	r.e.addDevice(p, d)
	for range t.length(0) {
		at, s := int64(0), &Series{}
		t.int(&at)
		t.series(s)
		if t.broken || at < 0 || at >= int64(len(r.shapes)) {
			return false
		}
		s.Shape = r.shapes[at]
		if s.Shape.metric == nil && s.waits() || d.find(s.Shape.identity) != nil {
			return false
		}
		r.e.addSeries(d, s)
	}
	return !slices.ContainsFunc(d.Outputs, func(o *output) bool { return o.feeders == 0 })
}
