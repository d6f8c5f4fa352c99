package window

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"weak"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Scope is an instrumentation scope.
type Scope struct {
	Name, Version, SchemaURL string
	Attrs                    Attrs
}

// Metric describes a metric.
type Metric struct {
	Name, Unit, Description string
	Kind                    signal.Kind
	Metadata                Attrs // metadata of the metric, as received from the source
}

func (m Metric) clone() *Metric {
	return &Metric{strings.Clone(m.Name), strings.Clone(m.Unit), strings.Clone(m.Description), m.Kind, m.Metadata}
}

type scope struct {
	*Scope
	seq uint64
}

// metricKey identifies a metric in its scope.
type metricKey struct {
	scope *scope
	Metric
}

// metric is a metric in an instrumentation scope. The metric that a rule computes has no scope.
type metric struct {
	*Metric
	scope *scope
	seq   uint64
}

// rowOrder returns the sort key that orders the rows of a device by metric. The results of rules
// come first. If the metric is disabled, m is nil.
func (m *metric) rowOrder() (scope, seq uint64) {
	if m == nil {
		return 0, 0
	}
	if m.scope != nil {
		scope = m.scope.seq
	}
	return scope, m.seq
}

func (m *metric) compare(o *metric) int {
	scope, seq := m.rowOrder()
	otherScope, otherSeq := o.rowOrder()
	return cmp.Or(cmp.Compare(scope, otherScope), cmp.Compare(seq, otherSeq))
}

// shape contains everything about a series except its device: the metric, the own attributes, and
// the outputs. A shape is shared by the series of many devices. After a shape is created, only the
// refused field may be modified.
type shape struct {
	shapeKey
	own      Attrs  // Attributes in attrs that identify the series, sorted.
	extra    Attrs  // Other attributes in attrs.
	identity string // Key that distinguishes the series of a device.
	outputs  []outputKey
	consumed bool // At least one rule reads the point.
	carried  bool // Windows carry the last value of the series.
	// Scales of the rules that read the point as a ratio.
	ratios  []float64
	refused *Series // series that represents all refused series, or nil if no series has been refused
}

// shapeKey contains the metric of a point, and those attributes of the point that do not describe
// its device, in their original order. All points that windows do not use share one shape without a
// metric, because such points only show that their device exists.
type shapeKey struct {
	metric      *metric
	attrs       Attrs       // Attributes that distinguish series.
	notes       annotations // Attributes that describe only the samples.
	hasNoDevice bool
}

// annotations contains attributes that describe only the samples. A nil pointer to annotations
// means that there is no sample.
type annotations struct{ Attrs Attrs }

// outputKey distinguishes the outputs of a device.
type outputKey struct {
	Rule *Rule
	Own  Attrs
}

// table contains values that many series share. A value that no series uses can be garbage
// collected even though it is in the table.
type table[K comparable, V any] struct {
	values map[K]weak.Pointer[V]
	trimAt int
}

// put adds a value.
func (t *table[K, V]) put(key K, v *V) {
	if len(t.values) >= t.trimAt {
		t.trim()
	}
	if t.values == nil {
		t.values = map[K]weak.Pointer[V]{}
	}
	t.values[key] = weak.Make(v)
}

func (t *table[K, V]) trim() {
	maps.DeleteFunc(t.values, func(_ K, of weak.Pointer[V]) bool { return of.Value() == nil })
	t.trimAt = 2*len(t.values) + 1000
}

// scope returns the shared value for an instrumentation scope.
func (e *Engine) scope(s Scope) *scope {
	e.mu.Lock()
	defer e.mu.Unlock()
	found := e.scopes.values[s].Value()
	if found == nil {
		found = &scope{&Scope{strings.Clone(s.Name), strings.Clone(s.Version), strings.Clone(s.SchemaURL), s.Attrs}, e.nextSeq()}
		e.scopes.put(*found.Scope, found)
	}
	return found
}

// metric returns the shared value for a metric in its scope.
func (e *Engine) metric(s *scope, m Metric) *metric {
	e.mu.Lock()
	defer e.mu.Unlock()
	found := e.metrics.values[metricKey{s, m}].Value()
	if found == nil {
		found = &metric{m.clone(), s, e.nextSeq()}
		e.metrics.put(metricKey{s, *found.Metric}, found)
	}
	return found
}

// shapeOf returns the shape for a point of the current metric. If the shape already exists, shapeOf
// does not allocate memory.
func (in *Ingest) shapeOf(p *Point) *shape {
	in.e.mu.Lock()
	found := in.e.shapes.values[shapeKey{in.metric, Attrs(p.Own), annotations{Attrs(p.Notes)}, p.Device == ""}].Value()
	in.e.mu.Unlock()
	if found == nil {
		found = in.e.shape(shapeKey{in.metric, Attrs(p.Own), annotations{Attrs(p.Notes)}, p.Device == ""})
	}
	return found
}

// shape returns the shared shape for a key, and creates the shape if needed.
func (e *Engine) shape(key shapeKey) *shape {
	e.mu.Lock()
	defer e.mu.Unlock()
	if found := e.shapes.values[key].Value(); found != nil {
		return found
	}
	sh := &shape{shapeKey: key, own: key.attrs.Sorted()}
	e.shapes.put(key, sh)
	m, loose := key.metric, key.hasNoDevice
	var rules []*Rule
	if p := e.plans[planKey{m.Name, m.Kind == signal.Counter}]; p != nil && !loose {
		rules = slices.DeleteFunc(slices.Clone(p.rules), func(r *Rule) bool { return !r.reads(sh.own) })
		if sh.consumed = len(rules) > 0; sh.consumed {
			sh.own, sh.extra = sh.own.partition(p.keys)
		}
	}
	sh.carried = e.set.KeepLast && (!sh.consumed || m.Kind != signal.Gauge)
	for _, r := range rules {
		if r.ratios && !slices.Contains(sh.ratios, r.scale) {
			sh.ratios = append(sh.ratios, r.scale)
		}
		if r.output != nil {
			own, _ := sh.own.partition(r.Attributes)
			sh.outputs = append(sh.outputs, outputKey{r, own})
		}
	}
	id := appendText([]byte{byte(m.Kind)}, m.Name)
	if loose {
		for _, text := range []string{m.Unit, m.scope.Name, m.scope.Version, string(m.scope.Attrs.Sorted())} {
			id = appendText(id, text)
		}
	}
	sh.identity = string(append(id, sh.own...))
	return sh
}

// The plausible method returns false if a rule reads the point as a ratio and the value is not a
// plausible ratio.
func (sh *shape) plausible(v Number) bool {
	for _, scale := range sh.ratios {
		if _, _, plausible := signal.Clamp(v.Float() * scale); !plausible {
			return false
		}
	}
	return true
}
