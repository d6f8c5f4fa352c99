package gpubudgetprocessor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"

	"github.com/otelcol-gpu/otelcol-gpu/processor/gpubudgetprocessor/internal/budget"
)

func TestTheDefaultConfigurationIsValid(t *testing.T) {
	require.NoError(t, confmap.Validate(createDefaultConfig()))
}

func TestTheNodeComesFromTheEnvironment(t *testing.T) {
	t.Setenv(nodeNameEnv, "n7")
	assert.Equal(t, "n7", createDefaultConfig().(*Config).NodeName)
}

func TestAWrongSettingIsNamedWithItsValueAndWhatIsAllowed(t *testing.T) {
	series := func(s SeriesConfig) func(*Config) { return func(c *Config) { c.Series = []SeriesConfig{s} } }
	pod := LabelsConfig{Pod: "pod"}
	for _, tt := range []struct {
		name string
		with func(*Config)
		want string
	}{
		{
			"a resource without a domain", func(c *Config) { c.Sources.ExtendedResources = []ExtendedResourceConfig{{Name: "gpumem", Unit: "MiB"}} },
			`sources::extended_resources::0::name must be <domain>/<name>, got "gpumem"`,
		},
		{
			"a resource without a unit", func(c *Config) { c.Sources.ExtendedResources = []ExtendedResourceConfig{{Name: "a.b/c"}} },
			`sources::extended_resources::0::unit must be MiB or bytes, got ""`,
		},
		{
			"a resource twice", func(c *Config) {
				r := ExtendedResourceConfig{Name: "a.b/c", Unit: "MiB"}
				c.Sources.ExtendedResources = []ExtendedResourceConfig{r, r}
			},
			`sources::extended_resources must name each resource once, got "a.b/c" twice`,
		},
		{
			"an annotation that is not kept", func(c *Config) { c.Sources.Annotation.Key = "example.com/x" },
			`sources::annotation::key must have gpu in it and not be one of KAI's gpu-memory, gpu-fraction, gpu-fraction-container-name, gpu-fraction-num-devices, got "example.com/x"`,
		},
		{"an annotation of KAI", func(c *Config) { c.Sources.Annotation.Key = "gpu-memory" }, `got "gpu-memory"`},
		{"a negative limit", func(c *Config) { c.Sources.MPS.Limit = -1 }, "sources::mps::limit must be 0 or a number of bytes, got -1"},
		{"too many replicas", func(c *Config) { c.Sources.MPS.Replicas = 1001 }, "sources::mps::replicas must be between 0 and 1000, got 1001"},
		{"both of MPS", func(c *Config) { c.Sources.MPS.Limit, c.Sources.MPS.Replicas = 1, 2 }, "sources::mps must have limit or replicas, not both, got 1 and 2"},
		{
			"an unknown preset", func(c *Config) { c.Presets = []string{"hamii"} },
			`presets must be some of gpu_pod_exporter, hami, hami_legacy, hami_scheduler, nvidia_gpu_exporter, gpu_manager, volcano, in_house, cadvisor, got "hamii"`,
		},
		{"a preset twice", func(c *Config) { c.Presets = []string{"hami", "hami"} }, `presets must name each preset once, got "hami" twice`},
		{"a series without a name", series(SeriesConfig{Unit: "MiB", Scope: "pod", Labels: pod}), "series::0::metric must not be empty"},
		{"a series in MB", series(SeriesConfig{Metric: "m", Unit: "MB", Scope: "pod", Labels: pod}), `series::0::unit must be bytes or MiB, got "MB"`},
		{"a series of nothing", series(SeriesConfig{Metric: "m", Unit: "MiB", Labels: pod}), `series::0::scope must be one of process, pod, device_duplicate, budget, got ""`},
		{"a series of nobody", series(SeriesConfig{Metric: "m", Unit: "MiB", Scope: "pod"}), "series::0::labels must name pod, pod_uid, or gpu_uuid and pid"},
		{"no age", func(c *Config) { c.MaxAge = 0 }, "max_age must be between 1s and 1h0m0s, got 0s"},
		{"a negative context", func(c *Config) { c.Tolerance.Process = -1 }, "tolerance::process must be between 0 and 17179869184 bytes, got -1"},
		{"a tolerance of all", func(c *Config) { c.Tolerance.Ratio = 1 }, "tolerance::ratio must be between 0 and 0.5, got 1"},
		{"a short window", func(c *Config) { c.Drift.Window = time.Minute }, "drift::window must be between 1h0m0s and 720h0m0s, got 1m0s"},
		{"a percentage", func(c *Config) { c.Drift.Quantile = 95 }, "drift::quantile must be between 0.5 and 1, got 95"},
		{"no series", func(c *Config) { c.MaxSeries = 0 }, "max_series must be between 1 and 10000000, got 0"},
		{
			"a metric of another component", func(c *Config) { c.Metrics = map[string]MetricConfig{"hw.power": {}} },
			`metrics must be by one of k8s.container.gpu.memory.usage, k8s.container.gpu.memory.budget, k8s.container.gpu.memory.budget.utilization, k8s.container.gpu.memory.budget.drift.ratio, gpu.memory.budget.declared, gpu.memory.headroom, gpu.memory.usage.unbudgeted, gpu.memory.attribution.state, got "hw.power"`,
		},
		{"an unknown way to the API server", func(c *Config) { c.Kubernetes.AuthType = "tls" }, `auth_type is "tls"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := createDefaultConfig().(*Config)
			tt.with(cfg)
			require.ErrorContains(t, confmap.Validate(cfg), tt.want)
		})
	}
}

func TestAnUnknownSettingIsAnError(t *testing.T) {
	conf := confmap.NewFromStringMap(map[string]any{"sources": map[string]any{"extended_resource": "x"}})
	require.ErrorContains(t, conf.Unmarshal(createDefaultConfig()), "extended_resource")
}

func TestByDefaultNothingIsAskedThatNeedsAPermissionOrAName(t *testing.T) {
	enabled := createDefaultConfig().(*Config).sources().Enabled
	for _, s := range []budget.Source{budget.DRA, budget.ExtendedResource, budget.Annotation, budget.MPS} {
		assert.False(t, enabled[s], s.String())
	}
	for _, s := range []budget.Source{
		budget.KoordinatorAllocation, budget.Koordinator, budget.HAMiAllocation, budget.HAMi, budget.KAI,
		budget.Exporter, budget.MIG, budget.WholeGPU,
	} {
		assert.True(t, enabled[s], s.String())
	}
}
