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
	Attrs                    Attrs
}

// Metric describes a metric.
type Metric struct {
	Name, Unit, Description string
	Kind                    signal.Kind
	Metadata                Attrs // what the source states about the metric itself
}

func (m Metric) clone() *Metric {
	return &Metric{strings.Clone(m.Name), strings.Clone(m.Unit), strings.Clone(m.Description), m.Kind, m.Metadata}
}

type scope struct {
	*Scope
	seq uint64
}

type metricKey struct {
	scope      *scope
	name, unit string
	kind       signal.Kind
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
	own      Attrs  // those of attrs that identify the series, sorted
	extra    Attrs  // the others of attrs
	identity string // distinguishes the series of a device
	outputs  []outputKey
	consumed bool // a rule reads the point
	carried  bool // windows carry its last value
	// ratios are the scales with which rules read the point as a ratio.
	ratios  []float64
	refused *Series // represents the series that were refused; nil if there are none
}

// shapeKey is a metric and the attributes of a point that do not describe its device, in their
// original order. All points that no window is made from have the shape without a metric: they only
// show that their device exists.
type shapeKey struct {
	metric      *metric
	attrs       Attrs       // those that distinguish series
	notes       annotations // those that describe only the samples
	hasNoDevice bool
}

// annotations are attributes that describe only samples. Nil means no sample.
type annotations struct{ Attrs Attrs }

// outputKey distinguishes the outputs of a device.
type outputKey struct {
	Rule *Rule
	Own  Attrs
}

// shared has data that many series share. It may contain data that no series uses anymore.
type shared struct {
	scopes  map[Scope]*scope
	metrics map[metricKey]*metric
	shapes  map[shapeKey]*shape
	trimAt  int
}

func (h *shared) clear() {
	h.scopes, h.metrics, h.shapes = map[Scope]*scope{}, map[metricKey]*metric{}, map[shapeKey]*shape{}
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
					h.shapes[s.shape.shapeKey], h.metrics[m.metricKey], h.scopes[*m.scope.Scope] = s.shape, m, m.scope
				}
			}
		}
	}
	h.trimAt = 2*(len(h.shapes)+len(h.metrics)+len(h.scopes)) + 1000
}

// scope returns the shared scope.
func (e *Engine) scope(s Scope) *scope {
	found := e.shared.scopes[s]
	if found == nil {
		found = &scope{Scope: s.clone(), seq: e.nextSeq()}
		e.shared.scopes[*found.Scope] = found
	}
	return found
}

func (s Scope) clone() *Scope {
	return &Scope{strings.Clone(s.Name), strings.Clone(s.Version), strings.Clone(s.SchemaURL), s.Attrs}
}

// metric returns the shared metric.
func (e *Engine) metric(s *scope, m Metric) *metric {
	found := e.shared.metrics[metricKey{s, m.Name, m.Unit, m.Kind}]
	if found == nil {
		c := m.clone()
		found = &metric{Metric: c, metricKey: metricKey{s, c.Name, c.Unit, c.Kind}, seq: e.nextSeq()}
		e.shared.metrics[found.metricKey] = found
	} else if *found.Metric != m {
		found.Metric = m.clone()
	}
	return found
}

// shapeOf returns the shape of a point of the current metric.
func (in *Ingest) shapeOf(p *Point) *shape {
	if found := in.e.shared.shapes[shapeKey{in.metric, Attrs(p.Own), annotations{Attrs(p.Notes)}, p.Device == ""}]; found != nil {
		return found // without allocations
	}
	return in.e.shape(shapeKey{in.metric, Attrs(p.Own), annotations{Attrs(p.Notes)}, p.Device == ""})
}

// shape returns the shared shape of a key.
func (e *Engine) shape(key shapeKey) *shape {
	if found := e.shared.shapes[key]; found != nil {
		return found
	}
	sh := &shape{shapeKey: key, own: key.attrs.Sorted()}
	e.shared.shapes[key] = sh
	m, loose := key.metric, key.hasNoDevice
	var rules []*Rule
	if p := e.plans[planKey{m.name, m.kind == signal.Counter}]; p != nil && !loose {
		rules = slices.DeleteFunc(slices.Clone(p.rules), func(r *Rule) bool { return !r.reads(sh.own) })
		if sh.consumed = len(rules) > 0; sh.consumed {
			sh.own, sh.extra = sh.own.partition(p.keys)
		}
	}
	sh.carried = e.set.KeepLast && (!sh.consumed || m.kind != signal.Gauge)
	for _, r := range rules {
		if r.ratios && !slices.Contains(sh.ratios, r.scale) {
			sh.ratios = append(sh.ratios, r.scale)
		}
		if r.output != nil {
			own, _ := sh.own.partition(r.Attributes)
			sh.outputs = append(sh.outputs, outputKey{r, own})
		}
	}
	id := appendText([]byte{byte(m.kind)}, m.name)
	if loose {
		for _, text := range []string{m.unit, m.scope.Name, m.scope.Version, string(m.scope.Attrs.Sorted())} {
			id = appendText(id, text)
		}
	}
	sh.identity = string(append(id, sh.own...))
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
