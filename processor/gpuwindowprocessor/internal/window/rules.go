package window

import (
	"math"
	"slices"
	"strings"
	"time"
)

// Rule computes a Gauge for each window from the samples of another metric. The exported fields are
// the configuration of the rule. The JSON encoding of these fields is part of the fingerprint of
// stored state. New fields must have omitempty, so that the fingerprint of existing settings does
// not change.
type Rule struct {
	// Source is the name of the metric that the rule reads. Functions of counters read a cumulative
	// monotonic Sum. All other functions read a Gauge or a cumulative non-monotonic Sum. A metric
	// that has the same name but a different kind is not read.
	Source string `mapstructure:"source"`
	// Function is one of the names that Functions returns.
	Function string `mapstructure:"function"`
	// Metric is the name of the metric that the rule computes.
	Metric string `mapstructure:"metric"`
	// Unit is the UCUM unit of the metric. If the unit of a mean, max, or quantile rule is 1, the
	// samples and the results of the rule are ratios in [0, 1].
	Unit string `mapstructure:"unit"`
	// Description is the description of the metric.
	Description string `mapstructure:"description" json:"-"`
	// Integer determines whether the values of the metric are rounded to integers.
	Integer bool `mapstructure:"integer"`
	// Attributes contains the attributes that distinguish the metric's series for one device.
	// Series that differ only in other attributes are combined.
	Attributes []string `mapstructure:"attributes"`
	// Where contains conditions. Only points that meet all conditions are read.
	Where []Filter `mapstructure:"where"`
	// Threshold is the inclusive threshold of share_at_least, after scaling.
	Threshold *float64 `mapstructure:"threshold"`
	// Quantile is the parameter of the quantile function, from 0 to 1.
	Quantile *float64 `mapstructure:"quantile" json:",omitempty"`
	// Scale is the factor by which every value that the rule reads is multiplied. Default: 1.
	Scale *float64 `mapstructure:"scale"`

	// The compile function sets the following fields.
	function         *functionKind
	parameter, scale float64 // The parameter of the function, and the scale or its default.
	position         int     // Index of the rule.
	output           *metric // Nil if the metric is disabled.
	// If ratios is true, the samples are ratios. If bounded is true, the result is a ratio.
	ratios, bounded bool
}

// Filter selects points by the value of one attribute.
type Filter struct {
	// Attribute is the name of the point attribute that is checked.
	Attribute string `mapstructure:"attribute"`
	// Values contains the accepted values. A value that ends with * matches a prefix.
	Values []string `mapstructure:"values"`
	// Absent determines whether points without the attribute are accepted.
	Absent bool `mapstructure:"absent"`
}

// Settings contains the settings of the engine. The caller must validate the settings.
type Settings struct {
	// Window is the length of a window. Grace is how long a window remains open after its end.
	// MaxGap is the longest time between two samples of a device that is considered observed.
	Window, Grace, MaxGap time.Duration
	// MaxSeries is the maximum number of input series that are tracked.
	MaxSeries int
	// IdleTimeout is how long a series can go without samples before it ends.
	IdleTimeout time.Duration
	// MarkEnd determines whether a row without a value is emitted when a series ends.
	MarkEnd bool
	// Tier is true if another collector may receive the samples of a node for some time.
	Tier bool
	// KeepLast is true if windows also contain the last value of each series that no rule consumes,
	// and of each cumulative Sum.
	KeepLast bool
	Rules    []Rule
	// Coverage and Samples are the descriptions of the two metrics about the window itself.
	Coverage, Samples Metric
	// ByDevice determines whether the rows of a Resource are sorted by device instead of by metric.
	ByDevice bool
	// Disabled contains the names of metrics that are not emitted. The rules of disabled metrics
	// still consume their source.
	Disabled []string
}

// The compile function returns copies of the rules that are ready for use. The output function
// returns the metric that a rule computes, or nil if the metric is disabled.
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
	// keys contains the attributes that identify an input series, which are the attributes of all
	// rules and of the rules' filters.
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

// The reads method reports whether the rule reads a point that has the given attributes.
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

// The matches method reports whether the attribute has an accepted value.
func (f *Filter) matches(a Attr) bool {
	return a.Kind != OpaqueAttr && slices.ContainsFunc(f.Values, func(pattern string) bool {
		prefix, ok := strings.CutSuffix(pattern, "*")
		return pattern == a.Value || ok && strings.HasPrefix(a.Value, prefix)
	})
}

// add adds a sample to the state of the rule's function. See function.
func (r *Rule) add(f function, o observation) bool { return f.add(o, r.parameter) }

// result returns the value of the point that the rule computes. The second result is false if the
// function has no samples, if a rate or a time ratio does not have two consecutive samples, if a
// quantile could not store all samples, or if the point cannot represent the value.
func (r *Rule) result(f function) (v float64, ok bool) {
	v, ok = f.result(r.parameter)
	limit := math.MaxFloat64
	if r.Integer {
		limit = math.Nextafter(1<<63, 0)
	}
	return v, ok && math.Abs(v) <= limit
}

// number converts a result to the type and range of the rule's metric.
func (r *Rule) number(v float64) Number {
	if r.bounded {
		v = min(max(v, 0), 1)
	}
	if r.Integer {
		return Int(int64(math.Round(v)))
	}
	return Double(v)
}
