package gpusynthesizerprocessor

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

func TestTheDefaultConfigurationIsValid(t *testing.T) {
	require.NoError(t, createDefaultConfig().(*Config).Validate())
}

func TestNodeNameComesFromTheEnvironment(t *testing.T) {
	t.Setenv(nodeNameEnv, "gpu-node-7")
	assert.Equal(t, "gpu-node-7", createDefaultConfig().(*Config).NodeName)
}

func TestWrongConfigurationNamesFieldValueAndWhatIsAllowed(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"raw", func(c *Config) { c.Raw = "yes" }, `raw must be "drop" or "keep" (got "yes")`},
		{"violation_unit", func(c *Config) { c.ViolationUnit = "ms" }, `violation_unit must be "ns" or "us" (got "ms")`},
		{"max_devices", func(c *Config) { c.MaxDevices = 0 }, "max_devices must be between 1 and 10000000 (got 0)"},
		{
			"unknown metric", func(c *Config) { c.Metrics = map[string]MetricConfig{"hw.pwoer": {}} },
			`metrics has no metric "hw.pwoer"; allowed are gpu.signal.available, hw.gpu.memory.usage,`,
		},
		{
			"a metric of another component", func(c *Config) { c.Metrics = map[string]MetricConfig{signal.GPUExporterUp.Name: {}} },
			`metrics has no metric "gpu.exporter.up"`,
		},
		{
			"a window", func(c *Config) { c.Metrics = map[string]MetricConfig{signal.XIDErrors.Name: {}} },
			`metrics has no metric "gpu.saturation.xid.errors"`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := createDefaultConfig().(*Config)
			tt.change(cfg)
			assert.ErrorContains(t, cfg.Validate(), tt.want)
		})
	}
}

func TestAllErrorsAreReportedAtOnce(t *testing.T) {
	err := (&Config{}).Validate()
	for _, field := range []string{"raw", "violation_unit", "max_devices"} {
		assert.ErrorContains(t, err, field)
	}
}
