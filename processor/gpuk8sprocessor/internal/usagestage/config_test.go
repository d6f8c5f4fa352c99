package usagestage

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"
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
		{"no gap", func(c *Config) { c.MaxGap = 0 }, "max_gap is 0s: must be between 100ms and 24h0m0s"},
		{"a timeout below the gap", func(c *Config) { c.IdleTimeout = time.Minute }, "idle_timeout is 1m0s: must be between max_gap (1m30s) and 168h0m0s"},
		{"no series", func(c *Config) { c.MaxSeries = 0 }, "max_series is 0: must be between 1 and 10000000"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := createDefaultConfig().(*Config)
			tt.with(cfg)
			assert.ErrorContains(t, confmap.Validate(cfg), tt.want)
		})
	}
}

func TestAnUnknownSettingIsAnError(t *testing.T) {
	for want, conf := range map[string]map[string]any{
		`unknown key "price": did you mean "prices"?`:     {"price": "x"},
		`unknown key "prices::path": must be one of file`: {"prices": map[string]any{"path": "x"}},
	} {
		assert.ErrorContains(t, confmap.NewFromStringMap(conf).Unmarshal(createDefaultConfig()), want)
	}
}

func TestTheDefaultOfIdleTimeoutIsAtLeastMaxGap(t *testing.T) {
	for name, tc := range map[string]struct {
		settings map[string]any
		want     time.Duration
	}{
		"the default":       {map[string]any{"max_gap": "2m"}, 10 * time.Minute},
		"a longer max_gap":  {map[string]any{"max_gap": "15m"}, 15 * time.Minute},
		"a shorter timeout": {map[string]any{"max_gap": "2m", "idle_timeout": "3m"}, 3 * time.Minute},
	} {
		cfg := NewDefaultConfig()
		require.NoError(t, confmap.NewFromStringMap(tc.settings).Unmarshal(&cfg), name)
		require.NoError(t, cfg.Validate(), name)
		assert.Equal(t, tc.want, cfg.IdleTimeout, name)
	}
}
