package window

import (
	"math"
	"strings"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// ResourceKey identifies a Resource, which is a node or a user of a node's devices. The zero key
// does not identify a Resource.
type ResourceKey struct {
	Place  gpudata.Place
	Holder gpudata.Holder
	// All contains all attributes of the Resource if the points of the Resource have no device, or
	// if neither Place nor Holder identifies the Resource.
	All Attrs
}

func (k ResourceKey) clone() ResourceKey {
	return ResourceKey{k.Place.Clone(), k.Holder.Clone(), k.All}
}

// Point is one sample. The attributes of a Point are encoded with AppendAttr. The engine does not
// keep references to the encoded attributes.
type Point struct {
	// Device is the ID of the device, or empty. Rules do not read points without a device.
	Device string
	// About contains the attributes that describe the device, including its ID.
	About []byte
	// Own contains the attributes that distinguish the series of a device, in any order. Notes
	// contains the attributes that describe only the sample.
	Own, Notes []byte
	// Time is the time of the sample. Start is the time at which a cumulative value was zero, or 0
	// if that time is unknown. Both times are in nanoseconds since the epoch.
	Time, Start int64
	Value       Number
}

// Ingest adds the samples of one batch. An Ingest holds the lock of one node at a time. An Ingest
// must not be used after End.
type Ingest struct {
	e    *Engine
	now  int64
	node *node // The locked node, or nil.
	// The end of the newest window that was closed when the node was locked (closed), and the
	// window that was last used since then (window). The rows of the last-used window cannot be
	// read until the node is unlocked.
	closed int64
	window *openWindow

	resource *PlacedResource // the current Resource
	scope    *scope
	kind     signal.Kind
	metric   *metric // Nil if windows do not use the current metric.
	previous *Series // Last resolved series of the current node.
	moment   moment  // Moment of the last sample.

	samples                       [Outcomes]uint64
	clamped, unkept, timesRefused uint64
	added                         bool // whether a series was added
}

// PlacedResource is a Resource that the caller passes to SetResource. A PlacedResource caches its
// place, so that the place is looked up only once even if the caller sets the Resource repeatedly.
type PlacedResource struct {
	Key ResourceKey
	// Attrs contains all attributes, encoded with AppendAttr.
	Attrs     []byte
	SchemaURL string

	place *place    // Nil if the place does not exist yet.
	info  *Resource // Resource of the place, including the attributes in Attrs.
}

// Begin starts a batch. The now parameter is the current wall clock time.
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
	in.e.stats.TimesRefused += in.timesRefused
	if in.added {
		in.e.oldest = min(in.e.oldest, in.now)
	}
}

// SetNode sets the node of the following samples. The node remains locked until the caller sets
// another node or calls End.
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

// Attached returns the value that the caller has attached to the current node. The node's lock
// guards this value. If the value does not exist, Attached calls the create function and attaches
// the result.
func (in *Ingest) Attached(create func() any) any {
	if in.node.attached == nil {
		in.node.attached = create()
	}
	return in.node.attached
}

// windowOf returns the open window that contains t, or nil if that window is closed or the clock
// was set back.
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

// SetResource sets the Resource of the following points. For points without a device, the key of
// the Resource must contain all attributes.
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

// The matches method reports whether the series belongs to the Resource r and r has not changed.
func (r *PlacedResource) matches(s *Series) bool {
	return r.place == s.device.place && r.info == r.place.Info
}

// SetScope sets the instrumentation scope of the following metrics.
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

// Resolve adds one sample of the current metric and returns the series of the sample. More samples
// with the same Resource, scope, metric, and attributes can be added to that series with Add. If
// the series limit is reached, Resolve returns a series that refuses all samples. As long as the
// limit is reached, CanAdd returns true for that series. If the sample is not assigned to a series,
// for example because it was dropped, Resolve returns nil. If windows do not use the metric of a
// sample, the sample only shows that the device exists, and is not counted.
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

// CanAdd reports whether more samples of the series may be passed to Add. If CanAdd returns false,
// the next sample must be passed to Resolve. The node of the series must be the current node, which
// is set by SetNode.
func (in *Ingest) CanAdd(s *Series) bool {
	return s != nil && !s.ended && (s.device != nil || in.e.full())
}

// Add adds a sample to a series for which CanAdd returns true. If the series belongs to the current
// Resource, Add also updates the stored attributes of that Resource.
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

// resourceOf returns the Resource of a place. If p is the place of the current Resource, the result
// includes the attributes from the batch.
func (in *Ingest) resourceOf(p *place) *Resource {
	if in.resource != nil && p == in.resource.place {
		return in.resource.info
	}
	return p.Info
}

// The expected method returns the series that followed the previous series in the last batch, if p
// is a point of that series. Otherwise, the result is nil. Comparing p with one series is cheaper
// than looking up the series by hash.
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
// be opened. Otherwise, checkSample returns the reason why the sample is dropped.
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

// recordSighting records that a device was seen at the time t. If a counter of this device starts
// later, it can then be counted from zero. All unused samples of a device share one series without
// a metric.
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

// The full method reports whether the series limit is reached.
func (e *Engine) full() bool { return e.series.Load() >= int64(e.set.MaxSeries) }

// reserve increments the number of series unless the series limit is reached.
func (e *Engine) reserve() bool {
	reserved := e.series.Add(1) <= int64(e.set.MaxSeries)
	if !reserved {
		e.series.Add(-1)
	}
	return reserved
}

// series returns the series that has the given shape and belongs to the given device, and creates
// the series if needed. If the series limit is reached, the result is a series without a device,
// which represents all refused series of the shape. As a result, refusing a sample is not more
// expensive than accepting one.
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
