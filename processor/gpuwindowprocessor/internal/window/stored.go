package window

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"time"
)

// version is the version of the stored state. The version must be incremented if the types below
// change, or if the exported fields of the types that they contain change.
const version = 6

// stored is the state of one node. The state is encoded with gob and stored as one value. The state
// itself has no checksum, because each value in storage already has one.
type stored struct {
	Version     int
	Fingerprint uint64
	Name        string
	// Clock, Closed, and SentUpTo are the values that the engine's clock, closed, and sentUpTo
	// fields had when the node was stored.
	Clock, Closed, SentUpTo int64
	// Complete is true if the node was stored during a clean shutdown, which means that no samples
	// arrived afterward.
	Complete bool
	Absences absences
	Shapes   []storedShape
	Places   []storedPlace
}

type storedShape struct {
	Metric *Metric // nil for points that windows do not use
	Scope  Scope
	Loose  bool
	Attrs  Attrs
	Notes  annotations
}

type storedPlace struct {
	Key     ResourceKey
	Info    *Resource
	Windows []storedWindow[placeWindow]
	Devices []storedDevice
}

type storedDevice struct {
	ID      string
	State   deviceState
	Windows []storedWindow[deviceWindow]
	Outputs []storedOutput
	Series  []storedSeries
}

type storedOutput struct {
	Rule    int // index of the rule
	Own     Attrs
	Sent    int64
	Windows []storedWindow[outputWindow]
}

type storedSeries struct {
	Shape   int // index of the shape
	State   seriesState
	Windows []storedWindow[seriesWindow]
}

// storedWindow is the state for the open window that ends at End.
type storedWindow[T any] struct {
	End   int64
	State T
}

func init() {
	for i := range functionKinds {
		gob.RegisterName(functionKinds[i].name, functionKinds[i].make())
	}
}

// Errors that Restore returns.
var (
	// ErrForeign means that the data is damaged or is not stored state.
	ErrForeign = errors.New("not the state of windows, or damaged")
	// ErrVersion means that the state was stored by another version of the engine.
	ErrVersion = errors.New("state of another version")
	// ErrSettings means that the state was stored with different settings. See
	// [Settings.fingerprint].
	ErrSettings = errors.New("state under other settings")
)

// Nodes returns the names of all nodes, sorted. Places without a node name belong to the node "".
func (e *Engine) Nodes() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Sorted(maps.Keys(e.nodes))
}

// Store returns the state of a node, or nil if the node does not exist. Store must not be called
// while an Emission is open.
func (e *Engine) Store(name string) []byte {
	e.mu.Lock()
	n := e.nodes[name]
	s := stored{
		Version: version, Fingerprint: e.print, Name: name,
		Clock: e.clock, Closed: e.closed, SentUpTo: e.sentUpTo, Complete: e.stopped,
	}
	e.mu.Unlock()
	if n == nil {
		return nil
	}
	n.lock()
	defer n.mu.Unlock()
	s.Absences = n.absences
	shapes := map[*shape]int{}
	for _, p := range n.order {
		s.Places = append(s.Places, n.storedPlace(p, func(sh *shape) int {
			at, exists := shapes[sh]
			if !exists {
				at = len(s.Shapes)
				shapes[sh] = at
				s.Shapes = append(s.Shapes, sh.stored())
			}
			return at
		}))
	}
	b := bytes.NewBuffer(make([]byte, 0, n.size+n.size/8))
	// Encoding cannot fail, because each function has at least one exported field.
	_ = gob.NewEncoder(b).Encode(&s)
	n.size = b.Len()
	return b.Bytes()
}

func (sh *shape) stored() storedShape {
	if sh.metric == nil {
		return storedShape{}
	}
	return storedShape{sh.metric.Metric, *sh.metric.scope.Scope, sh.hasNoDevice, sh.attrs, sh.notes}
}

func (n *node) storedPlace(p *place, shape func(*shape) int) storedPlace {
	s := storedPlace{Key: p.Key, Info: p.Info, Windows: storedWindows(n, &p.windows)}
	for _, d := range p.list {
		to := storedDevice{
			ID: d.ID, State: d.deviceState, Windows: storedWindows(n, &d.windows),
			Outputs: make([]storedOutput, len(d.outputs)), Series: make([]storedSeries, len(d.series)),
		}
		for i, o := range d.outputs {
			to.Outputs[i] = storedOutput{o.key.Rule.position, o.key.Own, o.lastSent, storedWindows(n, &o.windows)}
		}
		for i, series := range d.series {
			to.Series[i] = storedSeries{shape(series.shape), series.seriesState, storedWindows(n, &series.windows)}
		}
		s.Devices = append(s.Devices, to)
	}
	return s
}

func storedWindows[T any](n *node, states *perWindow[T]) (list []storedWindow[T]) {
	for at := range states.open() {
		if at.Window.era == n.era {
			list = append(list, storedWindow[T]{at.Window.end, at.State})
		}
	}
	return list
}

// Restore returns an engine that continues from the stored states of nodes. The now parameter is
// the current wall clock time. The sentUpTo parameter is the end of the newest window that was
// sent. The newest window may have been sent after the states were stored. No window that ends at
// or before sentUpTo is sent again. If a window was sent after the state of a node was stored, and
// a counter in that state was last seen at or before sentUpTo, the next sample of the counter is
// only a baseline, because the increase up to sentUpTo may already have been sent.
//
// Restore always returns a usable engine. If some of the states could not be used, the error
// contains the reasons.
func Restore(set Settings, now, sentUpTo time.Time, states ...[]byte) (*Engine, error) {
	e := New(set, now)
	var nodes []stored
	var errs []error
	for _, state := range states {
		n, err := e.decode(state)
		if err == nil {
			nodes = append(nodes, n)
		} else if !slices.ContainsFunc(errs, func(known error) bool { return errors.Is(err, known) }) {
			errs = append(errs, err) // usually, the error is the same for all nodes
		}
	}
	if len(nodes) > 0 {
		// Start with the stored clock. If the clock was set back during the downtime, the call to
		// the observe method below can then detect the step.
		e.clock, e.closed = math.MinInt64, math.MinInt64
	}
	for i := range nodes {
		e.clock = max(e.clock, nodes[i].Clock)
		e.closed = max(e.closed, nodes[i].Closed)
		e.sentUpTo = max(e.sentUpTo, nodes[i].SentUpTo)
	}
	if upTo := sentUpTo.UnixNano(); upTo > e.sentUpTo {
		e.sentUpTo, e.closed, e.clock = upTo, max(e.closed, upTo), max(e.clock, upTo+e.grace)
	}
	for i := range nodes {
		e.restore(&nodes[i], now.UnixNano())
	}
	e.observe(now.UnixNano())
	return e, errors.Join(errs...)
}

func (e *Engine) decode(state []byte) (n stored, err error) {
	from := bytes.NewReader(state)
	err = gob.NewDecoder(from).Decode(&n)
	switch {
	case err != nil && isOtherVersion(state):
		return stored{}, ErrVersion
	case err != nil:
		return stored{}, fmt.Errorf("%w: %w", ErrForeign, err)
	case from.Len() > 0:
		return stored{}, ErrForeign
	case n.Version != version:
		return stored{}, ErrVersion
	case n.Fingerprint != e.print:
		return stored{}, ErrSettings
	}
	return n, nil
}

// isOtherVersion reports whether the state was stored by another version, in which the fields may
// have different types.
func isOtherVersion(state []byte) bool {
	var of struct{ Version int }
	return gob.NewDecoder(bytes.NewReader(state)).Decode(&of) == nil && of.Version != version
}

// nodeRestorer restores a node. States that refer to unknown shapes or rules are skipped. Values
// are not checked for damage, because each value in storage has a checksum.
type nodeRestorer struct {
	*Engine
	shapes []*shape
	// downtime is how long no engine was running. The downtime does not count toward IdleTimeout.
	// Sample times at or before ignoreUpTo, or after ignoreAfter, are ignored.
	downtime, ignoreUpTo, ignoreAfter int64
}

func (e *Engine) restore(n *stored, now int64) {
	r := nodeRestorer{Engine: e, downtime: max(0, now-n.Clock), ignoreUpTo: math.MinInt64, ignoreAfter: max(e.clock, now) + e.length}
	if e.sentUpTo > n.SentUpTo {
		r.ignoreUpTo = e.sentUpTo
	}
	for i := range n.Shapes {
		sh, of := &e.sightedShape, &n.Shapes[i]
		if of.Metric != nil {
			sh = e.shape(shapeKey{e.metric(e.scope(of.Scope), *of.Metric), of.Attrs, of.Notes, of.Loose})
		}
		r.shapes = append(r.shapes, sh)
	}
	for i := range n.Places {
		s := &n.Places[i]
		node := e.node(s.Key.Place.Node)
		if node.places[s.Key] == nil && s.Info != nil {
			p := &place{Key: s.Key, Info: s.Info}
			restoreWindows(e, &p.windows, slices.DeleteFunc(s.Windows, func(w storedWindow[placeWindow]) bool { return w.State.Info == nil }))
			node.addPlace(p)
			for j := range s.Devices {
				r.device(p, &s.Devices[j])
			}
		}
	}
	if node := e.nodes[n.Name]; node != nil {
		node.absences = n.Absences
		if !n.Complete && n.Absences.Newest > 0 {
			node.interrupt()
		}
	}
}

func (r *nodeRestorer) device(p *place, s *storedDevice) {
	if p.devices[s.ID] != nil {
		return
	}
	d := &device{ID: s.ID, deviceState: s.State}
	for _, seen := range []*int64{&d.Before, &d.Newest, &d.Second} {
		if *seen <= r.ignoreUpTo || *seen > r.ignoreAfter {
			*seen = 0
		}
	}
	restoreWindows(r.Engine, &d.windows, s.Windows)
	for at := range d.windows.open() {
		for _, t := range at.State.Times {
			at.State.latest = max(at.State.latest, t)
		}
	}
	p.addDevice(d)
	for i := range s.Outputs {
		r.output(d, &s.Outputs[i])
	}
	for i := range s.Series {
		r.series(d, &s.Series[i])
	}
	d.outputs = slices.DeleteFunc(d.outputs, func(o *output) bool { return o.feeders == 0 })
}

func (r *nodeRestorer) output(d *device, s *storedOutput) {
	if s.Rule < 0 || s.Rule >= len(r.rules) {
		return
	}
	rule := r.rules[s.Rule]
	o := &output{key: &outputKey{rule, s.Own}, lastSent: s.Sent}
	want := reflect.TypeOf(rule.function.make())
	restoreWindows(r.Engine, &o.windows, slices.DeleteFunc(s.Windows, func(w storedWindow[outputWindow]) bool {
		return reflect.TypeOf(w.State.Function) != want
	}))
	d.outputs = append(d.outputs, o)
}

func (r *nodeRestorer) series(d *device, stored *storedSeries) {
	if stored.Shape < 0 || stored.Shape >= len(r.shapes) {
		return
	}
	s := &Series{shape: r.shapes[stored.Shape], seriesState: stored.State}
	if d.find(s.shape.identity) != nil {
		return
	}
	s.Seen += r.downtime
	if s.Last <= r.ignoreUpTo || s.Last > r.ignoreAfter {
		s.Last, s.Moved = 0, 0
	}
	if s.shape.metric != nil {
		restoreWindows(r.Engine, &s.windows, stored.Windows)
	}
	r.Engine.series.Add(1)
	r.oldest = min(r.oldest, s.Seen)
	d.addSeries(s)
}

// restoreWindows restores the states for windows that have not been sent.
func restoreWindows[T any](e *Engine, states *perWindow[T], list []storedWindow[T]) {
	for _, s := range list {
		if s.End > e.sentUpTo && s.End%e.length == 0 {
			state, _ := states.in(e.window(s.End))
			*state = s.State
		}
	}
}
