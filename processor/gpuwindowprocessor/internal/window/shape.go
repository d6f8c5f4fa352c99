package window

import (
	"cmp"
	"slices"
	"strings"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Scope is an instrumentation scope.
type Scope struct {
	Name, Version, SchemaURL string
	Attrs                    []Attr
}

// Kind is the type of a metric that the engine reads.
type Kind uint8

// The kinds of metrics.
const (
	Gauge         Kind = iota // a value at one time
	CumulativeSum             // a non-monotonic Sum
	Counter                   // a cumulative monotonic Sum
)

// Metric describes a metric.
type Metric struct {
	Name, Unit, Description string
	Kind                    Kind
	Metadata                []Attr // what the source states about the metric itself
}

func (m *Metric) clone() *Metric {
	return &Metric{
		Name: strings.Clone(m.Name), Unit: strings.Clone(m.Unit), Description: strings.Clone(m.Description),
		Kind: m.Kind, Metadata: cloneAttrs(m.Metadata),
	}
}

type scope struct {
	*Scope
	key string
	seq uint64
}

type metricKey struct {
	scope      *scope
	name, unit string
	kind       Kind
}

// metric is a metric in its scope. The result of a rule has no scope.
type metric struct {
	*Metric
	metricKey
	seq uint64
}

// rowOrder returns the position of the metric's rows among the rows of a device. The results of
// rules come first. A disabled metric is nil.
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

// shape has the metric, the own attributes and the outputs of a series, but not its device. The
// series of many devices share it. Only refused is ever changed.
type shape struct {
	shapeKey
	attrs    []Attr // those that do not describe the device, in their original order
	own      []Attr // those of attrs that identify the series
	extra    []Attr // those of attrs that are neither own nor annotations
	notes    annotations
	identity string // distinguishes the series of a device
	outputs  []outputKey
	consumed bool // a rule reads the point
	carried  bool // windows carry its last value
	// ratios are the scales with which rules read the point as a ratio.
	ratios  []float64
	refused *Series // represents the series that were refused; nil if there are none
}

// shapeKey is a metric and the encoding of a point's attributes that do not describe its device.
// All points that no window is made from have the shape without a metric: they only show that their
// device exists.
type shapeKey struct {
	metric      *metric
	attrs       string
	hasNoDevice bool
}

type annotations struct{ Attrs []Attr }

// outputKey distinguishes the outputs of a device.
type outputKey struct {
	Rule *Rule
	Own  []Attr
}

// shared has data that many series share. It may contain data that no series uses anymore.
type shared struct {
	scopes  map[string]*scope
	metrics map[metricKey]*metric
	shapes  map[shapeKey]*shape
	trimAt  int
}

func (h *shared) clear() {
	h.scopes, h.metrics, h.shapes = map[string]*scope{}, map[metricKey]*metric{}, map[shapeKey]*shape{}
}

// trim deletes shared data that no series uses anymore, if that may be half of the data.
func (e *Engine) trim() {
	h := &e.shared
	if len(h.shapes)+len(h.metrics)+len(h.scopes) < h.trimAt {
		return
	}
	h.clear()
	for _, p := range e.order {
		for _, d := range p.list {
			for _, s := range d.series {
				if m := s.shape.metric; m != nil {
					h.shapes[s.shape.shapeKey], h.metrics[m.metricKey], h.scopes[m.scope.key] = s.shape, m, m.scope
				}
			}
		}
	}
	h.trimAt = 2*(len(h.shapes)+len(h.metrics)+len(h.scopes)) + 1000
}

// scope returns the shared scope. key is the encoding of s.
func (e *Engine) scope(s *Scope, key []byte) *scope {
	found := e.shared.scopes[string(key)]
	if found == nil {
		c := Scope{strings.Clone(s.Name), strings.Clone(s.Version), strings.Clone(s.SchemaURL), cloneAttrs(s.Attrs)}
		found = &scope{Scope: &c, key: string(key), seq: e.nextSeq()}
		e.shared.scopes[found.key] = found
	}
	return found
}

func (s *Scope) appendKey(b []byte) []byte {
	attrs := slices.Clone(s.Attrs)
	sortAttrs(attrs)
	return appendAttrs(appendString(appendString(b, s.Name), s.Version), attrs)
}

// metric returns the shared metric.
func (e *Engine) metric(s *scope, m *Metric) *metric {
	found := e.shared.metrics[metricKey{s, m.Name, m.Unit, m.Kind}]
	if found == nil {
		c := m.clone()
		found = &metric{Metric: c, metricKey: metricKey{s, c.Name, c.Unit, c.Kind}, seq: e.nextSeq()}
		e.shared.metrics[found.metricKey] = found
	} else if found.Description != m.Description || !slices.Equal(found.Metadata, m.Metadata) {
		found.Metric = m.clone()
	}
	return found
}

// shape returns the shared shape for points. key is the encoding of attrs.
func (e *Engine) shape(m *metric, loose bool, attrs []Attr, key []byte) *shape {
	if found := e.shared.shapes[shapeKey{m, string(key), loose}]; found != nil {
		return found
	}
	sh := &shape{shapeKey: shapeKey{m, string(key), loose}, attrs: cloneAttrs(attrs)}
	e.shared.shapes[sh.shapeKey] = sh
	for _, a := range sh.attrs {
		if !loose && Matches(e.set.Annotations, a.Key) {
			sh.notes.Attrs = append(sh.notes.Attrs, a)
		} else {
			sh.own = append(sh.own, a)
		}
	}
	var rules []*Rule
	if p := e.plans[planKey{m.name, m.kind == Counter}]; p != nil && !loose {
		rules = slices.DeleteFunc(slices.Clone(p.rules), func(r *Rule) bool { return !r.reads(sh.own) })
		if sh.consumed = len(rules) > 0; sh.consumed {
			sh.own, sh.extra = partition(sh.own, p.keys)
		}
	}
	sh.carried = e.set.KeepLast && (!sh.consumed || m.kind != Gauge)
	sortAttrs(sh.own)
	for _, r := range rules {
		if r.ratios && !slices.Contains(sh.ratios, r.scale) {
			sh.ratios = append(sh.ratios, r.scale)
		}
		if r.output != nil {
			own, _ := partition(sh.own, r.Attributes)
			sh.outputs = append(sh.outputs, outputKey{r, own})
		}
	}
	id := appendString([]byte{byte(m.kind)}, m.name)
	if loose {
		id = appendString(appendString(id, m.unit), m.scope.key)
	}
	sh.identity = string(appendAttrs(id, sh.own))
	return sh
}

// plausible reports whether the value is a plausible ratio, if rules read the point as a ratio.
func (sh *shape) plausible(v Number) bool {
	for _, scale := range sh.ratios {
		if _, _, plausible := signal.Clamp(v.Float() * scale); !plausible {
			return false
		}
	}
	return true
}

// partition returns the attributes with these keys, and the others.
func partition(attrs []Attr, keys []string) (in, out []Attr) {
	for _, a := range attrs {
		if slices.Contains(keys, a.Key) {
			in = append(in, a)
		} else {
			out = append(out, a)
		}
	}
	return in, out
}
