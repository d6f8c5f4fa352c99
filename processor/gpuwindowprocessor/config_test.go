package gpuwindowprocessor

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

func TestTheDefaultConfigurationIsValid(t *testing.T) {
	require.NoError(t, confmap.Validate(createDefaultConfig()))
}

func TestAWrongSettingIsNamedWithItsValueAndWhatIsAllowed(t *testing.T) {
	valid := func() RuleConfig {
		return RuleConfig{Source: "in", Function: "mean", Metric: "out", Unit: "1"}
	}
	number := func(v float64) *float64 { return &v }
	for _, tt := range []struct {
		name string
		with func(*Config)
		want string
	}{
		{"a window too short", func(c *Config) { c.Window, c.EmitJitter, c.Grace = 500*time.Millisecond, 0, 0 }, "window must be between 1s and 24h0m0s, got 500ms"},
		{"a window too long", func(c *Config) { c.Window = 25 * time.Hour }, "window must be between 1s and 24h0m0s, got 25h0m0s"},
		{"a negative grace", func(c *Config) { c.Grace = -1 }, "grace must be between 0s and ten times window, got -1ns"},
		{"too much grace", func(c *Config) { c.Grace = time.Hour }, "grace must be between 0s and ten times window, got 1h0m0s"},
		{"no gap", func(c *Config) { c.MaxGap = 0 }, "max_gap must be at least 100ms, got 0s"},
		{"a gap without its unit", func(c *Config) { c.MaxGap = 90 }, "max_gap must be at least 100ms, got 90ns"},
		{"a threshold of nothing", func(c *Config) { c.MemoryPressureThreshold = 0 }, "memory_pressure_threshold must be above 0 and at most 1, got 0"},
		{"a threshold above one", func(c *Config) { c.MemoryPressureThreshold = 90 }, "memory_pressure_threshold must be above 0 and at most 1, got 90"},
		{"a threshold that is no number", func(c *Config) { c.MemoryPressureThreshold = math.NaN() }, "memory_pressure_threshold must be above 0 and at most 1, got NaN"},
		{"no series", func(c *Config) { c.MaxSeries = 0 }, "max_series must be between 1 and 100000000, got 0"},
		{"no patience", func(c *Config) { c.IdleTimeout = 0 }, "idle_timeout must be at least 100ms, got 0s"},
		{"an unknown passthrough", func(c *Config) { c.Passthrough = "some" }, `passthrough must be one of last, all, none, got "some"`},
		{"snapshots without end", func(c *Config) { c.SnapshotInterval = 0 }, "snapshot_interval must be at least 100ms, got 0s"},
		{"jitter beyond a window", func(c *Config) { c.EmitJitter = 2 * time.Minute }, "emit_jitter must be between 0s and window, got 2m0s"},
		{"empty batches", func(c *Config) { c.MaxBatchPoints = 0 }, "max_batch_points must be at least 1, got 0"},
		{"an unknown metric", func(c *Config) { c.Metrics = map[string]MetricConfig{"gpu.made.up": {}} }, `got "gpu.made.up"`},
		{"no device", func(c *Config) { c.Identity.Device = "" }, `identity::device must be an attribute key, got ""`},
		{"no place", func(c *Config) { c.Identity.Resource = nil }, "identity::resource must name at least one attribute, got []"},
		{"half an alternative", func(c *Config) { c.Identity.Resource = []string{"a|"} }, `identity::resource[0] must be attribute keys separated by |, got "a|"`},
		{"a rule that makes its own source", func(c *Config) {
			c.Rules = []RuleConfig{{Source: "acme.load", Function: "mean", Metric: "acme.load"}}
		}, `rules[0]: metric must be another one than source, got "acme.load"`},
		{"a device that only describes itself", func(c *Config) { c.Identity.Descriptive = []string{"hw.*"} }, `identity::descriptive[0] must not be identity::device, got "hw.*"`},
		{"a pattern in the middle", func(c *Config) { c.Identity.Descriptive = []string{"a*b"} }, `identity::descriptive[0] must be text that may end in * to be a prefix, got "a*b"`},
		{"a rule without a source", func(c *Config) { r := valid(); r.Source = ""; c.Rules = []RuleConfig{r} }, `rules[0]: source must be a metric name, got ""`},
		{"a rule on what passes untouched", func(c *Config) { r := valid(); r.Source = "gpu.exporter.up"; c.Rules = []RuleConfig{r} }, `rules[0]: source must not be a metric that passes untouched, got "gpu.exporter.up"`},
		{"a rule without a metric", func(c *Config) { r := valid(); r.Metric = ""; c.Rules = []RuleConfig{r} }, `rules[0]: metric must be a metric name, got ""`},
		{"a rule for what every window has", func(c *Config) { r := valid(); r.Metric = "gpu.window.samples"; c.Rules = []RuleConfig{r} }, `rules[0]: metric must not be one that every window has, got "gpu.window.samples"`},
		{"two rules for one metric", func(c *Config) { c.Rules = []RuleConfig{valid(), valid()} }, `rules[1]: metric must be made by one rule, got "out", which rules[0] makes`},
		{"an unknown function", func(c *Config) { r := valid(); r.Function = "median"; c.Rules = []RuleConfig{r} }, `rules[0]: function must be one of mean, max, share_at_least, increase, rate, time_ratio, got "median"`},
		{"a share without a threshold", func(c *Config) { r := valid(); r.Function = "share_at_least"; c.Rules = []RuleConfig{r} }, "rules[0]: threshold must be set for share_at_least"},
		{"a mean with a threshold", func(c *Config) { r := valid(); r.Threshold = number(1); c.Rules = []RuleConfig{r} }, "rules[0]: threshold must be absent but for share_at_least, got 1"},
		{"a scale of zero", func(c *Config) { r := valid(); r.Scale = number(0); c.Rules = []RuleConfig{r} }, "rules[0]: scale must be a finite number other than 0, got 0"},
		{"a descriptive attribute as own", func(c *Config) { r := valid(); r.Attributes = []string{"hw.model"}; c.Rules = []RuleConfig{r} }, `rules[0]: attributes[0] must be an attribute that neither identifies a device nor describes it, named once, got "hw.model"`},
		{"a filter on the device", func(c *Config) {
			r := valid()
			r.Where = []FilterConfig{{Attribute: "hw.id", Absent: true}}
			c.Rules = []RuleConfig{r}
		}, `rules[0]: where[0]: attribute must be an attribute that neither identifies a device nor describes it, got "hw.id"`},
		{"a filter of nothing", func(c *Config) { r := valid(); r.Where = []FilterConfig{{Attribute: "a"}}; c.Rules = []RuleConfig{r} }, "rules[0]: where[0]: values must not be empty unless absent is true, got []"},
		{"a filter pattern in the middle", func(c *Config) {
			r := valid()
			r.Where = []FilterConfig{{Attribute: "a", Values: []string{"*a"}}}
			c.Rules = []RuleConfig{r}
		}, `rules[0]: where[0]: values[0] must be text that may end in * to be a prefix, got "*a"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := createDefaultConfig().(*Config)
			tt.with(cfg)
			require.ErrorContains(t, confmap.Validate(cfg), tt.want)
		})
	}
}

func TestAllWrongSettingsAreReportedTogether(t *testing.T) {
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

func TestAMetricIsOnUnlessItIsSwitchedOff(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	conf := confmap.NewFromStringMap(map[string]any{"metrics": map[string]any{
		signal.UtilizationMax.Name: map[string]any{}, signal.UtilizationAvg.Name: map[string]any{"enabled": false},
	}})
	require.NoError(t, conf.Unmarshal(cfg))
	assert.False(t, cfg.disabled(signal.UtilizationMax.Name))
	assert.True(t, cfg.disabled(signal.UtilizationAvg.Name))
	assert.False(t, cfg.disabled(signal.XIDErrors.Name))
}

// The default rules make what the contract promises, all of it and nothing else.
func TestTheDefaultRulesMakeEveryWindowMetricOfTheContract(t *testing.T) {
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

func TestEveryDescriptiveAttributeOfTheContractIsDescriptive(t *testing.T) {
	identity := defaultIdentity()
	for _, key := range signal.DescriptiveAttributes() {
		assert.True(t, identity.describes(key), key)
	}
	assert.False(t, identity.describes(signal.ErrorType))
}
