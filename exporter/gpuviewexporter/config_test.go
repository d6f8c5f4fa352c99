package gpuviewexporter

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"
)

func TestTheDefaultConfigurationIsValidAndOnLoopback(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	require.NoError(t, confmap.Validate(cfg))
	assert.Equal(t, "localhost:9411", cfg.HTTP.NetAddr.Endpoint)
	assert.False(t, cfg.HTTP.CORS.HasValue())
	assert.False(t, cfg.StatsSummary)
}

func TestSettingsAreRead(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	require.NoError(t, confmap.NewFromStringMap(map[string]any{
		"endpoint": "0.0.0.0:80", "retention": "30m", "max_devices": 8, "max_holders": 9, "max_clients": 2, "stats_summary": true,
	}).Unmarshal(cfg))
	assert.Equal(t, "0.0.0.0:80", cfg.HTTP.NetAddr.Endpoint)
	assert.Equal(t, 30*time.Minute, cfg.Retention)
	assert.Equal(t, []int{8, 9, 2}, []int{cfg.MaxDevices, cfg.MaxHolders, cfg.MaxClients})
	assert.True(t, cfg.StatsSummary)
}

func TestInvalidSettingIsReportedWithItsValueAndTheAllowedValues(t *testing.T) {
	for _, tt := range []struct {
		with func(*Config)
		want string
	}{
		{func(c *Config) { c.HTTP.NetAddr.Endpoint = "" }, `endpoint is "": must be a host and a port to listen on, as in localhost:9411`},
		{func(c *Config) { c.HTTP.NetAddr.Endpoint = "localhost" }, `endpoint is "localhost": must be a host and a port`},
		{func(c *Config) { c.HTTP.NetAddr.Endpoint = "localhost:99999" }, `endpoint is "localhost:99999": must be a host and a port`},
		{func(c *Config) { c.Retention = 2 }, "retention is 2ns: must be between 1m0s and 168h0m0s"},
		{func(c *Config) { c.Retention = 200 * time.Hour }, "retention is 200h0m0s: must be between 1m0s and 168h0m0s"},
		{func(c *Config) { c.MaxDevices = 0 }, "max_devices is 0: must be between 1 and 1000000"},
		{func(c *Config) { c.MaxHolders = -1 }, "max_holders is -1: must be between 1 and 1000000"},
		{func(c *Config) { c.MaxClients = 2_000_000 }, "max_clients is 2000000: must be between 1 and 1000000"},
	} {
		cfg := createDefaultConfig().(*Config)
		tt.with(cfg)
		assert.ErrorContains(t, confmap.Validate(cfg), tt.want)
	}
}
