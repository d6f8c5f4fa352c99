package nvmlreceiver

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/confmaptest"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/receiverstages"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// The load function reads a configuration the same way the Collector does.
func load(t *testing.T, yaml string) (*Config, error) {
	t.Helper()
	retrieved, err := confmap.NewRetrievedFromYAML([]byte(yaml))
	require.NoError(t, err)
	conf, err := retrieved.AsConf()
	require.NoError(t, err)
	cfg := createDefaultConfig().(*Config)
	if err := conf.Unmarshal(cfg); err != nil {
		return nil, err
	}
	return cfg, confmap.Validate(cfg)
}

func TestDefaults(t *testing.T) {
	t.Setenv(componenthelper.NodeNameEnv, "node-7")
	cfg, err := load(t, "{}")
	require.NoError(t, err)
	assert.False(t, cfg.Stages.HasValue())
	cfg.Stages = configoptional.Optional[receiverstages.Config]{}
	assert.Equal(t, &Config{
		CollectionInterval: 15 * time.Second,
		ProcRoot:           "/proc",
		SysRoot:            "/sys",
		NodeName:           "node-7",
	}, cfg)
}

func TestLibraryIsHeldIfDevicesAreRead(t *testing.T) {
	for yaml, want := range map[string]string{
		"{}":                                   HoldBetweenFailures,
		"processes_only: true":                 HoldNever,
		"{processes_only: true, hold: always}": HoldAlways,
		"hold: never":                          HoldNever,
	} {
		cfg, err := load(t, yaml)
		require.NoError(t, err)
		assert.Equal(t, want, cfg.holdMode(), yaml)
	}
}

func TestNodeNameDefaultsToTheHostName(t *testing.T) {
	t.Setenv(componenthelper.NodeNameEnv, "")
	cfg, err := load(t, "{}")
	require.NoError(t, err)
	assert.NotEmpty(t, cfg.NodeName)
}

func TestTheExampleOfTheReadmeIsValid(t *testing.T) {
	conf, err := confmaptest.LoadConf("testdata/config.yaml")
	require.NoError(t, err)
	sub, err := conf.Sub("receivers::nvml")
	require.NoError(t, err)
	cfg := createDefaultConfig().(*Config)
	require.NoError(t, sub.Unmarshal(cfg))
	require.NoError(t, confmap.Validate(cfg))
	assert.True(t, cfg.ProcessesOnly)
	assert.Equal(t, map[*signal.Metric]bool{signal.ProcessGPUUtilization: true}, cfg.Metrics.Disabled(emitted))
}

func TestEmptyMetricEntryKeepsTheMetricEnabled(t *testing.T) {
	cfg, err := load(t, "metrics: {hw.power: {}, hw.energy: }")
	require.NoError(t, err)
	assert.Empty(t, cfg.Metrics.Disabled(emitted))
}

func TestErrorsHaveTheFieldItsValueAndTheAllowedValues(t *testing.T) {
	for yaml, want := range map[string]string{
		"collection_interval: 15":         "collection_interval is 15ns: must be at least 1s; write the unit, as in 15s",
		"retry_interval: 1m":              `unknown key "retry_interval"`, // a setting from earlier versions
		"processes: false":                `unknown key "processes": must be one of`,
		"library_path: libnvidia-ml.so.1": `library_path is "libnvidia-ml.so.1": must be an absolute path, or empty to search`,
		"{processes_only: true, metrics: {gpu.process.count: {enabled: false}, process.gpu.memory.usage: {enabled: false}, process.gpu.utilization: {enabled: false}}}"://
		"processes_only is true and metrics disables all metrics of processes: one of them must be enabled",
		"hold: forever":                       `hold is "forever": must be one of always, between_failures, never`,
		"proc_root: proc":                     `proc_root is "proc": must be an absolute path`,
		"sys_root: ''":                        `sys_root is "": must be an absolute path`,
		"metrics: {hw.fan: {enabled: false}}": `metrics has the key "hw.fan": must be one of gpu.clock.throttle.time, `,
		"librarypath: /x":                     "librarypath",
	} {
		t.Run(yaml, func(t *testing.T) {
			_, err := load(t, yaml)
			require.ErrorContains(t, err, want)
		})
	}
}

func TestAllErrorsAreReportedAtOnce(t *testing.T) {
	_, err := load(t, "{collection_interval: 1ms, proc_root: proc, metrics: {b: {}, a: {}}}")
	require.ErrorContains(t, err, "collection_interval")
	require.ErrorContains(t, err, "proc_root")
	assert.Regexp(t, `(?s)"a".*"b"`, err.Error())
}
