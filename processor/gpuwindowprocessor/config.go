package gpuwindowprocessor

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor/internal/window"
)

// Values of device_attributes.
const (
	onPoints    = "point"
	onResources = "resource"
)

// Values of passthrough.
const (
	passthroughLast = "last"
	passthroughAll  = "all"
	passthroughNone = "none"
)

const (
	// maxWindow is the maximum length of a window. The length is limited because the engine stores
	// all sample times of a window.
	maxWindow = 24 * time.Hour
	// minDuration is the minimum value of a duration setting. Durations without a unit are parsed
	// as nanoseconds, so they are below the minimum and can be detected.
	minDuration = 100 * time.Millisecond
	// minDelay is the minimum value of a delay that is not 0.
	minDelay = time.Millisecond
	// defaultMaxSeries is sufficient for 1,000 nodes with 8 GPUs each in one collector, if every
	// signal is enabled and each GPU is used by a container. Each of these nodes has about 1,400
	// series. If the limit is reached, the series use 740 MB of memory.
	defaultMaxSeries = 2_000_000
	// maxBatchPoints is the maximum number of points in one batch. If labels are long, a batch
	// reaches maxBatchBytes before it reaches maxBatchPoints.
	maxBatchPoints = 4096
	// maxSeriesLimit is the maximum value of the max_series setting. More series would not fit in
	// memory.
	maxSeriesLimit = 100_000_000
)

// Config is the configuration of the gpu_window processor.
type Config struct {
	// Window is the length of a window, from 1 s to 24 h. Windows are aligned to the Unix epoch.
	Window time.Duration `mapstructure:"window"`
	// Grace is how long a window accepts late samples after the end of the window. The maximum is
	// ten times the window length, because Grace determines how many windows are open at the same
	// time.
	Grace time.Duration `mapstructure:"grace"`
	// MaxGap is the longest time between two samples of a device that is considered observed.
	// MaxGap is also the largest backward step of the wall clock that is tolerated.
	MaxGap time.Duration `mapstructure:"max_gap"`
	// MemoryPressureThreshold is the lowest memory utilization that the default rules count as
	// memory pressure. The value must be greater than 0 and at most 1.
	MemoryPressureThreshold float64 `mapstructure:"memory_pressure_threshold"`
	// MaxSeries is the maximum number of input series that are tracked. The samples of series
	// beyond the limit are refused and counted.
	MaxSeries int `mapstructure:"max_series"`
	// IdleTimeout is how long a series can go without samples before it ends.
	IdleTimeout time.Duration `mapstructure:"idle_timeout"`
	// Tier is true if nodes are distributed among several collectors, so that another collector may
	// receive a node's samples for some time. In a tier, the ends of series are never marked,
	// because a series may continue in another collector.
	Tier bool `mapstructure:"tier"`
	// StartTimestamp determines whether the StartTimestamp of a window's points is set to the start
	// of the window.
	StartTimestamp bool `mapstructure:"start_timestamp"`
	// DeviceAttributes determines where device attributes are written: on the point or on the
	// resource.
	DeviceAttributes string `mapstructure:"device_attributes"`
	// FlatAttributes determines whether the attributes of the Resource are copied to each point,
	// for backends that store only point attributes.
	FlatAttributes bool `mapstructure:"flat_attributes"`
	// Passthrough determines which samples are sent in addition to windows: last, all, or none.
	Passthrough string `mapstructure:"passthrough"`
	// Storage is the storage extension that keeps the state across restarts.
	Storage *component.ID `mapstructure:"storage"`
	// Metrics enables or disables window metrics by name.
	Metrics componenthelper.Metrics `mapstructure:"metrics"`
	// Rules replaces the default rules if it is set. If the list is set but empty, there are no
	// rules.
	Rules []window.Rule `mapstructure:"rules"`

	// noJitter disables the random delay before windows are sent. Tests set it.
	noJitter bool
	// maxBatchPoints is the maximum number of points in one batch. Tests lower it.
	maxBatchPoints int

	// prevent unkeyed literal initialization
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
		StartTimestamp:          true,
		DeviceAttributes:        onPoints,
		Passthrough:             passthroughLast,
		maxBatchPoints:          maxBatchPoints,
	}
}

// Unmarshal implements confmap.Unmarshaler with [componenthelper.Unmarshal]. If max_gap is set to
// more than the default of idle_timeout, the default of idle_timeout becomes max_gap.
func (c *Config) Unmarshal(conf *confmap.Conf) error {
	if err := componenthelper.Unmarshal(conf, c); err != nil {
		return err
	}
	if !conf.IsSet("idle_timeout") {
		c.IdleTimeout = max(c.IdleTimeout, c.MaxGap)
	}
	return nil
}

// Validate returns an error that lists all invalid settings, with their values and the allowed
// values.
func (c *Config) Validate() error {
	var p componenthelper.Problems
	validWindow := c.Window >= time.Second && c.Window <= maxWindow
	p.Check(validWindow, "window is %s: must be between 1s and %s; write the unit, as in 60s", c.Window, maxWindow)
	p.Check(isDelay(c.Grace) && (!validWindow || c.Grace <= 10*c.Window), "grace is %s: must be 0s, or 1ms to ten times window; write the unit, as in 5s", c.Grace)
	p.Check(c.MaxGap >= minDuration, "max_gap is %s: must be at least 100ms; write the unit, as in 90s", c.MaxGap)
	p.Check(c.MemoryPressureThreshold > 0 && c.MemoryPressureThreshold <= 1,
		"memory_pressure_threshold is %v: must be above 0 and at most 1", c.MemoryPressureThreshold)
	p.Check(c.MaxSeries >= 1 && c.MaxSeries <= maxSeriesLimit, "max_series is %d: must be between 1 and %d", c.MaxSeries, maxSeriesLimit)
	p.Check(c.IdleTimeout >= max(minDuration, c.MaxGap),
		"idle_timeout is %s: must be at least max_gap, %s, because a series that ends restarts its counters; write the unit, as in 10m", c.IdleTimeout, c.MaxGap)
	p.Check(c.DeviceAttributes == onPoints || c.DeviceAttributes == onResources,
		"device_attributes is %q: must be one of point, resource", c.DeviceAttributes)
	p.Check(c.Passthrough == passthroughLast || c.Passthrough == passthroughAll || c.Passthrough == passthroughNone,
		"passthrough is %q: must be one of last, all, none", c.Passthrough)
	p.Check(!c.FlatAttributes || c.Passthrough != passthroughAll,
		"flat_attributes is true and passthrough is %q: must be last or none, because samples that pass keep their attributes where they are", c.Passthrough)
	outputs := map[string]int{}
	for i := range c.Rules {
		checkRule(&c.Rules[i], func(ok bool, format string, args ...any) {
			p.Check(ok, "rules[%d]: "+format, append([]any{i}, args...)...)
		})
		name := c.Rules[i].Metric
		first, exists := outputs[name]
		p.Check(!exists || name == "", "rules[%d]: metric is %q: must be computed by only one rule, but rules[%d] also computes it", i, name, first)
		if !exists {
			outputs[name] = i
		}
	}
	p.Add(c.Metrics.Check(c.metricNames())...)
	return p.Err()
}

// checkPattern returns an error if the pattern is empty, or if it contains a * before the last
// character.
func checkPattern(pattern string) error {
	if at := strings.Index(pattern, "*"); pattern == "" || at >= 0 && at != len(pattern)-1 {
		return fmt.Errorf("is %q: must be text that may end in * to be a prefix", pattern)
	}
	return nil
}

func checkRule(r *window.Rule, check func(ok bool, format string, args ...any)) {
	check(r.Source != "", "source is \"\": must be a metric name")
	check(r.Source != signal.GPUExporterUp.Name, "source is %q: must not be a metric that is forwarded unchanged", r.Source)
	check(r.Metric != "", "metric is \"\": must be a metric name")
	check(r.Metric == "" || r.Metric != r.Source, "metric is %q: must be another one than source", r.Metric)
	check(r.Metric != signal.WindowCoverage.Name && r.Metric != signal.WindowSamples.Name,
		"metric is %q: must not be one that every window has", r.Metric)
	check(slices.Contains(window.Functions(), r.Function), "function is %q: must be one of %s", r.Function, strings.Join(window.Functions(), ", "))
	if r.Function == window.ShareAtLeast {
		check(r.Threshold != nil, "threshold is unset: must be set for share_at_least")
		check(r.Threshold == nil || finite(*r.Threshold), "threshold is %v: must be a finite number", value(r.Threshold))
	} else {
		check(r.Threshold == nil, "threshold is %v: must be set only for share_at_least", value(r.Threshold))
	}
	if r.Function == window.Quantile {
		check(r.Quantile != nil, "quantile is unset: must be set for the function quantile")
		check(r.Quantile == nil || *r.Quantile >= 0 && *r.Quantile <= 1, "quantile is %v: must be between 0 and 1", value(r.Quantile))
	} else {
		check(r.Quantile == nil, "quantile is %v: must be set only for the function quantile", value(r.Quantile))
	}
	check(r.Scale == nil || finite(*r.Scale) && *r.Scale != 0, "scale is %v: must be a finite number other than 0", value(r.Scale))
	for i, a := range r.Attributes {
		check(a != "" && signal.RoleOf(a) == signal.DistinguishesSeries && !slices.Contains(r.Attributes[:i], a),
			"attributes[%d] is %q: must be an attribute that neither identifies a device nor describes it, named once", i, a)
	}
	for i := range r.Where {
		f := &r.Where[i]
		check(f.Attribute != "" && signal.RoleOf(f.Attribute) == signal.DistinguishesSeries,
			"where[%d]: attribute is %q: must be an attribute that neither identifies a device nor describes it", i, f.Attribute)
		check(len(f.Values) > 0 || f.Absent, "where[%d]: values is []: must not be empty unless absent is true", i)
		for j, v := range f.Values {
			err := checkPattern(v)
			check(err == nil, "where[%d]: values[%d] %w", i, j, err)
		}
	}
}

func isDelay(d time.Duration) bool { return d == 0 || d >= minDelay }

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// value returns the value of an optional setting in a form that can be used in a message.
func value(v *float64) any {
	if v == nil {
		return "unset"
	}
	return *v
}

// rules returns the configured rules or, if Rules is not set, the default rules.
func (c *Config) rules() []window.Rule {
	if c.Rules != nil {
		return c.Rules
	}
	return defaultRules(c.MemoryPressureThreshold)
}

// activeRules returns all active rules. A default rule is not active if its metric is disabled by
// default and has not been enabled. Configured rules are always active, even if they use the name
// of a metric that is disabled by default.
func (c *Config) activeRules() []window.Rule {
	if c.Rules != nil {
		return c.Rules
	}
	return slices.DeleteFunc(slices.Clone(c.rules()), func(r window.Rule) bool { return signal.IsOff(r.Metric) && !c.Metrics.Enabled(r.Metric, false) })
}

// metricNames returns the names of all window metrics.
func (c *Config) metricNames() []string {
	var names []string
	for _, r := range c.rules() {
		names = append(names, r.Metric)
	}
	return append(names, signal.WindowCoverage.Name, signal.WindowSamples.Name)
}

// settings returns the settings of the engine.
func (c *Config) settings() window.Settings {
	about := func(m *signal.Metric) window.Metric {
		return window.Metric{Name: m.Name, Unit: m.Unit, Description: m.Description}
	}
	return window.Settings{
		Window: c.Window, Grace: c.Grace, MaxGap: c.MaxGap,
		MaxSeries: c.MaxSeries, IdleTimeout: c.IdleTimeout, MarkEnd: !c.Tier,
		KeepLast: c.Passthrough == passthroughLast,
		Tier:     c.Tier,
		ByDevice: c.DeviceAttributes == onResources,
		Rules:    c.activeRules(),
		Coverage: about(signal.WindowCoverage), Samples: about(signal.WindowSamples),
		Disabled: slices.DeleteFunc(c.metricNames(), func(name string) bool { return c.Metrics.Enabled(name, true) }),
	}
}
