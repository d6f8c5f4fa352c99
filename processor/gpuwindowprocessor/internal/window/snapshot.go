package window

import (
	"bytes"
	"cmp"
	"encoding/gob"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// A snapshot is magic, version and a stream of gob: the places, then the engine. It has
// no checksum: that is the storage's business.
const (
	magic   = "gpuwindow"
	version = 3 // changes with the layout of what is saved
)

// saved is a place or, at the end, the engine.
type saved struct {
	Place   *place
	Devices []savedDevice
	Engine  *savedEngine
}

type savedDevice struct {
	Device *device
	Series []*Series
}

type savedEngine struct {
	Fingerprint             uint64
	Clock, Closed, LeftUpTo int64
	Windows                 []savedWindow
	Shapes                  []savedShape
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
	b := bytes.NewBufferString(magic)
	b.WriteByte(version)
	encoder := gob.NewEncoder(b)
	var shapes []*shape
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range e.order {
		s := saved{Place: p}
		for _, d := range sorted(p.devices, func(d *device) uint64 { return d.seq }) {
			series := sorted(d.series, func(s *Series) uint64 { return s.seq })
			s.Devices = append(s.Devices, savedDevice{d, series})
			for _, s := range series {
				if at := s.Shape.Index; at >= len(shapes) || shapes[at] != s.Shape {
					s.Shape.Index = len(shapes)
					shapes = append(shapes, s.Shape)
				}
			}
		}
		// What is saved can always be encoded, and the buffer takes it.
		_ = encoder.Encode(s)
		e.mu.Unlock()
		e.mu.Lock()
	}
	s := savedEngine{Fingerprint: e.set.fingerprint(), Clock: e.clock, Closed: e.closed, LeftUpTo: e.leftUpTo}
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
	return b.Bytes()
}

// sorted returns the values in the order in which they were made.
func sorted[T any](items map[string]T, seq func(T) uint64) []T {
	return slices.SortedFunc(maps.Values(items), func(a, b T) int { return cmp.Compare(seq(a), seq(b)) })
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
		for _, d := range p.devices {
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

// join keeps the states of open windows.
func join[T any](r *restoring, states *perWindow[T]) {
	*states = slices.DeleteFunc(*states, func(at inWindow[T]) bool { return at.Window == nil || r.windows[at.Window.Number] == nil })
	for i := range *states {
		(*states)[i].Window = r.windows[(*states)[i].Window.Number]
	}
}

func (r *restoring) place(s *saved) bool {
	p := s.Place
	if p == nil || p.Info == nil || r.e.places[p.Key] != nil {
		return false
	}
	join(r, &p.Windows)
	if slices.ContainsFunc(p.Windows, func(at inWindow[placeWindow]) bool { return at.State.Info == nil }) {
		return false
	}
	r.e.addPlace(p)
	return !slices.ContainsFunc(s.Devices, func(d savedDevice) bool { return !r.device(p, d.Device, d.Series) })
}

func (r *restoring) device(p *place, d *device, series []*Series) bool {
	if d == nil || p.devices[d.ID] != nil {
		return false
	}
	join(r, &d.Windows)
	for i := range d.Windows {
		dw := &d.Windows[i].State
		for _, t := range dw.Times {
			dw.latest = max(dw.latest, t)
		}
	}
	for _, o := range d.Outputs {
		join(r, &o.Windows)
		if o.Key == nil || slices.ContainsFunc(o.Windows, func(at inWindow[outputWindow]) bool { return at.State.Function == nil }) {
			return false
		}
	}
	r.e.addDevice(p, d)
	for _, s := range series {
		if s.Shape == nil || s.Shape.Index < 0 || s.Shape.Index >= len(r.shapes) {
			return false
		}
		s.Shape = r.shapes[s.Shape.Index]
		join(r, &s.Windows)
		if s.Shape.metric == nil && len(s.Windows) > 0 || d.series[s.Shape.identity] != nil {
			return false
		}
		r.e.addSeries(d, s)
	}
	return !slices.ContainsFunc(d.Outputs, func(o *output) bool { return o.feeders == 0 })
}
