package window

import (
	"math"
	"strings"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// ResourceKey identifies a Resource: a node, or a user of the devices of a node. The zero key
// identifies nothing.
type ResourceKey struct {
	Place  gpudata.Place
	Holder gpudata.Holder
	// All contains all attributes of the Resource if its points have no device, or if neither Place
	// nor Holder identifies it.
	All Attrs
}

func (k ResourceKey) clone() ResourceKey {
	return ResourceKey{k.Place.Clone(), k.Holder.Clone(), k.All}
}

// Point is one sample. Its attributes are encoded with AppendAttr, and the engine does not keep
// them.
type Point struct {
	// Device is the device's ID, or empty. No rule reads points without a device.
	Device string
	// About describes the device and includes its ID.
	About []byte
	// Own are the attributes that distinguish the series of a device, in any order. Notes are
	// attributes that describe only the sample.
	Own, Notes []byte
	// Time is the sample's time. Start is the time at which a cumulative value was zero, or 0 if it
	// is unknown. Both are in nanoseconds since the epoch.
	Time, Start int64
	Value       Number
}

// Ingest adds the samples of one batch. It holds the lock of one node at a time. It must not be
// used after End.
type Ingest struct {
	e    *Engine
	now  int64
	node *node // the locked node, or nil
	// closed is the end of the newest window that was closed when the node was locked. window is
	// the last window that was used since then. The rows of this window cannot be read before the
	// node is unlocked.
	closed int64
	window *openWindow

	resource *PlacedResource // the current Resource
	scope    *scope
	kind     signal.Kind
	metric   *metric // nil if windows do not use the current metric
	previous *Series // the last resolved series of the node
	moment   moment  // the moment of the last sample

	samples         [Outcomes]uint64
	clamped, unkept uint64
	added           bool // true if a series was added
}

// PlacedResource is a Resource of the caller. It caches its place, so that the place is looked up
// only once if the caller sets the Resource repeatedly.
type PlacedResource struct {
	Key ResourceKey
	// Attrs are all attributes, encoded with AppendAttr.
	Attrs     []byte
	SchemaURL string

	place *place    // nil if the place does not exist yet
	info  *Resource // the place's Resource with these attributes
}

// Begin starts a batch at the wall clock time now.
func (e *Engine) Begin(now time.Time) *Ingest {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.observe(now.UnixNano())
	return &Ingest{e: e, now: now.UnixNano()}
}

// End ends the batch.
func (in *Ingest) End() {
	if in.node != nil {
		in.node.mu.Unlock()
	}
	in.e.mu.Lock()
	defer in.e.mu.Unlock()
	for o, n := range in.samples {
		in.e.stats.Samples[o] += n
	}
	in.e.stats.Clamped += in.clamped
	in.e.stats.Unkept += in.unkept
	if in.added {
		in.e.oldest = min(in.e.oldest, in.now)
	}
}

// SetNode sets the node of the following samples. The node remains locked until another node is
// set, or until End.
func (in *Ingest) SetNode(name string) {
	if in.node != nil {
		if in.node.name == name {
			return
		}
		in.node.mu.Unlock()
	}
	in.node, in.window, in.previous, in.moment = in.e.node(name), nil, nil, moment{}
	for in.node.lock(); in.node.removed; in.node.lock() {
		in.node.mu.Unlock()
		in.node = in.e.node(name)
	}
	in.e.mu.Lock()
	in.closed = in.e.closed
	in.e.mu.Unlock()
}

// Attached returns the caller's value that is stored with the current node and guarded by the
// node's lock. If the value does not exist, create creates it.
func (in *Ingest) Attached(create func() any) any {
	if in.node.attached == nil {
		in.node.attached = create()
	}
	return in.node.attached
}

// windowOf returns the open window that contains t, or nil if there is none.
func (in *Ingest) windowOf(t int64) *openWindow {
	if w := in.window; w == nil || t > w.end || t <= w.end-in.e.length {
		in.e.mu.Lock()
		defer in.e.mu.Unlock()
		if t <= in.e.closed || in.node.era != in.e.era {
			return nil
		}
		in.window = in.e.window(t)
	}
	return in.window
}

// SetResource sets the Resource of the following points. For points without a device, the key must
// contain all attributes.
func (in *Ingest) SetResource(r *PlacedResource) {
	in.SetNode(r.Key.Place.Node)
	in.resource = r
	if r.place != nil && r.place.Info == r.info {
		return
	}
	if r.place = in.node.places[r.Key]; r.place != nil {
		r.info = r.place.Info.with(r.Attrs, r.SchemaURL)
	}
}

// matches reports whether the series belongs to this Resource and the Resource has not changed.
func (r *PlacedResource) matches(s *Series) bool {
	return r.place == s.device.place && r.info == r.place.Info
}

// SetScope sets the scope of the following metrics.
func (in *Ingest) SetScope(s Scope) {
	if in.scope == nil || *in.scope.Scope != s {
		in.scope = in.e.scope(s)
	}
}

// SetMetric sets the metric of the following points.
func (in *Ingest) SetMetric(m Metric) {
	in.kind = m.Kind
	if s := in.previous; s != nil && s.next != nil { // batches repeat
		if next := s.next.shape.metric; next != nil && next.scope == in.scope && *next.Metric == m {
			in.metric = next
			return
		}
	}
	in.metric = nil
	if in.e.set.KeepLast || in.e.plans[planKey{m.Name, m.Kind == signal.Counter}] != nil {
		in.metric = in.e.metric(in.scope, m)
	}
}

// Resolve adds one sample of the current metric and returns its series. Add adds further samples of
// the same Resource, scope, metric, and attributes to that series. If the series limit is reached,
// Resolve returns a series that refuses all samples. CanAdd returns true for this series while the
// limit is reached. Resolve returns nil if the sample was dropped or is not used. The samples of
// metrics that windows do not use only show that their devices exist, and are not counted.
func (in *Ingest) Resolve(p *Point) (*Series, Outcome) {
	if s := in.expected(p); s != nil {
		in.previous = s
		return s, in.Add(s, p.Time, p.Start, p.Value)
	}
	s, o := in.resolve(p)
	if in.metric != nil {
		in.samples[o]++
	}
	return s, o
}

// CanAdd reports whether more samples of the series may be passed to Add. If it returns false, the
// next sample must be passed to Resolve. The node of the series must be the current node: see
// SetNode.
func (in *Ingest) CanAdd(s *Series) bool {
	return s != nil && !s.ended && (s.device != nil || in.e.full())
}

// Add adds a sample to a series for which CanAdd returns true. If the series belongs to the current
// Resource, the sample updates the attributes of the series' Resource.
func (in *Ingest) Add(s *Series, t, start int64, v Number) Outcome {
	o := in.checkSample(s.shape.metric != nil && s.shape.metric.Kind == signal.Counter, t, v)
	switch {
	case o != Accepted:
	case !s.shape.plausible(v):
		o = Implausible
	case s.device == nil:
		o = Refused
	default:
		o = in.record(s, in.resourceOf(s.device.place), t, start, v)
	}
	if s.shape.metric != nil {
		in.samples[o]++
	}
	return o
}

// resourceOf returns the Resource of a place. If it is the place of the current Resource, the
// result includes the attributes from the batch.
func (in *Ingest) resourceOf(p *place) *Resource {
	if in.resource != nil && p == in.resource.place {
		return in.resource.info
	}
	return p.Info
}

// expected returns the series that followed the previous series in the last batch, if p is a point
// of it. Otherwise it returns nil. This comparison is cheaper than a lookup by hash.
func (in *Ingest) expected(p *Point) *Series {
	if in.previous == nil || in.metric == nil {
		return nil
	}
	s := in.previous.next
	if s == nil || s.ended || s.shape.metric != in.metric || !in.resource.matches(s) || !s.matches(p) {
		return nil
	}
	return s
}

// checkSample returns Accepted if a sample has a value and belongs to a window that is open or can
// be opened. Otherwise it returns the reason why the sample is dropped.
func (in *Ingest) checkSample(counter bool, t int64, v Number) Outcome {
	f := v.Float()
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0) || counter && f < 0:
		return NoValue
	case t <= in.closed:
		return Late
	case t > in.now+in.e.length:
		return Future
	default:
		return Accepted
	}
}

func (in *Ingest) resolve(p *Point) (*Series, Outcome) {
	if o := in.checkSample(in.kind == signal.Counter, p.Time, p.Value); o != Accepted {
		return nil, o
	}
	if in.metric == nil {
		return in.recordSighting(p.Device, p.Time), Ignored
	}
	sh := in.shapeOf(p)
	if !sh.consumed && !sh.carried {
		return in.recordSighting(p.Device, p.Time), Ignored
	}
	if !sh.plausible(p.Value) {
		return nil, Implausible
	}
	s := in.series(p.Device, sh)
	if s.device == nil {
		return s, Refused
	}
	s.shape = sh
	if s.description.attrs != Attrs(p.About) {
		if d := s.device; d.description == nil || d.description.attrs != Attrs(p.About) {
			d.description = &description{Attrs(p.About)}
		}
		s.description = s.device.description
	}
	if in.previous != nil {
		in.previous.next = s
	}
	in.previous = s
	return s, in.record(s, in.resource.info, p.Time, p.Start, p.Value)
}

// recordSighting records that a device was seen at t, so that a counter that starts later on this
// device is counted from zero. All unused samples of a device share one series without a metric.
func (in *Ingest) recordSighting(id string, t int64) *Series {
	if id == "" {
		return nil
	}
	s := in.series(id, &in.e.sightedShape)
	if s.device != nil {
		in.record(s, in.resource.info, t, 0, Number{})
	}
	return s
}

// full reports whether the series limit is reached.
func (e *Engine) full() bool { return e.series.Load() >= int64(e.set.MaxSeries) }

// reserve counts one more series, unless the series limit is reached.
func (e *Engine) reserve() bool {
	reserved := e.series.Add(1) <= int64(e.set.MaxSeries)
	if !reserved {
		e.series.Add(-1)
	}
	return reserved
}

// series returns the series of a shape on a device, and creates it if needed. If the series limit
// is reached, it returns a series without a device that represents all refused series of the shape.
// Therefore, refusing a sample is not more expensive than accepting one.
func (in *Ingest) series(id string, sh *shape) *Series {
	e, r := in.e, in.resource
	if r.place != nil && r.place.devices[id] != nil {
		if s := r.place.devices[id].find(sh.identity); s != nil {
			return s
		}
	}
	if !e.reserve() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if sh.refused == nil {
			sh.refused = &Series{shape: sh}
		}
		return sh.refused
	}
	in.added = true
	if r.place == nil {
		r.info = &Resource{Attrs: Attrs(r.Attrs), SchemaURL: strings.Clone(r.SchemaURL)}
		r.place = &place{Key: r.Key.clone(), Info: r.info}
		in.node.addPlace(r.place)
	}
	d := r.place.devices[id]
	if d == nil {
		d = &device{ID: strings.Clone(id)}
		r.place.addDevice(d)
	}
	s := &Series{shape: sh, seriesState: seriesState{Seen: in.now}}
	d.addSeries(s)
	return s
}
