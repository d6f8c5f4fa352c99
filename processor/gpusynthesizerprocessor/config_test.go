package gpusynthesizerprocessor

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

func TestTheDefaultConfigurationIsValid(t *testing.T) {
	require.NoError(t, createDefaultConfig().(*Config).Validate())
}

func TestNodeNameComesFromTheEnvironment(t *testing.T) {
	t.Setenv(componenthelper.NodeNameEnv, "gpu-node-7")
	assert.Equal(t, "gpu-node-7", createDefaultConfig().(*Config).NodeName)
}

func TestAConfigurationErrorNamesTheFieldTheValueAndTheAllowedValues(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"raw", func(c *Config) { c.Raw = "yes" }, `raw is "yes": must be "drop" or "keep"`},
		{"violation_unit", func(c *Config) { c.ViolationUnit = "ms" }, `violation_unit is "ms": must be "ns" or "us"`},
		{"max_devices", func(c *Config) { c.MaxDevices = 0 }, "max_devices is 0: must be between 1 and 10000000"},
		{
			"unknown metric", func(c *Config) { c.Metrics = componenthelper.Metrics{"hw.pwoer": {}} },
			`metrics has the key "hw.pwoer": must be one of gpu.signal.available, gpu.clock.throttle.time,`,
		},
		{
			"a metric of another component", func(c *Config) { c.Metrics = componenthelper.Metrics{signal.GPUExporterUp.Name: {}} },
			`metrics has the key "gpu.exporter.up"`,
		},
		{
			"a window", func(c *Config) { c.Metrics = componenthelper.Metrics{signal.XIDErrors.Name: {}} },
			`metrics has the key "gpu.saturation.xid.errors"`,
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

func TestAnEmptyMetricEntryKeepsTheDefault(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	require.NoError(t, confmap.NewFromStringMap(map[string]any{"metrics": map[string]any{
		signal.HwPower.Name: map[string]any{}, signal.HwEnergy.Name: nil, signal.GPUSignalAvailable.Name: map[string]any{},
	}}).Unmarshal(cfg))
	assert.Equal(t, []*signal.Metric{signal.GPUSignalAvailable}, cfg.disabled())
}
