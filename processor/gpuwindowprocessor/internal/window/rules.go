package window

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"
)

// Function is what a rule computes over the samples of a window.
type Function uint8

const (
	// Mean is the mean of the samples.
	Mean Function = iota
	// Max is the greatest sample.
	Max
	// ShareAtLeast is the share of samples at or above a threshold.
	ShareAtLeast
	// Increase is the sum of a counter's increases; a fall counts from zero.
	Increase
	// Rate is a counter's increase divided by the observed seconds.
	Rate
	// TimeRatio is Rate of a counter of seconds: a share of the observed time
	// in [0, 1], from which impossible steps are left out.
	TimeRatio
	functions
)

var functionNames = [functions]string{"mean", "max", "share_at_least", "increase", "rate", "time_ratio"}

// String returns the function's name in configuration.
func (f Function) String() string { return functionNames[f] }

// counts reports whether f works on the increases of a cumulative monotonic Sum
// and not on the samples themselves.
func (f Function) counts() bool { return f >= Increase }

// Functions returns the names of all functions.
func Functions() []string { return slices.Clone(functionNames[:]) }

// ParseFunction returns the function of that name.
func ParseFunction(name string) (Function, bool) {
	i := slices.Index(functionNames[:], name)
	if i < 0 {
		return 0, false
	}
	return Function(i), true
}

// Output describes a metric that windows emit: a Gauge.
type Output struct {
	Name        string
	Unit        string
	Description string
	// Int makes the points integers, rounded; otherwise they are doubles.
	Int bool
	// Disabled keeps the metric from being emitted. Its rule still consumes
	// the source.
	Disabled bool
}

// Filter selects points by one attribute.
type Filter struct {
	Attribute string
	// Values are accepted values; one that ends in * is a prefix.
	Values []string
	// Absent accepts points without the attribute.
	Absent bool
}

// Rule says how the samples of one metric become one metric of the window.
type Rule struct {
	// Source is the name of the metric that is read: a cumulative monotonic Sum
	// for Increase, Rate and TimeRatio; a Gauge or a cumulative non-monotonic
	// Sum for the others. A metric of that name and another kind is not read.
	Source   string
	Function Function
	Output   Output
	// Attributes are the point attributes that tell the output's series on one
	// device apart. Series that differ in other attributes are pooled.
	Attributes []string
	// Where must hold, all of it, for a point to be read.
	Where []Filter
	// Threshold is ShareAtLeast's, inclusive, compared after scaling.
	Threshold float64
	// Scale multiplies every value before anything else.
	Scale float64
}

// ratio reports whether the samples themselves are ratios: those of a mean or a
// maximum in unit 1, which are clamped to [0, 1].
func (r *Rule) ratio() bool {
	return r.Output.Unit == "1" && (r.Function == Mean || r.Function == Max)
}

// Identity says which attributes make a series.
type Identity struct {
	// Device is the point attribute that identifies a device. Points without it
	// are of other origin: no rule reads them.
	Device string
	// Resource are the attributes that identify a Resource. An element may name
	// alternatives, separated by |, of which the first present one counts.
	Resource []string
	// Descriptive are point attributes that never make a series and describe its
	// device, whatever metric has them; one that ends in * is a prefix.
	Descriptive []string
	// Annotations are point attributes that never make a series and describe its
	// samples alone: those of the last sample go with it. One that ends in * is a prefix.
	Annotations []string
}

// Settings are the engine's. The caller has validated them.
type Settings struct {
	// Window is the length of a window, Grace the time after its end for which
	// it stays open, MaxGap the longest time between two samples that counts as
	// observed.
	Window, Grace, MaxGap time.Duration
	// MaxSeries is the most input series that are tracked at a time.
	MaxSeries int
	// IdleTimeout is the time without a sample after which a series ends.
	IdleTimeout time.Duration
	// MarkEnd makes ended series leave a row without a value.
	MarkEnd bool
	// KeepLast makes windows carry the last value of the series that no rule
	// consumes, and of all cumulative Sums.
	KeepLast bool
	Identity Identity
	Rules    []Rule
	// Coverage and Samples describe the two metrics about the window itself.
	Coverage, Samples Output
}

// fingerprint identifies the settings under which state can be carried over a
// restart.
func (s *Settings) fingerprint() uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %t %+v", s.Window, s.KeepLast, s.Identity)
	for _, r := range s.Rules {
		r.Output.Description = ""
		fmt.Fprintf(h, " %+v", r)
	}
	return h.Sum64()
}

// plan is what all rules together want of one metric.
type plan struct {
	// keys are the attributes that make an input series: the rules' own ones
	// and those that filters look at.
	keys []string
	// rules are indices into Settings.Rules with what they need of keys.
	rules []planRule
}

type planRule struct {
	rule    uint32
	filters []planFilter
	// own are positions in keys of the rule's own attributes.
	own []int
}

type planFilter struct {
	key int
	*Filter
}

// plans are the plans by metric name, for counters and for everything else.
type plans struct{ counters, values map[string]*plan }

func compile(rules []Rule) plans {
	ps := plans{counters: map[string]*plan{}, values: map[string]*plan{}}
	for i := range rules {
		r := &rules[i]
		byName := ps.values
		if r.Function.counts() {
			byName = ps.counters
		}
		p := byName[r.Source]
		if p == nil {
			p = &plan{}
			byName[r.Source] = p
		}
		pr := planRule{rule: uint32(i)}
		for f := range r.Where {
			pr.filters = append(pr.filters, planFilter{key: p.key(r.Where[f].Attribute), Filter: &r.Where[f]})
		}
		for _, a := range r.Attributes {
			pr.own = append(pr.own, p.key(a))
		}
		p.rules = append(p.rules, pr)
	}
	return ps
}

// key returns the position of an attribute among the plan's keys, which it
// joins when it is new.
func (p *plan) key(name string) int {
	i := slices.Index(p.keys, name)
	if i < 0 {
		i = len(p.keys)
		p.keys = append(p.keys, name)
	}
	return i
}

// selected is a point's attribute for one of a plan's keys.
type selected struct {
	value   Value
	present bool
}

// consumes reports whether any rule reads a point with these attributes.
func (p *plan) consumes(values []selected) bool {
	for i := range p.rules {
		if p.rules[i].matches(values) {
			return true
		}
	}
	return false
}

func (r *planRule) matches(values []selected) bool {
	for i := range r.filters {
		f := &r.filters[i]
		if !f.matches(values[f.key]) {
			return false
		}
	}
	return true
}

func (f *Filter) matches(s selected) bool {
	if !s.present {
		return f.Absent
	}
	text, ok := s.value.text()
	return ok && matchAny(f.Values, text)
}

// matchAny reports whether text is one of the patterns, of which those that end
// in * are prefixes.
func matchAny(patterns []string, text string) bool {
	for _, p := range patterns {
		if prefix, ok := strings.CutSuffix(p, "*"); ok {
			if strings.HasPrefix(text, prefix) {
				return true
			}
		} else if text == p {
			return true
		}
	}
	return false
}
