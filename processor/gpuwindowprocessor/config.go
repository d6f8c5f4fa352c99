package gpuwindowprocessor

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"

	base "github.com/otelcol-gpu/otelcol-gpu/internal/component"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor/internal/window"
)

// Ways of treating metrics that windows are not made of.
const (
	passthroughLast = "last"
	passthroughAll  = "all"
	passthroughNone = "none"
)

const (
	// maxWindow is the longest window: the engine keeps the sample times of one.
	maxWindow = 24 * time.Hour
	// minDuration is the shortest duration that makes sense. A duration without
	// its unit is one in nanoseconds.
	minDuration = 100 * time.Millisecond
	// minDelay is the shortest delay that makes sense, other than none.
	minDelay = time.Millisecond
	// defaultMaxSeries holds 1,000 nodes of 8 GPUs in one collector, with every signal on
	// and a container on each GPU, at some 1,400 series a node. All of them take 650 MB.
	defaultMaxSeries = 2_000_000
	// maxSeriesLimit is the greatest max_series that makes sense in memory.
	maxSeriesLimit = 100_000_000
)

// Config is the configuration of the processor.
type Config struct {
	// Window is the length of a window, 1s to 24h. Windows are aligned to the
	// Unix epoch.
	Window time.Duration `mapstructure:"window"`
	// Grace is how long after its end a window waits for late samples. At most
	// ten window lengths, since a window for each is open all the time.
	Grace time.Duration `mapstructure:"grace"`
	// MaxGap is the longest time between two samples of a device that counts as
	// observed, and the backward step of the wall clock that is put up with.
	MaxGap time.Duration `mapstructure:"max_gap"`
	// MemoryPressureThreshold is the memory occupancy, inclusive, from which on
	// the default rules speak of pressure. Above 0, at most 1.
	MemoryPressureThreshold float64 `mapstructure:"memory_pressure_threshold"`
	// MaxSeries is the most input series that are tracked; further ones are
	// refused and counted.
	MaxSeries int `mapstructure:"max_series"`
	// IdleTimeout ends series without a sample for that long.
	IdleTimeout time.Duration `mapstructure:"idle_timeout"`
	// MarkEnd makes the end of a series known by one NoRecordedValue point.
	MarkEnd bool `mapstructure:"mark_end"`
	// StartTimestamp gives windows' points their start as StartTimestamp.
	StartTimestamp bool `mapstructure:"start_timestamp"`
	// Passthrough is what becomes of other metrics: last, all or none.
	Passthrough string `mapstructure:"passthrough"`
	// Storage is the storage extension that state survives a restart in.
	Storage *component.ID `mapstructure:"storage"`
	// SnapshotInterval is the time between two snapshots of the state.
	SnapshotInterval time.Duration `mapstructure:"snapshot_interval"`
	// EmitJitter bounds the delay, drawn once at start, by which windows leave
	// after they closed, so that many agents do not send at the same moment.
	EmitJitter time.Duration `mapstructure:"emit_jitter"`
	// MaxBatchPoints is the most points that leave in one batch.
	MaxBatchPoints int `mapstructure:"max_batch_points"`
	// Metrics switches metrics of the windows off by name.
	Metrics base.Metrics `mapstructure:"metrics"`
	// Identity says which attributes make a series.
	Identity IdentityConfig `mapstructure:"identity"`
	// Rules replace the default rules where they are given; an empty list is none.
	Rules []RuleConfig `mapstructure:"rules"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// IdentityConfig says which attributes make a series.
type IdentityConfig struct {
	// Device is the point attribute that identifies a device. Points without it
	// are read by no rule.
	Device string `mapstructure:"device"`
	// Resource are the Resource attributes that identify a place or workload;
	// "a|b" takes the first of both that is present.
	Resource []string `mapstructure:"resource"`
	// Descriptive are point attributes that never make a series and describe its
	// device, whatever metric has them; "a.*" is a prefix.
	Descriptive []string `mapstructure:"descriptive"`
	// Annotations are point attributes that never make a series and describe its
	// samples alone: those of the last sample go with it. "a.*" is a prefix.
	Annotations []string `mapstructure:"annotations"`

	_ struct{}
}

// RuleConfig makes one metric of the window from the samples of one metric.
type RuleConfig struct {
	// Source is the name of the metric that is read.
	Source string `mapstructure:"source"`
	// Function is mean, max, share_at_least, increase, rate or time_ratio.
	Function string `mapstructure:"function"`
	// Metric is the name of the metric that is made.
	Metric string `mapstructure:"metric"`
	// Unit is its UCUM unit; 1 makes it a ratio in [0, 1].
	Unit string `mapstructure:"unit"`
	// Description is its description.
	Description string `mapstructure:"description"`
	// Integer makes its points integers.
	Integer bool `mapstructure:"integer"`
	// Attributes tell its series on one device apart.
	Attributes []string `mapstructure:"attributes"`
	// Where must hold, all of it, for a point to be read.
	Where []FilterConfig `mapstructure:"where"`
	// Threshold is that of share_at_least, inclusive, after scaling.
	Threshold *float64 `mapstructure:"threshold"`
	// Scale multiplies every value that is read; absent is 1.
	Scale *float64 `mapstructure:"scale"`

	_ struct{}
}

// FilterConfig selects points by one attribute.
type FilterConfig struct {
	// Attribute is the point attribute that is looked at.
	Attribute string `mapstructure:"attribute"`
	// Values are accepted values; "a*" is a prefix.
	Values []string `mapstructure:"values"`
	// Absent accepts points without the attribute.
	Absent bool `mapstructure:"absent"`

	_ struct{}
}

var (
	_ confmap.Unmarshaler = (*Config)(nil)
	_ confmap.Validator   = (*Config)(nil)
)

func createDefaultConfig() component.Config {
	return &Config{
		Window:                  time.Minute,
		Grace:                   5 * time.Second,
		MaxGap:                  90 * time.Second,
		MemoryPressureThreshold: 0.9,
		MaxSeries:               defaultMaxSeries,
		IdleTimeout:             10 * time.Minute,
		MarkEnd:                 true,
		StartTimestamp:          true,
		Passthrough:             passthroughLast,
		SnapshotInterval:        30 * time.Second,
		EmitJitter:              time.Second,
		MaxBatchPoints:          8192,
		Identity:                defaultIdentity(),
	}
}

// Unmarshal implements confmap.Unmarshaler. A number that its field cannot hold is an
// error.
func (c *Config) Unmarshal(conf *confmap.Conf) error { return base.Unmarshal(conf, c) }

// Validate reports every setting that cannot be used, each with its value and
// what is allowed.
func (c *Config) Validate() error {
	var p base.Problems
	sound := c.Window >= time.Second && c.Window <= maxWindow
	p.Check(sound, "window is %s: must be between 1s and %s; write the unit, as in 60s", c.Window, maxWindow)
	p.Check(isDelay(c.Grace) && (!sound || c.Grace <= 10*c.Window), "grace is %s: must be 0s, or 1ms to ten times window; write the unit, as in 5s", c.Grace)
	p.Check(c.MaxGap >= minDuration, "max_gap is %s: must be at least 100ms; write the unit, as in 90s", c.MaxGap)
	p.Check(c.MemoryPressureThreshold > 0 && c.MemoryPressureThreshold <= 1,
		"memory_pressure_threshold is %v: must be above 0 and at most 1", c.MemoryPressureThreshold)
	p.Check(c.MaxSeries >= 1 && c.MaxSeries <= maxSeriesLimit, "max_series is %d: must be between 1 and %d", c.MaxSeries, maxSeriesLimit)
	p.Check(c.IdleTimeout >= minDuration, "idle_timeout is %s: must be at least 100ms; write the unit, as in 90s", c.IdleTimeout)
	p.Check(c.Passthrough == passthroughLast || c.Passthrough == passthroughAll || c.Passthrough == passthroughNone,
		"passthrough is %q: must be one of last, all, none", c.Passthrough)
	p.Check(c.SnapshotInterval >= minDuration, "snapshot_interval is %s: must be at least 100ms; write the unit, as in 90s", c.SnapshotInterval)
	p.Check(isDelay(c.EmitJitter) && (!sound || c.EmitJitter <= c.Window), "emit_jitter is %s: must be 0s, or 1ms to window; write the unit, as in 1s", c.EmitJitter)
	p.Check(c.MaxBatchPoints >= 1, "max_batch_points is %d: must be at least 1", c.MaxBatchPoints)
	c.Identity.validate(&p)
	outputs := map[string]int{}
	for i := range c.Rules {
		c.Rules[i].validate(&c.Identity, func(ok bool, format string, args ...any) {
			p.Check(ok, "rules[%d]: "+format, append([]any{i}, args...)...)
		})
		name := c.Rules[i].Metric
		first, twice := outputs[name]
		p.Check(!twice || name == "", "rules[%d]: metric is %q: must be made by one rule, and rules[%d] makes it", i, name, first)
		if !twice {
			outputs[name] = i
		}
	}
	p.Add(c.Metrics.Check(c.metricNames())...)
	return p.Err()
}

func (c *IdentityConfig) validate(p *base.Problems) {
	p.Check(c.Device != "", "identity::device is \"\": must be an attribute key")
	p.Check(len(c.Resource) > 0, "identity::resource is []: must name at least one attribute")
	for i, names := range c.Resource {
		p.Check(!slices.Contains(strings.Split(names, "|"), ""), "identity::resource[%d] is %q: must be attribute keys separated by |", i, names)
	}
	for _, list := range []struct {
		name     string
		patterns []string
	}{{"descriptive", c.Descriptive}, {"annotations", c.Annotations}} {
		for i, pattern := range list.patterns {
			err := validatePattern(pattern)
			p.Check(err == nil, "identity::%s[%d] %w", list.name, i, err)
			prefix, ok := strings.CutSuffix(pattern, "*")
			p.Check(pattern != c.Device && (!ok || !strings.HasPrefix(c.Device, prefix)),
				"identity::%s[%d] is %q: must not be identity::device", list.name, i, pattern)
		}
	}
}

// validatePattern checks a value that may end in * to be a prefix.
func validatePattern(pattern string) error {
	if at := strings.Index(pattern, "*"); pattern == "" || at >= 0 && at != len(pattern)-1 {
		return fmt.Errorf("is %q: must be text that may end in * to be a prefix", pattern)
	}
	return nil
}

func (c *RuleConfig) validate(identity *IdentityConfig, check func(ok bool, format string, args ...any)) {
	check(c.Source != "", "source is \"\": must be a metric name")
	check(c.Source != signal.GPUExporterUp.Name, "source is %q: must not be a metric that passes untouched", c.Source)
	check(c.Metric != "", "metric is \"\": must be a metric name")
	check(c.Metric == "" || c.Metric != c.Source, "metric is %q: must be another one than source", c.Metric)
	check(c.Metric != signal.WindowCoverage.Name && c.Metric != signal.WindowSamples.Name,
		"metric is %q: must not be one that every window has", c.Metric)
	function, ok := window.ParseFunction(c.Function)
	check(ok, "function is %q: must be one of %s", c.Function, strings.Join(window.Functions(), ", "))
	if ok && function == window.ShareAtLeast {
		check(c.Threshold != nil, "threshold is unset: must be set for share_at_least")
		check(c.Threshold == nil || finite(*c.Threshold), "threshold is %v: must be a finite number", c.threshold())
	} else {
		check(c.Threshold == nil, "threshold is %v: must be absent but for share_at_least", c.threshold())
	}
	check(c.Scale == nil || finite(*c.Scale) && *c.Scale != 0, "scale is %v: must be a finite number other than 0", c.scale())
	for i, a := range c.Attributes {
		check(a != "" && !identity.describes(a) && !slices.Contains(c.Attributes[:i], a),
			"attributes[%d] is %q: must be an attribute that neither identifies a device nor describes it, named once", i, a)
	}
	for i := range c.Where {
		f := &c.Where[i]
		check(f.Attribute != "" && !identity.describes(f.Attribute),
			"where[%d]: attribute is %q: must be an attribute that neither identifies a device nor describes it", i, f.Attribute)
		check(len(f.Values) > 0 || f.Absent, "where[%d]: values is []: must not be empty unless absent is true", i)
		for j, v := range f.Values {
			err := validatePattern(v)
			check(err == nil, "where[%d]: values[%d] %w", i, j, err)
		}
	}
}

func isDelay(d time.Duration) bool { return d == 0 || d >= minDelay }

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

func (c *RuleConfig) threshold() float64 {
	if c.Threshold == nil {
		return 0
	}
	return *c.Threshold
}

func (c *RuleConfig) scale() float64 {
	if c.Scale == nil {
		return 1
	}
	return *c.Scale
}

// describes reports whether a point attribute is the device's identity, describes
// it, or is an annotation.
func (c *IdentityConfig) describes(key string) bool {
	if key == c.Device {
		return true
	}
	for _, pattern := range slices.Concat(c.Descriptive, c.Annotations) {
		if prefix, ok := strings.CutSuffix(pattern, "*"); pattern == key || ok && strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}

// rules returns the rules in force.
func (c *Config) rules() []RuleConfig {
	if c.Rules != nil {
		return c.Rules
	}
	return defaultRules(c.MemoryPressureThreshold)
}

// metricNames returns the names of all metrics of the windows.
func (c *Config) metricNames() []string {
	var names []string
	for _, r := range c.rules() {
		names = append(names, r.Metric)
	}
	return append(names, signal.WindowCoverage.Name, signal.WindowSamples.Name)
}

// disabled reports whether a metric of the windows is switched off.
func (c *Config) disabled(name string) bool {
	return !c.Metrics.Enabled(name, true)
}

// settings returns the engine's settings.
func (c *Config) settings() window.Settings {
	s := window.Settings{
		Window: c.Window, Grace: c.Grace, MaxGap: c.MaxGap,
		MaxSeries: c.MaxSeries, IdleTimeout: c.IdleTimeout, MarkEnd: c.MarkEnd,
		KeepLast: c.Passthrough == passthroughLast,
		Identity: window.Identity{
			Device: c.Identity.Device, Resource: c.Identity.Resource, Descriptive: c.Identity.Descriptive, Annotations: c.Identity.Annotations,
		},
		Coverage: c.output(signal.WindowCoverage),
		Samples:  c.output(signal.WindowSamples),
	}
	for _, r := range c.rules() {
		function, _ := window.ParseFunction(r.Function)
		out := window.Rule{
			Source: r.Source, Function: function, Attributes: r.Attributes,
			Threshold: r.threshold(), Scale: r.scale(),
			Output: window.Output{
				Name: r.Metric, Unit: r.Unit, Description: r.Description, Int: r.Integer, Disabled: c.disabled(r.Metric),
			},
		}
		for _, f := range r.Where {
			out.Where = append(out.Where, window.Filter{Attribute: f.Attribute, Values: f.Values, Absent: f.Absent})
		}
		s.Rules = append(s.Rules, out)
	}
	return s
}

func (c *Config) output(m *signal.Metric) window.Output {
	return window.Output{Name: m.Name, Unit: m.Unit, Description: m.Description, Int: m.Int, Disabled: c.disabled(m.Name)}
}
