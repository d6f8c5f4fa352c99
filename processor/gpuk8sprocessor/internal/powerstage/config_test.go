package powerstage

import (
	"math"
	"strings"
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

func TestAnInvalidSettingIsAnErrorWithFieldValueAndAllowedValues(t *testing.T) {
	for _, tt := range []struct {
		name string
		with func(*Config)
		want string
	}{
		{"negative watts", func(c *Config) { w := -1.0; c.Idle.Watts = &w }, "idle::watts is -1: must be between 0 and 100000 watts"},
		{"NaN watts", func(c *Config) { w := math.NaN(); c.Idle.Watts = &w }, "idle::watts is NaN: must be between 0 and 100000 watts"},
		{"a value in milliwatts", func(c *Config) { c.Idle.ByUUID = map[string]*float64{"GPU-1": new(700_000.0)} }, "idle::by_uuid::GPU-1 is 700000: must be between 0 and 100000 watts"},
		{"a board without watts", func(c *Config) { c.Idle.ByUUID = map[string]*float64{"GPU-1": nil} }, "idle::by_uuid::GPU-1 is empty: must be between 0 and 100000 watts"},
		{"a model without watts", func(c *Config) { c.Idle.ByModel = map[string]*float64{"H100": nil} }, "idle::by_model::H100 is empty: must be between 0 and 100000 watts"},
		{"a MIG instance", func(c *Config) { c.Idle.ByUUID = map[string]*float64{"GPU-1/gi3": new(20.0)} }, `idle::by_uuid has the key "GPU-1/gi3": must be the hw.id of a board`},
		{"no board", func(c *Config) { c.Idle.ByUUID = map[string]*float64{"": new(1.0)} }, `idle::by_uuid has the key "": must be the hw.id of a board`},
		{"negative watts of a model", func(c *Config) { c.Idle.ByModel = map[string]*float64{"H100": new(-2.0)} }, "idle::by_model::H100 is -2: must be between 0 and 100000 watts"},
		{"no model", func(c *Config) { c.Idle.ByModel = map[string]*float64{" - ": new(1.0)} }, `idle::by_model has the key " - ": must be a model name`},
		{"one model twice", func(c *Config) {
			c.Idle.ByModel = map[string]*float64{"NVIDIA H100": new(1.0), "nvidia-h100": new(2.0)}
		}, `idle::by_model has the keys "NVIDIA H100" and "nvidia-h100": must contain each model only once`},
		{"an expiry below one minute", func(c *Config) { c.Idle.Expire = time.Second }, "idle::expire is 1s: must be between 1m0s and 8760h0m0s"},
		{"an unknown weighting", func(c *Config) { c.Weighting = "memory" }, `weighting is "memory": must be "slices" or "none"`},
		{"no gap", func(c *Config) { c.MaxGap = 0 }, "max_gap is 0s: must be between 100ms and 24h0m0s"},
		{"a gap of days", func(c *Config) { c.MaxGap = 48 * time.Hour }, "max_gap is 48h0m0s: must be between 100ms and 24h0m0s"},
		{"no series", func(c *Config) { c.MaxSeries = 0 }, "max_series is 0: must be between 1 and 10000000"},
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
	err := cfg.Validate()
	require.ErrorContains(t, err, "max_gap")
	require.ErrorContains(t, err, "max_series")
}

func TestAnUnknownSettingIsAnError(t *testing.T) {
	for key, want := range map[string]string{
		"watt":          `unknown key "idle::watt": did you mean "idle::watts"?`,
		"by_mig_layout": `unknown key "idle::by_mig_layout"`, // This setting existed only in earlier versions.
		"learn":         `unknown key "idle::learn"`,
	} {
		conf := confmap.NewFromStringMap(map[string]any{"idle": map[string]any{key: 40}})
		require.ErrorContains(t, conf.Unmarshal(createDefaultConfig()), want)
	}
}

func TestAnEmptyBaselineIsNotZero(t *testing.T) {
	for _, by := range []string{"by_uuid", "by_model"} {
		cfg := createDefaultConfig()
		conf := confmap.NewFromStringMap(map[string]any{"idle": map[string]any{by: map[string]any{"1g.10gb": nil}}})
		require.NoError(t, conf.Unmarshal(cfg))
		require.ErrorContains(t, confmap.Validate(cfg), by+"::1g.10gb is empty: must be between 0 and 100000 watts")
	}
}

// The section must emit all power metrics that the metrics contract defines.
func TestEveryPowerMetricOfTheContractIsEmitted(t *testing.T) {
	for _, m := range signal.All() {
		if m.Stage == signal.StageWorkload && (strings.Contains(m.Name, "power") || strings.Contains(m.Name, "energy")) {
			assert.Contains(t, Emitted, m)
		}
	}
}
