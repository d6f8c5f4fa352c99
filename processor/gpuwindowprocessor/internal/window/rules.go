package window

import (
	"math"
	"slices"
	"strings"
	"time"
)

// Rule computes a Gauge of the window from the samples of another metric. The exported fields are
// its configuration. Their JSON encoding is part of the fingerprint of stored state. New fields
// must have omitempty, so that the fingerprint of existing settings does not change.
type Rule struct {
	// Source is the name of the metric that is read: a cumulative monotonic Sum for functions of
	// counters, and a Gauge or a cumulative non-monotonic Sum for the other functions. A metric
	// with the same name but another kind is not read.
	Source string `mapstructure:"source"`
	// Function is one of Functions.
	Function string `mapstructure:"function"`
	// Metric is the name of the metric that is computed.
	Metric string `mapstructure:"metric"`
	// Unit is the metric's UCUM unit. 1 makes the metric a ratio in [0, 1].
	Unit string `mapstructure:"unit"`
	// Description is the metric's description.
	Description string `mapstructure:"description" json:"-"`
	// Integer rounds the metric's values to integers.
	Integer bool `mapstructure:"integer"`
	// Attributes distinguish the metric's series on one device. Series that differ only in other
	// attributes are combined.
	Attributes []string `mapstructure:"attributes"`
	// Where contains conditions. Only points that meet all conditions are read.
	Where []Filter `mapstructure:"where"`
	// Threshold is the inclusive threshold of share_at_least, after scaling.
	Threshold *float64 `mapstructure:"threshold"`
	// Quantile is the parameter of quantile, from 0 to 1.
	Quantile *float64 `mapstructure:"quantile" json:",omitempty"`
	// Scale multiplies every value that is read. Default: 1.
	Scale *float64 `mapstructure:"scale"`

	// The following fields are set by compile.
	function         *functionKind
	parameter, scale float64 // parameter is the parameter of the function
	position         int     // index of the rule
	output           *metric // nil if the metric is disabled
	// ratios is true if the samples are ratios. bounded is true if the result is a ratio.
	ratios, bounded bool
}

// Filter selects points by one attribute.
type Filter struct {
	// Attribute is the point attribute that is checked.
	Attribute string `mapstructure:"attribute"`
	// Values are the accepted values. A value such as "a*" matches a prefix.
	Values []string `mapstructure:"values"`
	// Absent accepts points without the attribute.
	Absent bool `mapstructure:"absent"`
}

// Settings contains the settings of the engine. The caller must validate them.
type Settings struct {
	// Window is the length of a window. Grace is the time for which a window remains open after its
	// end. MaxGap is the longest time between two samples that is considered observed.
	Window, Grace, MaxGap time.Duration
	// MaxSeries is the maximum number of input series that are tracked.
	MaxSeries int
	// IdleTimeout is the time without samples after which a series ends.
	IdleTimeout time.Duration
	// MarkEnd emits one row without a value when a series ends.
	MarkEnd bool
	// Tier is true if another collector may receive the samples of a node for some time.
	Tier bool
	// KeepLast is true if windows also contain the last value of each series that no rule consumes,
	// and of each cumulative Sum.
	KeepLast bool
	Rules    []Rule
	// Coverage and Samples describe the two metrics about the window itself.
	Coverage, Samples Metric
	// ByDevice sends the rows of a Resource sorted by device instead of by metric.
	ByDevice bool
	// Disabled are metrics that are not emitted. Their rules still consume the source.
	Disabled []string
}

// compile returns copies of the rules that are ready for use. output returns the metric that a rule
// computes, or nil if it is disabled.
func compile(configured []Rule, output func(Metric) *metric) []*Rule {
	var rules []*Rule
	for i, r := range configured {
		r.function = &functionKinds[slices.Index(Functions(), r.Function)]
		r.parameter, r.scale, r.position = 0, 1, i
		for _, parameter := range []*float64{r.Threshold, r.Quantile} {
			if parameter != nil {
				r.parameter = *parameter
			}
		}
		if r.Scale != nil {
			r.scale = *r.Scale
		}
		r.output = output(Metric{Name: r.Metric, Unit: r.Unit, Description: r.Description})
		r.ratios = r.Unit == "1" && !r.function.counts && !r.function.ratio
		r.bounded = r.function.ratio || r.ratios
		rules = append(rules, &r)
	}
	return rules
}

// plan contains all rules that read one metric.
type plan struct {
	// keys are the attributes that identify an input series: the attributes of the rules and of
	// their filters.
	keys  []string
	rules []*Rule
}

type planKey struct {
	source string
	counts bool
}

func rulesByMetric(rules []*Rule) map[planKey]*plan {
	plans := map[planKey]*plan{}
	for _, r := range rules {
		key := planKey{r.Source, r.function.counts}
		p := plans[key]
		if p == nil {
			p = &plan{}
			plans[key] = p
		}
		p.rules = append(p.rules, r)
		p.keys = append(p.keys, r.Attributes...)
		for i := range r.Where {
			p.keys = append(p.keys, r.Where[i].Attribute)
		}
	}
	return plans
}

// reads reports whether the rule reads a point with these attributes.
func (r *Rule) reads(attrs Attrs) bool {
	for i := range r.Where {
		f := &r.Where[i]
		a, present := attrs.find(f.Attribute)
		if present && !f.matches(a) || !present && !f.Absent {
			return false
		}
	}
	return true
}

// matches reports whether the attribute has an accepted value.
func (f *Filter) matches(a Attr) bool {
	return a.Kind != OpaqueAttr && slices.ContainsFunc(f.Values, func(pattern string) bool {
		prefix, ok := strings.CutSuffix(pattern, "*")
		return pattern == a.Value || ok && strings.HasPrefix(a.Value, prefix)
	})
}

// add adds a sample to the state of the rule's function. See function.
func (r *Rule) add(f function, o observation) bool { return f.add(o, r.parameter) }

// result returns the value of the rule's point. It returns false for a function without samples,
// for a ratio without two consecutive samples, and for a value that the point cannot represent.
func (r *Rule) result(f function) (v float64, ok bool) {
	v, ok = f.result(r.parameter)
	limit := math.MaxFloat64
	if r.Integer {
		limit = math.Nextafter(1<<63, 0)
	}
	return v, ok && math.Abs(v) <= limit
}

// number converts a result to the type and the range of the rule's metric.
func (r *Rule) number(v float64) Number {
	if r.bounded {
		v = min(max(v, 0), 1)
	}
	if r.Integer {
		return Int(int64(math.Round(v)))
	}
	return Double(v)
}
