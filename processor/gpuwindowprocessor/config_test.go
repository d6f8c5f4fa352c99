package gpuwindowprocessor

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor/internal/window"
)

func TestTheDefaultConfigurationIsValid(t *testing.T) {
	require.NoError(t, confmap.Validate(createDefaultConfig()))
}

func TestAnInvalidSettingIsAnErrorWithFieldValueAndAllowedValues(t *testing.T) {
	valid := func() window.Rule {
		return window.Rule{Source: "in", Function: "mean", Metric: "out", Unit: "1"}
	}
	number := func(v float64) *float64 { return &v }
	for _, tt := range []struct {
		name string
		with func(*Config)
		want string
	}{
		{"a window that is too short", func(c *Config) { c.Window, c.Grace = 500*time.Millisecond, 0 }, "window is 500ms: must be between 1s and 24h0m0s"},
		{"a window that is too long", func(c *Config) { c.Window = 25 * time.Hour }, "window is 25h0m0s: must be between 1s and 24h0m0s"},
		{"a negative grace", func(c *Config) { c.Grace = -1 }, "grace is -1ns: must be 0s, or 1ms to ten times window"},
		{"a grace that is too long", func(c *Config) { c.Grace = time.Hour }, "grace is 1h0m0s: must be 0s, or 1ms to ten times window"},
		{"a grace without a unit", func(c *Config) { c.Grace = 5 }, "grace is 5ns: must be 0s, or 1ms to ten times window; write the unit, as in 5s"},
		{"no max_gap", func(c *Config) { c.MaxGap = 0 }, "max_gap is 0s: must be at least 100ms"},
		{"a max_gap without a unit", func(c *Config) { c.MaxGap = 90 }, "max_gap is 90ns: must be at least 100ms"},
		{"a threshold of 0", func(c *Config) { c.MemoryPressureThreshold = 0 }, "memory_pressure_threshold is 0: must be above 0 and at most 1"},
		{"a threshold above 1", func(c *Config) { c.MemoryPressureThreshold = 90 }, "memory_pressure_threshold is 90: must be above 0 and at most 1"},
		{"a threshold that is not a number", func(c *Config) { c.MemoryPressureThreshold = math.NaN() }, "memory_pressure_threshold is NaN: must be above 0 and at most 1"},
		{"no series", func(c *Config) { c.MaxSeries = 0 }, "max_series is 0: must be between 1 and 100000000"},
		{"no idle timeout", func(c *Config) { c.IdleTimeout = 0 }, "idle_timeout is 0s: must be at least max_gap, 1m30s"},
		{"series that end between two samples", func(c *Config) { c.IdleTimeout = 89 * time.Second }, "idle_timeout is 1m29s: must be at least max_gap, 1m30s"},
		{"an unknown passthrough", func(c *Config) { c.Passthrough = "some" }, `passthrough is "some": must be one of last, all, none`},
		{
			"flat attributes of windows alone", func(c *Config) { c.FlatAttributes, c.Passthrough = true, passthroughAll },
			`flat_attributes is true and passthrough is "all": must be last or none`,
		},
		{"an unknown layout", func(c *Config) { c.DeviceAttributes = "points" }, `device_attributes is "points": must be one of point, resource`},
		{"an unknown metric", func(c *Config) { c.Metrics = componenthelper.Metrics{"gpu.made.up": {}} }, `metrics has the key "gpu.made.up": must be one of `},
		{"a rule that computes its source", func(c *Config) {
			c.Rules = []window.Rule{{Source: "acme.load", Function: "mean", Metric: "acme.load"}}
		}, `rules[0]: metric is "acme.load": must be another one than source`},
		{"a * in the middle of a source", func(c *Config) {
			r := valid()
			r.Where = []window.Filter{{Attribute: "a", Values: []string{"a*b"}}}
			c.Rules = []window.Rule{r}
		}, `rules[0]: where[0]: values[0] is "a*b": must be text that may end in * to be a prefix`},
		{"a rule without a source", func(c *Config) { r := valid(); r.Source = ""; c.Rules = []window.Rule{r} }, `rules[0]: source is "": must be a metric name`},
		{"a rule for a metric that is forwarded unchanged", func(c *Config) { r := valid(); r.Source = "gpu.exporter.up"; c.Rules = []window.Rule{r} }, `rules[0]: source is "gpu.exporter.up": must not be a metric that is forwarded unchanged`},
		{"a rule without a metric", func(c *Config) { r := valid(); r.Metric = ""; c.Rules = []window.Rule{r} }, `rules[0]: metric is "": must be a metric name`},
		{"a rule for a metric that every window has", func(c *Config) { r := valid(); r.Metric = "gpu.window.samples"; c.Rules = []window.Rule{r} }, `rules[0]: metric is "gpu.window.samples": must not be one that every window has`},
		{"two rules for one metric", func(c *Config) { c.Rules = []window.Rule{valid(), valid()} }, `rules[1]: metric is "out": must be computed by only one rule, but rules[0] also computes it`},
		{"an unknown function", func(c *Config) { r := valid(); r.Function = "median"; c.Rules = []window.Rule{r} }, `rules[0]: function is "median": must be one of ` + strings.Join(window.Functions(), ", ")},
		{"a share without a threshold", func(c *Config) { r := valid(); r.Function = "share_at_least"; c.Rules = []window.Rule{r} }, "rules[0]: threshold is unset: must be set for share_at_least"},
		{"a quantile function without a quantile", func(c *Config) { r := valid(); r.Function = "quantile"; c.Rules = []window.Rule{r} }, "rules[0]: quantile is unset: must be set for the function quantile"},
		{"a quantile in percent", func(c *Config) {
			r := valid()
			r.Function, r.Quantile = "quantile", number(95)
			c.Rules = []window.Rule{r}
		}, "rules[0]: quantile is 95: must be between 0 and 1"},
		{"a quantile that is not a number", func(c *Config) {
			r := valid()
			r.Function, r.Quantile = "quantile", number(math.NaN())
			c.Rules = []window.Rule{r}
		}, "rules[0]: quantile is NaN: must be between 0 and 1"},
		{"a mean with a quantile", func(c *Config) { r := valid(); r.Quantile = number(0.5); c.Rules = []window.Rule{r} }, "rules[0]: quantile is 0.5: must be set only for the function quantile"},
		{"a mean with a threshold", func(c *Config) { r := valid(); r.Threshold = number(1); c.Rules = []window.Rule{r} }, "rules[0]: threshold is 1: must be set only for share_at_least"},
		{"a scale of zero", func(c *Config) { r := valid(); r.Scale = number(0); c.Rules = []window.Rule{r} }, "rules[0]: scale is 0: must be a finite number other than 0"},
		{"a descriptive attribute as own", func(c *Config) { r := valid(); r.Attributes = []string{"hw.model"}; c.Rules = []window.Rule{r} }, `rules[0]: attributes[0] is "hw.model": must be an attribute that neither identifies a device nor describes it, named once`},
		{"a filter on the device", func(c *Config) {
			r := valid()
			r.Where = []window.Filter{{Attribute: "hw.id", Absent: true}}
			c.Rules = []window.Rule{r}
		}, `rules[0]: where[0]: attribute is "hw.id": must be an attribute that neither identifies a device nor describes it`},
		{"a filter without values", func(c *Config) { r := valid(); r.Where = []window.Filter{{Attribute: "a"}}; c.Rules = []window.Rule{r} }, "rules[0]: where[0]: values is []: must not be empty unless absent is true"},
		{"a * in the middle of a filter value", func(c *Config) {
			r := valid()
			r.Where = []window.Filter{{Attribute: "a", Values: []string{"*a"}}}
			c.Rules = []window.Rule{r}
		}, `rules[0]: where[0]: values[0] is "*a": must be text that may end in * to be a prefix`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := createDefaultConfig().(*Config)
			tt.with(cfg)
			require.ErrorContains(t, confmap.Validate(cfg), tt.want)
		})
	}
}

// If only the window is invalid, settings that are compared with the window must not cause
// additional errors.
func TestAWindowWithoutAUnitIsTheOnlyError(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	cfg.Window = 60
	require.EqualError(t, confmap.Validate(cfg), "window is 60ns: must be between 1s and 24h0m0s; write the unit, as in 60s")
}

func TestAllInvalidSettingsAreReportedTogether(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	cfg.MaxGap, cfg.MaxSeries = -1, -1
	err := confmap.Validate(cfg)
	require.ErrorContains(t, err, "max_gap")
	require.ErrorContains(t, err, "max_series")
}

func TestAnUnknownSettingIsAnError(t *testing.T) {
	conf := confmap.NewFromStringMap(map[string]any{"windows": "60s"})
	require.ErrorContains(t, conf.Unmarshal(createDefaultConfig()), "windows")
}

func TestARemovedSettingIsAnError(t *testing.T) {
	for _, key := range []string{"emit_jitter", "snapshot_interval", "identity", "descriptions", "max_batch_points"} {
		err := confmap.NewFromStringMap(map[string]any{key: "1s"}).Unmarshal(createDefaultConfig())
		require.ErrorContains(t, err, fmt.Sprintf("unknown key %q", key))
	}
}

func TestAMetricIsEnabledUnlessItIsDisabled(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	conf := confmap.NewFromStringMap(map[string]any{"metrics": map[string]any{
		signal.UtilizationMax.Name: map[string]any{}, signal.UtilizationAvg.Name: map[string]any{"enabled": false},
	}})
	require.NoError(t, conf.Unmarshal(cfg))
	disabled := func(name string) bool { return slices.Contains(cfg.settings().Disabled, name) }
	assert.False(t, disabled(signal.UtilizationMax.Name))
	assert.True(t, disabled(signal.UtilizationAvg.Name))
	assert.False(t, disabled(signal.XIDErrors.Name))
}

// A metric that is disabled by default must not have an active rule, because an active rule creates
// series even if its metric is not emitted.
func TestAMetricThatIsDisabledByDefaultCanBeEnabled(t *testing.T) {
	for _, name := range []string{"gpu.saturation.errors", signal.UtilizationP95.Name, signal.MemoryUtilizationP95.Name} {
		made := func(settings map[string]any) bool {
			cfg := createDefaultConfig().(*Config)
			require.NoError(t, confmap.NewFromStringMap(settings).Unmarshal(cfg))
			return slices.ContainsFunc(cfg.settings().Rules, func(r window.Rule) bool { return r.Metric == name })
		}
		assert.False(t, made(nil), name)
		assert.True(t, made(map[string]any{"metrics": map[string]any{name: map[string]any{"enabled": true}}}), name)
	}
}

func TestAConfiguredRuleIsActiveForAnyMetricName(t *testing.T) {
	for _, name := range []string{"gpu.saturation.errors", signal.UtilizationP95.Name, signal.UtilizationAvg.Name} {
		cfg := createDefaultConfig().(*Config)
		cfg.Rules = []window.Rule{{Source: "acme.load", Function: "mean", Metric: name, Unit: "W"}}
		require.NoError(t, confmap.Validate(cfg))
		assert.Equal(t, cfg.Rules, cfg.settings().Rules)
		assert.Empty(t, cfg.settings().Disabled)
		cfg.Metrics = componenthelper.Metrics{name: {Enabled: new(false)}}
		require.NoError(t, confmap.Validate(cfg))
		assert.Equal(t, []string{name}, cfg.settings().Disabled, "it can be switched off like any other")
	}
}

// The default rules must emit exactly the window metrics of the output contract.
func TestTheDefaultRulesEmitEveryWindowMetricOfTheContract(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	var want []string
	for _, m := range signal.All() {
		if m.Stage == signal.StageWindow {
			want = append(want, m.Name)
		}
	}
	assert.ElementsMatch(t, want, cfg.metricNames())

	cfg.Rules = defaultRules(cfg.MemoryPressureThreshold)
	require.NoError(t, confmap.Validate(cfg), "the default rules could be written as configuration")
}

func TestAnEmptyListOfRulesDisablesAllRules(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	require.NoError(t, confmap.NewFromStringMap(map[string]any{"rules": []any{}}).Unmarshal(cfg))
	require.NoError(t, confmap.Validate(cfg))
	assert.ElementsMatch(t, []string{signal.WindowCoverage.Name, signal.WindowSamples.Name}, cfg.metricNames())
}

func TestEveryAttributeOfAHolderDistinguishesSeries(t *testing.T) {
	for _, key := range []string{
		signal.K8sNamespaceName, signal.K8sPodName, signal.K8sPodUID, signal.K8sContainerName,
		signal.ContainerName, signal.ContainerID, signal.HPCJobID,
	} {
		assert.NotEqual(t, window.ResourceKey{}, resourceKeyOf(mapOf(textAttr{key, "x"})), key)
	}
}

func TestTheDocumentationDescribesEveryFunction(t *testing.T) {
	text, err := os.ReadFile("rules.md")
	require.NoError(t, err)
	for _, name := range window.Functions() {
		assert.Contains(t, string(text), "\n| `"+name+"` |")
	}
}

func TestTheDefaultOfIdleTimeoutIsAtLeastMaxGap(t *testing.T) {
	for settings, want := range map[string]time.Duration{
		"max_gap: 2m": 10 * time.Minute, "max_gap: 15m": 15 * time.Minute, "{max_gap: 2m, idle_timeout: 3m}": 3 * time.Minute,
	} {
		conf, err := confmap.NewRetrievedFromYAML([]byte(settings))
		require.NoError(t, err)
		parsed, err := conf.AsConf()
		require.NoError(t, err)
		cfg := createDefaultConfig().(*Config)
		require.NoError(t, parsed.Unmarshal(cfg))
		require.NoError(t, cfg.Validate())
		assert.Equal(t, want, cfg.IdleTimeout, settings)
	}
}
