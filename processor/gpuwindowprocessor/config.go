package gpuwindowprocessor

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"

	"github.com/otelcol-gpu/otelcol-gpu/internal/metricswitch"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/internal/strictconf"
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
	// MaxBatchPoints is the most points that leave in one batch.
	MaxBatchPoints int `mapstructure:"max_batch_points"`
	// Metrics switches metrics of the windows off by name.
	Metrics metricswitch.Config `mapstructure:"metrics"`
	// Identity says which attributes make a series.
	Identity IdentityConfig `mapstructure:"identity"`
	// Rules replace the default rules where they are given; an empty list is none.
	Rules []RuleConfig `mapstructure:"rules"`

	// noJitter makes windows leave as soon as they have closed, for tests.
	noJitter bool
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
		MaxBatchPoints:          8192,
		Identity:                defaultIdentity(),
	}
}

// Unmarshal implements confmap.Unmarshaler. A number that its field cannot hold is an
// error.
func (c *Config) Unmarshal(conf *confmap.Conf) error { return strictconf.Unmarshal(conf, c) }

// Validate reports every setting that cannot be used, each with its value and
// what is allowed.
func (c *Config) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	sound := c.Window >= time.Second && c.Window <= maxWindow
	check(sound, "window is %s: must be between 1s and %s; write the unit, as in 60s", c.Window, maxWindow)
	check(isDelay(c.Grace) && (!sound || c.Grace <= 10*c.Window), "grace is %s: must be 0s, or 1ms to ten times window; write the unit, as in 5s", c.Grace)
	check(c.MaxGap >= minDuration, "max_gap is %s: must be at least 100ms; write the unit, as in 90s", c.MaxGap)
	check(c.MemoryPressureThreshold > 0 && c.MemoryPressureThreshold <= 1,
		"memory_pressure_threshold is %v: must be above 0 and at most 1", c.MemoryPressureThreshold)
	check(c.MaxSeries >= 1 && c.MaxSeries <= maxSeriesLimit, "max_series is %d: must be between 1 and %d", c.MaxSeries, maxSeriesLimit)
	check(c.IdleTimeout >= minDuration, "idle_timeout is %s: must be at least 100ms; write the unit, as in 90s", c.IdleTimeout)
	check(c.Passthrough == passthroughLast || c.Passthrough == passthroughAll || c.Passthrough == passthroughNone,
		"passthrough is %q: must be one of last, all, none", c.Passthrough)
	check(c.MaxBatchPoints >= 1, "max_batch_points is %d: must be at least 1", c.MaxBatchPoints)
	errs = append(errs, c.Identity.validate()...)
	outputs := map[string]int{}
	for i := range c.Rules {
		for _, err := range c.Rules[i].validate(&c.Identity) {
			errs = append(errs, fmt.Errorf("rules[%d]: %w", i, err))
		}
		name := c.Rules[i].Metric
		first, twice := outputs[name]
		check(!twice || name == "", "rules[%d]: metric is %q: must be made by one rule, and rules[%d] makes it", i, name, first)
		if !twice {
			outputs[name] = i
		}
	}
	errs = append(errs, c.Metrics.Check(c.metricNames())...)
	return errors.Join(errs...)
}

func (c *IdentityConfig) validate() []error {
	var errs []error
	if c.Device == "" {
		errs = append(errs, errors.New("identity::device is \"\": must be an attribute key"))
	}
	if len(c.Resource) == 0 {
		errs = append(errs, errors.New("identity::resource is []: must name at least one attribute"))
	}
	for i, names := range c.Resource {
		if slices.Contains(strings.Split(names, "|"), "") {
			errs = append(errs, fmt.Errorf("identity::resource[%d] is %q: must be attribute keys separated by |", i, names))
		}
	}
	for i, pattern := range c.Descriptive {
		if err := validatePattern(pattern); err != nil {
			errs = append(errs, fmt.Errorf("identity::descriptive[%d] %w", i, err))
		}
		if prefix, ok := strings.CutSuffix(pattern, "*"); pattern == c.Device || ok && strings.HasPrefix(c.Device, prefix) {
			errs = append(errs, fmt.Errorf("identity::descriptive[%d] is %q: must not be identity::device", i, pattern))
		}
	}
	return errs
}

// validatePattern checks a value that may end in * to be a prefix.
func validatePattern(pattern string) error {
	if at := strings.Index(pattern, "*"); pattern == "" || at >= 0 && at != len(pattern)-1 {
		return fmt.Errorf("is %q: must be text that may end in * to be a prefix", pattern)
	}
	return nil
}

func (c *RuleConfig) validate(identity *IdentityConfig) []error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
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
	return errs
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
	for _, pattern := range slices.Concat(c.Descriptive, annotations) {
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
			Device: c.Identity.Device, Resource: c.Identity.Resource, Descriptive: c.Identity.Descriptive, Annotations: annotations,
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
