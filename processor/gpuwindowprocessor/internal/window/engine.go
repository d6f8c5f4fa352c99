package window

import (
	"math"
	"slices"
	"strings"
	"sync"
	"time"
	"unique"
)

// maxSealed is how many closed windows may wait to be fetched before the oldest
// is dropped: it bounds the memory when nobody takes them.
const maxSealed = 8

// impossibleFactor is by how much a counter of seconds may outrun the time
// since it last moved.
const impossibleFactor = 1.05

// Outcome is what became of one sample.
type Outcome uint8

const (
	// Accepted samples count in full, or are the baseline of a counter.
	Accepted Outcome = iota
	// Late samples belong to a closed window. Dropped.
	Late
	// Future samples lie more than one window ahead. Dropped.
	Future
	// Duplicate samples repeat a time at which the series was seen. Ignored.
	Duplicate
	// OutOfOrder samples are older than the series' last one. They count for
	// means, shares and maxima and are skipped by counters.
	OutOfOrder
	// Refused samples would start a series above the limit. Dropped.
	Refused
	// ImpossibleStep samples moved a counter of seconds further than time went.
	// The pair is dropped, the value is the new baseline.
	ImpossibleStep
	// NoValue samples are NaN, infinite, stale or empty, or negative where a
	// counter cannot be. No observation.
	NoValue
	// Ignored samples are read by no rule and not carried by windows.
	Ignored
	// Outcomes is their number.
	Outcomes
)

var outcomeNames = [Outcomes]string{
	"accepted", "late", "future", "duplicate", "out_of_order", "refused", "impossible_step", "no_value", "ignored",
}

// String returns the outcome's name in self-metrics.
func (o Outcome) String() string { return outcomeNames[o] }

// Stats count what the engine has done since it was made.
type Stats struct {
	// Samples counts every sample once, by outcome.
	Samples [Outcomes]uint64
	// Clamped counts samples and window ratios that were outside [0, 1].
	Clamped uint64
	// WindowsClosed counts windows that were fetched, WindowsDropped those that
	// were lost to a clock step or because nobody fetched them.
	WindowsClosed, WindowsDropped uint64
	// ClockSteps counts steps of the wall clock backwards by more than MaxGap.
	ClockSteps uint64
	// SeriesEnded counts series that were idle for too long.
	SeriesEnded uint64
	// Series is the number of series that are tracked now.
	Series int
	// WindowsPaired counts fetched windows with a pair of consecutive samples of a
	// device; ShortestPair is the shortest such pair, 0 when there was none.
	WindowsPaired uint64
	ShortestPair  time.Duration
}

// Resource is a Resource's attributes. It is never changed in place.
type Resource struct {
	Attrs     []Attr
	SchemaURL string
}

// Scope is an instrumentation scope.
type Scope struct {
	Name, Version, SchemaURL string
	Attrs                    []Attr
}

// Kind is the type of a metric that the engine reads.
type Kind uint8

const (
	// Gauge is a value at one moment.
	Gauge Kind = iota
	// CumulativeSum is a non-monotonic Sum.
	CumulativeSum
	// Counter is a cumulative monotonic Sum.
	Counter
	kinds
)

// Metric describes a metric.
type Metric struct {
	Name, Unit, Description string
	Kind                    Kind
	// Metadata is what the source says about the metric beside its points.
	Metadata []Attr
}

// Point is one sample. The engine keeps nothing of Attrs.
type Point struct {
	// Attrs are the point's attributes, in any order, which is left as it is.
	Attrs []Attr
	// Time is the sample's time and Start the time at which a cumulative value
	// was zero, 0 when unknown; both in nanoseconds since the epoch.
	Time, Start int64
	Value       Number
	// NoValue says that there is no value: a stale marker or an empty point.
	NoValue bool
}

type resource struct {
	id   string
	info *Resource
}

func (r resource) key() string { return r.id }

type deviceKey struct {
	resource uint32
	id       string
}

type device struct {
	deviceKey
	// known are the descriptive attributes as of the last closed window.
	known []Attr
	// before is the last sample time in closed windows, or 0.
	before int64
	// newest and second are the two greatest sample times, whether a rule read
	// the samples or not, or 0.
	newest, second int64
	// left is the end of the last window whose coverage was emitted, or 0.
	left int64
	// consumed is the number of series that a rule reads.
	consumed uint32
}

func (d device) key() deviceKey { return d.deviceKey }

type attrSet struct {
	id    string
	attrs []Attr
}

func (s attrSet) key() string { return s.id }

type scope struct {
	id string
	*Scope
}

func (s scope) key() string { return s.id }

// metricKey identifies a metric: on a device by name and kind alone, elsewhere
// by scope and unit as well.
type metricKey struct {
	scope      uint32
	name, unit string
	kind       Kind
}

type metric struct {
	metricKey
	info *Metric
}

func (m metric) key() metricKey { return m.metricKey }

type seriesKey struct{ device, metric, set uint32 }

type series struct {
	seriesKey
	// full is the metric with scope and unit, of series that windows carry.
	full uint32
	// next is the series that followed in the last batch: batches repeat.
	next uint32
	// outs is a run of outLen pairs of rule and output.
	outs   uint32
	outLen uint8
	flags  seriesFlags
	// last is the greatest sample time and value the value then; 0 means that
	// the next sample is a first one. moved is when the value last changed.
	last, moved, start int64
	value              float64
	// seen is the wall clock at the last accepted sample.
	seen int64
}

func (s series) key() seriesKey { return s.seriesKey }

type seriesFlags uint8

const (
	// consumed series are read by a rule.
	consumed seriesFlags = 1 << iota
	// counting series need the increases of a counter.
	counting
	// carried series leave windows with their last value.
	carried
	// left carried series have done so.
	left
	// noted series left with annotations.
	noted
	seriesFlagsEnd
)

type outputKey struct{ device, rule, set uint32 }

type output struct {
	outputKey
	// left is the end of the last window that emitted the output, or 0.
	left int64
}

func (o output) key() outputKey { return o.outputKey }

// Engine holds the state of all series and open windows. It is safe for
// concurrent use.
type Engine struct {
	mu  sync.Mutex
	set Settings
	// length, grace, maxGap and idle are the settings in nanoseconds.
	length, grace, maxGap, idle int64
	plans                       plans
	// windowMetrics describe the rules' outputs, coverage and samples.
	windowMetrics []Metric
	outputs       table[outputKey, output]
	resources     table[string, resource]
	devices       table[deviceKey, device]
	sets          table[string, attrSet]
	scopes        table[string, scope]
	metrics       table[metricKey, metric]
	series        table[seriesKey, series]
	runs          runs
	// notes are the annotations that noted series left with.
	notes annotations

	// clock is the highest wall clock since the last step, closed the end of
	// the newest closed window.
	clock, closed int64
	// leftUpTo is the end of the newest window that was fetched or could have
	// been.
	leftUpTo int64
	era      uint32
	// windows are those that were not fetched yet, oldest first, and fetched
	// is the one whose rows are being read.
	// Windows that had closed when the clock stepped back are stranded: they
	// still leave, but no sample can reach them.
	windows  []*openWindow
	stranded []*openWindow
	fetched  *openWindow
	spare    []*openWindow

	// cursor and nextScan drive the search for idle series.
	cursor   uint32
	oldest   int64
	nextScan int64

	ingest Ingest
	stats  Stats
}

// New returns an engine that starts at the wall clock now.
func New(set Settings, now time.Time) *Engine {
	e := &Engine{
		set:    set,
		length: int64(set.Window), grace: int64(set.Grace), maxGap: int64(set.MaxGap), idle: int64(set.IdleTimeout),
		plans: compile(set.Rules),
		clock: now.UnixNano(),
	}
	for i := range set.Rules {
		e.windowMetrics = append(e.windowMetrics, set.Rules[i].Output.metric())
	}
	e.windowMetrics = append(e.windowMetrics, set.Coverage.metric(), set.Samples.metric())
	e.clear()
	e.closed = e.closedAt(e.clock)
	e.ingest = Ingest{e: e, classes: map[string]layoutEntry{}}
	return e
}

func (o *Output) metric() Metric {
	return Metric{Name: o.Name, Unit: o.Unit, Description: o.Description, Kind: Gauge}
}

// clear makes the engine's tables and windows empty.
func (e *Engine) clear() {
	e.outputs = newTable[outputKey, output]()
	e.resources = newTable[string, resource]()
	e.devices = newTable[deviceKey, device]()
	e.sets = newTable[string, attrSet]()
	e.scopes = newTable[string, scope]()
	e.metrics = newTable[metricKey, metric]()
	e.series = newTable[seriesKey, series]()
	e.runs = runs{free: map[int][]uint32{}}
	e.windows, e.stranded, e.fetched = nil, nil, nil
	e.cursor, e.oldest, e.nextScan = 0, math.MaxInt64, 0
}

// Stats returns the counts so far.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.stats
	s.Series = e.series.len()
	return s
}

// closedAt returns the end of the newest window that is closed at the wall
// clock now.
func (e *Engine) closedAt(now int64) int64 {
	t := now - e.grace
	end := t / e.length * e.length
	if end > t {
		end -= e.length
	}
	return end
}

// observe takes note of the wall clock.
func (e *Engine) observe(now int64) {
	if now < e.clock-e.maxGap {
		e.stepBack(now)
	}
	e.clock = max(e.clock, now)
	e.closed = max(e.closed, e.closedAt(e.clock))
}

// stepBack starts anew at a wall clock that went backwards: open windows and
// previous samples lie on a time that is no more. Windows that were closed
// already still leave.
func (e *Engine) stepBack(now int64) {
	e.stats.ClockSteps++
	for _, w := range e.windows {
		if w.end <= e.closed {
			e.stranded = append(e.stranded, w)
			continue
		}
		e.stats.WindowsDropped++
		e.recycle(w)
	}
	e.windows = nil
	e.era++
	for i := range e.series.items {
		s := &e.series.items[i]
		s.last, s.moved = 0, 0
		s.seen = min(s.seen, now)
	}
	for i := range e.devices.items {
		d := &e.devices.items[i]
		d.before, d.newest, d.second = 0, 0, 0
	}
	e.nextScan = 0
	e.clock = now
	e.closed = e.closedAt(now)
	e.leftUpTo = min(e.leftUpTo, e.closed)
}

// ClosedUpTo returns the end of the newest window that is closed at the wall
// clock now, and whether a window up to there waits to be fetched.
func (e *Engine) ClosedUpTo(now time.Time) (end time.Time, pending bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.observe(now.UnixNano())
	return time.Unix(0, e.closed), len(e.stranded) > 0 || len(e.windows) > 0 && e.windows[0].end <= e.closed
}

// NextClose returns the wall clock at which the next window closes.
func (e *Engine) NextClose() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return time.Unix(0, e.closed+e.length+e.grace)
}

// window returns the window that holds t, which is not closed.
func (e *Engine) window(t int64) *openWindow {
	for _, w := range slices.Backward(e.windows) {
		if t <= w.end && t > w.end-e.length {
			return w
		}
	}
	end := (t + e.length - 1) / e.length * e.length
	w := &openWindow{}
	if n := len(e.spare); n > 0 {
		w, e.spare = e.spare[n-1], e.spare[:n-1]
	}
	w.end, w.era = end, e.era
	at := len(e.windows)
	for at > 0 && e.windows[at-1].end > end {
		at--
	}
	e.windows = slices.Insert(e.windows, at, w)
	if len(e.windows) > maxSealed && e.windows[maxSealed].end <= e.closed {
		e.stats.WindowsDropped++
		e.recycle(e.windows[0])
		e.windows = slices.Delete(e.windows, 0, 1)
	}
	return w
}

func (e *Engine) recycle(w *openWindow) {
	w.reset()
	e.spare = append(e.spare, w)
}

// Ingest takes the samples of one batch in. It holds the engine's lock from
// Begin to End and must not be used after End.
type Ingest struct {
	e   *Engine
	now int64

	attrs  []Attr
	schema string
	// place and whole are the Resource by its identifying attributes and by all
	// of them; the keys are made when they are first needed.
	place, whole ingestResource
	anonymous    bool

	scope    Scope
	scopeKey []byte
	scopeAt  uint32

	metric Metric
	plan   *plan
	// ident is the metric as devices know it and full the metric in its scope.
	ident, full uint32

	// classes remember the class of attribute keys and layout the entry that
	// was last seen at a position: points have their attributes in the same
	// order, so that one comparison of equal strings is all that most take.
	classes map[string]layoutEntry
	layout  []layoutEntry

	// previous is the series of the last point, or none.
	previous uint32

	values []selected
	// own are the attributes that make the point's series, extra those that
	// describe it without being declared to, notes its annotations.
	own, extra, notes []Attr
	sorted            []Attr
	buf               []byte
	list              []uint32
}

// maxClasses bounds the attribute keys whose class is remembered.
const maxClasses = 1024

// ingestResource is the batch's current Resource under one kind of identity.
type ingestResource struct {
	key   []byte
	ready bool
	at    uint32
	info  *Resource
}

// layoutEntry is an attribute key and its class.
type layoutEntry struct {
	key   string
	class class
}

type class uint8

const (
	classOwn class = iota
	classDescriptive
	classAnnotation
	classDevice
)

// Begin starts a batch at the wall clock now.
func (e *Engine) Begin(now time.Time) *Ingest {
	e.mu.Lock()
	e.observe(now.UnixNano())
	e.ingest.now, e.ingest.previous = now.UnixNano(), none
	return &e.ingest
}

// End ends the batch.
func (in *Ingest) End() {
	in.attrs, in.metric, in.scope = nil, Metric{}, Scope{}
	in.place.info, in.whole.info = nil, nil
	in.plan = nil
	in.e.mu.Unlock()
}

// SetResource makes the following metrics those of a Resource.
func (in *Ingest) SetResource(attrs []Attr, schemaURL string) {
	in.attrs, in.schema = attrs, schemaURL
	in.place.ready, in.whole.ready = false, false
	in.place.key, in.anonymous = in.e.set.Identity.resourceKey(in.place.key[:0], attrs)
}

// resourceKey appends what identifies a Resource to b and reports whether that
// is nothing.
func (id *Identity) resourceKey(b []byte, attrs []Attr) (key []byte, anonymous bool) {
	anonymous = true
	for _, names := range id.Resource {
		for names != "" {
			var name string
			name, names, _ = strings.Cut(names, "|")
			if v, ok := find(attrs, name); ok {
				b = appendValue(b, v)
				anonymous = false
				break
			}
		}
		b = append(b, 0xff)
	}
	return b, anonymous
}

// resolve makes r ready for use.
func (in *Ingest) resolve(r *ingestResource) {
	if r == &in.whole {
		in.sorted = append(in.sorted[:0], in.attrs...)
		// A byte that starts no identifying value keeps the two kinds apart.
		r.key = appendSet(append(r.key[:0], 0xfe), in.sorted)
	}
	r.ready = true
	r.info = nil
	r.at = none
	if i, ok := in.e.resources.index[string(r.key)]; ok {
		r.at = i
		r.info = in.e.resources.items[i].info
	}
	if r.info == nil {
		r.info = &Resource{Attrs: cloneAttrs(in.attrs), SchemaURL: strings.Clone(in.schema)}
		return
	}
	d := described{attrs: slices.Clip(r.info.Attrs)}
	changed := r.info.SchemaURL != in.schema
	at := 0
	for i := range in.attrs {
		var c bool
		at, c = d.add(in.attrs[i].Key, in.attrs[i].Value, 0, at)
		changed = changed || c
		at++
	}
	if changed {
		r.info = &Resource{Attrs: d.attrs, SchemaURL: strings.Clone(in.schema)}
	}
}

// SetScope makes the following metrics those of a scope.
func (in *Ingest) SetScope(s Scope) {
	in.scope = s
	in.sorted = append(in.sorted[:0], s.Attrs...)
	in.scopeKey = s.appendKey(in.scopeKey[:0], in.sorted)
	in.scopeAt = none
	if i, ok := in.e.scopes.index[string(in.scopeKey)]; ok {
		in.scopeAt = i
	}
}

// appendKey appends what identifies the scope to b; attrs are its attributes,
// which are reordered.
func (s *Scope) appendKey(b []byte, attrs []Attr) []byte {
	b = appendAttr(b, &Attr{Key: s.Name, Value: String(s.Version)})
	return appendSet(b, attrs)
}

// SetMetric makes the following points those of a metric and reports whether
// the engine wants any of them. Of those that it does not want it only wants to
// know that they came: see Sight.
func (in *Ingest) SetMetric(m Metric) bool {
	e := in.e
	in.metric = m
	if m.Kind == Counter {
		in.plan = e.plans.counters[m.Name]
	} else {
		in.plan = e.plans.values[m.Name]
	}
	in.ident = e.metrics.find(metricKey{scope: none, name: m.Name, kind: m.Kind})
	in.full = none
	if in.scopeAt != none && e.set.KeepLast {
		in.full = e.metrics.find(metricKey{scope: in.scopeAt, name: m.Name, unit: m.Unit, kind: m.Kind})
	}
	if in.full != none {
		if info := e.metrics.items[in.full].info; info.Description != m.Description || !slices.Equal(info.Metadata, m.Metadata) {
			e.metrics.items[in.full].info = m.clone()
		}
	}
	return in.plan != nil || e.set.KeepLast
}

func (m *Metric) clone() *Metric {
	return &Metric{
		Name: strings.Clone(m.Name), Unit: strings.Clone(m.Unit), Description: strings.Clone(m.Description),
		Kind: m.Kind, Metadata: cloneAttrs(m.Metadata),
	}
}

// Add takes in one sample of the current metric.
func (in *Ingest) Add(p *Point) Outcome {
	o := in.add(p)
	in.e.stats.Samples[o]++
	return o
}

func (in *Ingest) add(p *Point) Outcome {
	e := in.e
	if o := in.screen(p); o != Accepted {
		return o
	}
	id, pl := in.identify(p)
	origin := in.origin(id)
	ident := in.ident
	if id == "" {
		ident = in.full
	}
	at := in.expected(origin.at, ident, id)
	if at == none {
		at = in.lookup(origin.at, ident, id)
	}
	if at == none {
		if pl == nil && !e.set.KeepLast {
			if id != "" {
				in.sight(id, p.Time, origin)
			}
			return Ignored
		}
		if e.series.len() >= e.set.MaxSeries {
			return Refused
		}
		at = in.create(id, pl, origin)
	}
	if in.previous != none {
		e.series.items[in.previous].next = at
	}
	in.previous = at
	return in.record(at, p, origin, id != "")
}

// Sight notes when a device was seen by a sample of a metric that SetMetric said
// is not wanted, so that a counter which is born later on that device counts from
// zero, whatever windows carry. The sample is not counted.
func (in *Ingest) Sight(p *Point) {
	if in.screen(p) != Accepted {
		return
	}
	if id, _ := in.identify(p); id != "" {
		in.sight(id, p.Time, in.origin(id))
	}
}

// screen returns why a point is no sample of a window that is open or may be
// opened, or Accepted.
func (in *Ingest) screen(p *Point) Outcome {
	switch {
	case p.NoValue || !p.Value.finite() || in.metric.Kind == Counter && p.Value.Float() < 0:
		return NoValue
	case p.Time <= in.e.closed:
		return Late
	case p.Time > in.now+in.e.length:
		return Future
	default:
		return Accepted
	}
}

// origin returns the Resource of the points of a device, ready for use.
func (in *Ingest) origin(id string) *ingestResource {
	origin := &in.place
	if id == "" || in.anonymous {
		origin = &in.whole
	}
	if !origin.ready {
		in.resolve(origin)
	}
	return origin
}

// sight notes that a device was seen at t. One series without a name holds the
// device for all its samples that nothing is made of.
func (in *Ingest) sight(id string, t int64, origin *ingestResource) {
	e := in.e
	metric, ident := in.metric, in.ident
	in.metric, in.own = Metric{}, in.own[:0]
	in.ident = e.metrics.find(metricKey{scope: none})
	at := in.lookup(origin.at, in.ident, id)
	if at == none && e.series.len() < e.set.MaxSeries {
		at = in.create(id, nil, origin)
	}
	in.metric, in.ident = metric, ident
	if at == none {
		return
	}
	s := &e.series.items[at]
	s.seen = max(s.seen, in.now)
	e.devices.items[s.device].note(t)
}

// expected returns the series that followed the previous point's in the last
// batch, if it is the point's own: that takes comparisons instead of hashes.
func (in *Ingest) expected(place, ident uint32, id string) uint32 {
	e := in.e
	if in.previous == none {
		return none
	}
	at := e.series.items[in.previous].next
	if !e.series.live(at) {
		return none
	}
	s := &e.series.items[at]
	if s.metric != ident {
		return none
	}
	if d := &e.devices.items[s.device]; d.resource != place || d.id != id {
		return none
	}
	if !slices.Equal(e.sets.items[s.set].attrs, in.own) {
		return none
	}
	return at
}

// lookup returns the point's series, or none, and leaves the encoding of its own
// attributes in in.buf.
func (in *Ingest) lookup(place, ident uint32, id string) uint32 {
	e := in.e
	in.buf = appendSet(in.buf[:0], in.own)
	if place == none || ident == none {
		return none
	}
	set, ok := e.sets.index[string(in.buf)]
	if !ok {
		return none
	}
	dev := e.devices.find(deviceKey{resource: place, id: id})
	if dev == none {
		return none
	}
	return e.series.find(seriesKey{device: dev, metric: ident, set: set})
}

// identify finds the point's device and, in in.own, the attributes that make its
// series. The plan is returned when a rule consumes the point.
func (in *Ingest) identify(p *Point) (id string, pl *plan) {
	in.own, in.extra, in.notes = in.own[:0], in.extra[:0], in.notes[:0]
	for i := range p.Attrs {
		a := &p.Attrs[i]
		if i == len(in.layout) {
			in.layout = append(in.layout, in.classify(a.Key))
		} else if in.layout[i].key != a.Key {
			in.layout[i] = in.classify(a.Key)
		}
		switch in.layout[i].class {
		case classDevice:
			if a.Value.Kind == StringValue {
				id = a.Value.Str
			}
		case classOwn:
			in.own = append(in.own, *a)
		case classAnnotation:
			in.notes = append(in.notes, *a)
		}
	}
	if id == "" {
		in.own, in.notes = append(in.own[:0], p.Attrs...), in.notes[:0]
		return "", nil
	}
	if in.plan == nil {
		return id, nil
	}
	pl = in.plan
	in.values = in.values[:0]
	for range pl.keys {
		in.values = append(in.values, selected{})
	}
	picked := 0
	for i := range in.own {
		k := slices.Index(pl.keys, in.own[i].Key)
		if k < 0 {
			in.extra = append(in.extra, in.own[i])
			continue
		}
		in.values[k] = selected{value: in.own[i].Value, present: true}
		in.own[picked] = in.own[i]
		picked++
	}
	if !pl.consumes(in.values) {
		in.own = append(in.own[:picked], in.extra...)
		in.extra = in.extra[:0]
		return id, nil
	}
	in.own = in.own[:picked]
	return id, pl
}

// classify returns the class of an attribute key.
func (in *Ingest) classify(key string) layoutEntry {
	if l, ok := in.classes[key]; ok {
		return l
	}
	l := layoutEntry{key: unique.Make(key).Value(), class: in.e.set.Identity.classify(key)}
	if len(in.classes) < maxClasses {
		in.classes[l.key] = l
	}
	return l
}

func (id *Identity) classify(key string) class {
	switch {
	case key == id.Device:
		return classDevice
	case matchAny(id.Descriptive, key):
		return classDescriptive
	case matchAny(id.Annotations, key):
		return classAnnotation
	default:
		return classOwn
	}
}

// create starts the series of a point and everything that it refers to.
func (in *Ingest) create(id string, pl *plan, origin *ingestResource) uint32 {
	e := in.e
	if origin.at == none {
		origin.at = e.resources.insert(resource{id: string(origin.key), info: origin.info})
	}
	dk := deviceKey{resource: origin.at, id: id}
	dev := e.devices.find(dk)
	if dev == none {
		e.resources.hold(origin.at)
		dev = e.devices.insert(device{deviceKey: deviceKey{resource: origin.at, id: strings.Clone(id)}})
	}
	set := e.sets.find(string(in.buf))
	if set == none {
		set = e.sets.insert(attrSet{id: string(in.buf), attrs: cloneAttrs(in.own)})
	}
	s := series{full: none, next: none, seen: in.now}
	carry := e.set.KeepLast && (pl == nil || in.metric.Kind != Gauge)
	if carry {
		s.flags |= carried
		s.full = in.fullMetric()
		e.metrics.hold(s.full)
	}
	if id == "" {
		s.metric = s.full
	} else {
		if in.ident == none {
			in.ident = e.metrics.insert(metric{
				metricKey: metricKey{scope: none, name: strings.Clone(in.metric.Name), kind: in.metric.Kind},
			})
		}
		s.metric = in.ident
	}
	s.device, s.set = dev, set
	e.devices.hold(dev)
	e.sets.hold(set)
	e.metrics.hold(s.metric)
	if pl != nil {
		s.flags |= consumed
		e.devices.items[dev].consumed++
		if in.metric.Kind == Counter {
			s.flags |= counting
		}
		in.list = in.list[:0]
		for i := range pl.rules {
			pr := &pl.rules[i]
			if e.set.Rules[pr.rule].Output.Disabled || !pr.matches(in.values) {
				continue
			}
			in.list = append(in.list, pr.rule, e.output(in, dev, pr, pl))
		}
		s.outs, s.outLen = e.runs.add(in.list), uint8(len(in.list)/2)
	}
	at := e.series.insert(s)
	e.series.hold(at)
	e.oldest = min(e.oldest, in.now)
	return at
}

// fullMetric returns the current metric in its scope.
func (in *Ingest) fullMetric() uint32 {
	e := in.e
	if in.full != none {
		return in.full
	}
	if in.scopeAt == none {
		in.scopeAt = e.scopes.insert(scope{id: string(in.scopeKey), Scope: &Scope{
			Name: strings.Clone(in.scope.Name), Version: strings.Clone(in.scope.Version),
			SchemaURL: strings.Clone(in.scope.SchemaURL), Attrs: cloneAttrs(in.scope.Attrs),
		}})
	}
	e.scopes.hold(in.scopeAt)
	info := in.metric.clone()
	in.full = e.metrics.insert(metric{
		metricKey: metricKey{scope: in.scopeAt, name: info.Name, unit: info.Unit, kind: info.Kind}, info: info,
	})
	return in.full
}

// output returns the output of a rule that a series feeds, and holds it.
func (e *Engine) output(in *Ingest, dev uint32, pr *planRule, pl *plan) uint32 {
	var own []Attr
	for _, k := range pr.own {
		if v := in.values[k]; v.present {
			own = append(own, Attr{Key: pl.keys[k], Value: v.value})
		}
	}
	id := string(appendSet(nil, own))
	set := e.sets.find(id)
	if set == none {
		set = e.sets.insert(attrSet{id: id, attrs: cloneAttrs(own)})
	}
	k := outputKey{device: dev, rule: pr.rule, set: set}
	out := e.outputs.find(k)
	if out == none {
		e.sets.hold(set)
		out = e.outputs.insert(output{outputKey: k})
	}
	e.outputs.hold(out)
	return out
}

// record takes the sample of a known series into its window.
func (in *Ingest) record(at uint32, p *Point, origin *ingestResource, described bool) Outcome {
	e := in.e
	s := &e.series.items[at]
	e.devices.items[s.device].note(p.Time)
	w := e.window(p.Time)
	dc := w.device(s.device, e.devices.items[s.device].known)
	c := w.cell(at)
	outcome := Accepted
	if p.Time < s.last {
		outcome = OutOfOrder
	}
	if s.flags&consumed != 0 {
		pos, ok := dc.position(p.Time)
		if !ok {
			return Refused
		}
		if w.mark(c, pos) {
			return Duplicate
		}
		if o := in.accumulate(w, s, p); o != Accepted {
			outcome = o
		}
	} else if c.last != 0 && w.lasts[c.last-1].time == p.Time {
		return Duplicate
	}
	if s.flags&carried != 0 {
		in.carry(w, c, s, p)
	}
	if described {
		in.describe(w, dc, s, p)
	}
	rc := w.resource(origin.at)
	if p.Time >= rc.time {
		rc.time = p.Time
		if rc.info != origin.info {
			rc.info = origin.info
			e.resources.items[origin.at].info = origin.info
		}
	}
	if p.Time > s.last {
		s.last, s.start = p.Time, p.Start
	}
	s.seen = max(s.seen, in.now)
	return outcome
}

// carry keeps the sample as the series' last value in the window.
func (in *Ingest) carry(w *openWindow, c *cell, s *series, p *Point) {
	if c.last == 0 {
		w.lasts = append(w.lasts, lastCell{series: c.series, time: math.MinInt64})
		c.last = uint32(len(w.lasts))
	}
	l := &w.lasts[c.last-1]
	if p.Time < l.time {
		return
	}
	l.time, l.start, l.bits, l.integer = p.Time, p.Start, p.Value.bits, p.Value.integer
	if len(in.notes) > 0 || l.noted {
		l.noted = w.notes.set(c.series, in.notes)
	}
	if s.full != in.full {
		old := s.full
		s.full = in.fullMetric()
		in.e.metrics.hold(s.full)
		in.e.releaseMetric(old)
	}
}

// annotations are those of series, by series.
type annotations map[uint32][]Attr

// set makes annotations those of a series and reports whether there are any.
func (a *annotations) set(series uint32, notes []Attr) bool {
	switch {
	case len(notes) == 0:
		delete(*a, series)
	case *a == nil:
		*a = annotations{series: cloneAttrs(notes)}
	case !slices.Equal((*a)[series], notes):
		(*a)[series] = cloneAttrs(notes)
	}
	return len(notes) > 0
}

// describe takes the descriptive attributes of the sample into its window.
func (in *Ingest) describe(w *openWindow, dc *deviceCell, s *series, p *Point) {
	if len(dc.attrs) == 0 {
		dc.attrs = make([]Attr, 0, len(p.Attrs))
	}
	at := 0
	for i := range p.Attrs {
		l := &in.layout[i]
		if l.class == classOwn || l.class == classAnnotation {
			continue
		}
		v := &p.Attrs[i].Value
		// Nearly always there is nothing new, in the same order.
		if at >= len(dc.attrs) || dc.attrs[at].Key != l.key || dc.attrs[at].Value != *v {
			at, _ = dc.add(l.key, *v, p.Time, at)
		}
		at++
	}
	dc.time = max(dc.time, p.Time)
	if s.flags&consumed == 0 || len(in.extra)+len(in.notes) == 0 {
		return
	}
	outs := in.e.runs.get(s.outs, 2*int(s.outLen))
	for i := 1; i < len(outs); i += 2 {
		x := w.extras[outs[i]]
		if x == nil {
			if w.extras == nil {
				w.extras = map[uint32]*described{}
			}
			x = &described{}
			w.extras[outs[i]] = x
		}
		for j := range in.extra {
			x.add(in.extra[j].Key, in.extra[j].Value, p.Time, j)
		}
		for j := range in.notes {
			x.add(in.notes[j].Key, in.notes[j].Value, p.Time, len(in.extra)+j)
		}
		x.time = max(x.time, p.Time)
	}
}

// accumulate adds the sample to the series' outputs.
func (in *Ingest) accumulate(w *openWindow, s *series, p *Point) Outcome {
	e := in.e
	v := p.Value.Float()
	outs := e.runs.get(s.outs, 2*int(s.outLen))
	if s.flags&counting == 0 {
		in.observeValue(w, outs, v)
		return Accepted
	}
	if p.Time <= s.last {
		return OutOfOrder
	}
	previous, moved, base := s.last, s.moved, s.value
	first := previous == 0
	restarted := first
	switch {
	case first:
		if before := e.before(s.device, p.Time); before > 0 && p.Start >= before && p.Start <= p.Time {
			previous, moved, base, first = before, before, 0, false
		}
	case v < base || p.Start > previous && p.Start <= p.Time:
		base, restarted = 0, true
	}
	outcome := Accepted
	for i := 0; i < len(outs); i += 2 {
		r := &e.set.Rules[outs[i]]
		acc := w.accumulator(outs[i+1])
		if first {
			// A first sample is no pair, but an increase was watched for.
			if r.Function == Increase {
				acc.b++
			}
			continue
		}
		step := (v - base) * r.Scale
		switch {
		case r.Function == Increase:
			acc.a += step
			acc.b++
		case r.Function == TimeRatio && step*float64(time.Second) > impossibleFactor*float64(p.Time-moved):
			outcome = ImpossibleStep
		default:
			acc.a += step
			acc.b += float64(p.Time - previous)
		}
	}
	if restarted || v != s.value {
		s.moved = p.Time
	}
	s.value = v
	return outcome
}

// observeValue adds a sample to the outputs of rules that work on values.
func (in *Ingest) observeValue(w *openWindow, outs []uint32, value float64) {
	clamped := false
	for i := 0; i < len(outs); i += 2 {
		r := &in.e.set.Rules[outs[i]]
		v := value * r.Scale
		if r.ratio() && (v < 0 || v > 1) {
			v = min(max(v, 0), 1)
			clamped = true
		}
		acc := w.accumulator(outs[i+1])
		switch r.Function {
		case Mean:
			// The running mean of equal samples is that sample, and no mean is
			// above the maximum by rounding, as it could be with a sum.
			acc.a += (v - acc.a) / (acc.b + 1)
		case Max:
			if acc.b == 0 || v > acc.a {
				acc.a = v
			}
		case ShareAtLeast:
			if v >= r.Threshold {
				acc.a++
			}
		}
		acc.b++
	}
	if clamped {
		in.e.stats.Clamped++
	}
}

// note takes a sample time of the device into account.
func (d *device) note(t int64) {
	switch {
	case t > d.newest:
		d.second, d.newest = d.newest, t
	case t < d.newest && t > d.second:
		d.second = t
	}
}

// before returns the greatest sample time of the device before t, or 0.
func (e *Engine) before(dev uint32, t int64) int64 {
	var found int64
	d := &e.devices.items[dev]
	for _, seen := range [...]int64{d.newest, d.second, d.before} {
		if seen < t {
			found = max(found, seen)
		}
	}
	if e.fetched != nil && e.fetched.era == e.era {
		found = max(found, e.fetched.before(dev, t))
	}
	for _, w := range e.windows {
		if w.era == e.era {
			found = max(found, w.before(dev, t))
		}
	}
	return found
}

func (w *openWindow) before(dev uint32, t int64) int64 {
	if i, ok := w.deviceSlot.get(dev); ok {
		return w.devices[i].before(t)
	}
	return 0
}

// end gives back what the series at i refers to.
func (e *Engine) end(i uint32) {
	s, _ := e.series.release(i)
	if s.flags&noted != 0 {
		delete(e.notes, i)
	}
	e.releaseMetric(s.metric)
	if s.flags&carried != 0 {
		e.releaseMetric(s.full)
	}
	e.sets.release(s.set)
	e.runs.remove(s.outs, 2*int(s.outLen))
	if d, last := e.devices.release(s.device); last {
		e.resources.release(d.resource)
	}
}

func (e *Engine) releaseMetric(i uint32) {
	if m, last := e.metrics.release(i); last && m.scope != none {
		e.scopes.release(m.scope)
	}
}
