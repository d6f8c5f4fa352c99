package gpuk8sprocessor

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/budgetstage"
)

func TestTheDefaultConfigurationIsValid(t *testing.T) {
	require.NoError(t, confmap.Validate(createDefaultConfig()))
}

func TestNodeNameComesFromTheEnvironment(t *testing.T) {
	t.Setenv(componenthelper.NodeNameEnv, "gpu-node-7")
	assert.Equal(t, "gpu-node-7", createDefaultConfig().(*Config).NodeName)
}

func TestOptionsAreReadFromTheDocumentedKeys(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	require.NoError(t, confmap.NewFromStringMap(map[string]any{
		"node_name": "n1",
		"sources": map[string]any{
			"pod_resources": map[string]any{"socket": "/koordlet.sock", "interval": "30s"},
			"dra":           map[string]any{"drivers": []any{"gpu.example.com"}},

			"hpc_job_mapping_dir": "/run/jobs",
		},
		"resource_names": []any{"example.com/gpu"},
		"kubernetes":     map[string]any{"auth_type": "kubeConfig", "kubeconfig": "/agent.conf"},
		"claims":         true,
		"jobs":           true,
		"max_jobs":       7,
		"max_processes":  8,
		"node_labels":    []any{"topology.kubernetes.io/zone", "pool"},
		"pod_labels":     []any{"app.kubernetes.io/part-of", "team"},
		"metrics":        map[string]any{"hw.power": map[string]any{}},
	}).Unmarshal(cfg))
	require.NoError(t, confmap.Validate(cfg))
	assert.Equal(t, "/koordlet.sock", cfg.Sources.PodResources.Socket)
	assert.Equal(t, 30*time.Second, cfg.Sources.PodResources.Interval)
	assert.True(t, cfg.Sources.PodResources.Enabled)
	assert.Equal(t, []string{"gpu.example.com"}, cfg.Sources.DRA.Drivers)
	assert.Equal(t, 7, cfg.MaxJobs)
	assert.Equal(t, 8, cfg.MaxProcesses)
	assert.Equal(t, "/run/jobs", cfg.Sources.JobMappingDir)
	assert.Equal(t, "kubeConfig", cfg.Kubernetes.AuthType)
	assert.Equal(t, []string{"topology.kubernetes.io/zone", "pool"}, cfg.NodeLabels)
	assert.Empty(t, cfg.Metrics.Disabled([]*signal.Metric{signal.HwPower}), "a metric is enabled by default")
}

func TestAnInvalidSettingIsAnErrorWithFieldValueAndAllowedValues(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"a relative directory", func(c *Config) { c.Sources.JobMappingDir = "jobs" }, `sources::hpc_job_mapping_dir is "jobs": must be an absolute path, or empty for none`},
		{"a resource that is a GPU and is none", func(c *Config) { c.OtherResourceNames = gpushare.Names{"nvidia.com/gpu"} }, `other_resource_names[0] is "nvidia.com/gpu": must not also be in resource_names`},
		{"no jobs", func(c *Config) { c.MaxJobs = 0 }, "max_jobs is 0: must be above 0"},
		{"no processes", func(c *Config) { c.MaxProcesses = 0 }, "max_processes is 0: must be above 0"},
		{"no resource names", func(c *Config) { c.ResourceNames = nil }, "resource_names is []: must have a name while sources::pod_resources is enabled"},
		{"a resource name that is only a star", func(c *Config) { c.ResourceNames = []string{"*"} }, `resource_names[0] is "*": must be <domain>/<name>, or a prefix <domain>/<start>*`},
		{"a star inside a resource name", func(c *Config) { c.ResourceNames = []string{"a/*b"} }, `resource_names[0] is "a/*b": must be`},
		{"a resource name without a domain", func(c *Config) { c.ResourceNames = []string{"nvidia.com/gpu", "gpu"} }, `resource_names[1] is "gpu": must be <domain>/<name>`},
		{"a resource name with a star in the domain", func(c *Config) { c.ResourceNames = []string{"nvidia*"} }, `resource_names[0] is "nvidia*": must be <domain>/<name>`},
		{"a resource name with a blank", func(c *Config) { c.ResourceNames = []string{"nvidia.com/g pu"} }, `resource_names[0] is "nvidia.com/g pu": must be <domain>/<name>`},
		{"no driver", func(c *Config) { c.Sources.DRA.Drivers = nil }, "sources::dra::drivers is []: must have"},
		{"an empty driver", func(c *Config) { c.Sources.DRA.Drivers = []string{""} }, `sources::dra::drivers[0] is "": must be a driver's name`},
		{"an invalid driver name", func(c *Config) { c.Sources.DRA.Drivers = []string{"Bad Name"} }, `sources::dra::drivers[0] is "Bad Name": must be a driver's name`},
		{"claims without dra", func(c *Config) { c.Claims, c.Sources.DRA.Enabled = true, false }, "claims is true: must be false while sources::dra is disabled"},
		{
			"claims without an API server", func(c *Config) { c.Claims, c.Kubernetes.AuthType = true, "none" },
			"claims is true: must be false while kubernetes::auth_type is none",
		},
		{
			"jobs without an API server", func(c *Config) { c.Jobs, c.Kubernetes.AuthType = true, "none" },
			"jobs is true: must be false while kubernetes::auth_type is none",
		},
		{
			"labels without an API server", func(c *Config) { c.NodeLabels, c.Kubernetes.AuthType = []string{"pool"}, "none" },
			`node_labels is ["pool"]: must be empty while kubernetes::auth_type is none`,
		},
		{"an invalid label key", func(c *Config) { c.NodeLabels = []string{"pool", "a b"} }, `node_labels[1] is "a b": must be the key of a label`},
		{"an invalid key of a pod label", func(c *Config) { c.PodLabels = []string{""} }, `pod_labels[0] is "": must be the key of a label`},
		{"an invalid node name", func(c *Config) { c.NodeName = "Node_1" }, `node_name is "Node_1": must be empty or a DNS subdomain name`},
		{"a node name that was not expanded", func(c *Config) { c.NodeName = "$(NODE_NAME)" }, `node_name is "$(NODE_NAME)": must be`},
		{"unknown metric", func(c *Config) { c.Metrics = componenthelper.Metrics{"hw.pwoer": {}} }, `metrics has the key "hw.pwoer": must be one of container.accelerator.memory_total, `},
		{"a metric of another component", func(c *Config) { c.Metrics = componenthelper.Metrics{signal.XIDErrors.Name: {}} }, `metrics has the key "gpu.saturation.xid.errors": must be one of`},
		{"socket", func(c *Config) { c.Sources.PodResources.Socket = "kubelet.sock" }, `sources::pod_resources: socket is "kubelet.sock"`},
		{"interval", func(c *Config) { c.Sources.PodResources.Interval = 10 }, "sources::pod_resources: interval is 10ns: must be between 1s and 10m0s"},
		{"a timeout without a unit", func(c *Config) { c.Sources.PodResources.Timeout = 5 }, "sources::pod_resources: timeout is 5ns: must be between 10ms and 1m0s; write the unit, as in 5s"},
		{"no timeout", func(c *Config) { c.Sources.PodResources.Timeout = 0 }, "sources::pod_resources: timeout is 0s: must be between 10ms and 1m0s; write the unit, as in 5s"},
		{"a long timeout", func(c *Config) { c.Sources.PodResources.Timeout = 2 * time.Minute }, "sources::pod_resources: timeout is 2m0s: must be between 10ms and 1m0s; write the unit, as in 5s"},
		{
			"budgets of pods without an API server", func(c *Config) {
				c.Kubernetes.AuthType = "none"
				b := c.Budget.GetOrInsertDefault()
				b.Sources.ExtendedResources = []budgetstage.ExtendedResourceConfig{{Name: "a.b/c", Unit: "MiB"}}
				b.Sources.Annotation.Key = "a.b/gpu"
			},
			"kubernetes::auth_type is \"none\": must be serviceAccount or kubeConfig for budget::sources::annotation\n" +
				"kubernetes::auth_type is \"none\": must be serviceAccount or kubeConfig for budget::sources::extended_resources",
		},
		{
			"budgets of claims without an API server", func(c *Config) {
				c.Kubernetes.AuthType = "none"
				c.Budget.GetOrInsertDefault().Sources.DRA.Enabled = true
			},
			`kubernetes::auth_type is "none": must be serviceAccount or kubeConfig for budget::sources::dra`,
		},
		{"a setting of a section", func(c *Config) { c.Power.GetOrInsertDefault().Weighting = "memory" }, `power: weighting is "memory": must be "slices" or "none"`},
		{"auth_type", func(c *Config) { c.Kubernetes.AuthType = "magic" }, `kubernetes: auth_type is "magic"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := createDefaultConfig().(*Config)
			tt.change(cfg)
			assert.ErrorContains(t, confmap.Validate(cfg), tt.want)
		})
	}
}

// A section is enabled if the section's key exists, even if the key has no value.
func TestASectionExistsIfItIsConfigured(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	require.NoError(t, confmap.NewFromStringMap(map[string]any{
		"power": nil, "usage": map[string]any{"max_gap": "2m"}, "storage": "file_storage",
		"metrics": map[string]any{"k8s.container.gpu.power": map[string]any{"enabled": false}},
	}).Unmarshal(cfg))
	require.NoError(t, confmap.Validate(cfg))
	assert.True(t, cfg.Power.HasValue())
	assert.False(t, cfg.Budget.HasValue())
	assert.Equal(t, 2*time.Minute, cfg.Usage.Get().MaxGap)
	assert.Equal(t, 10*time.Minute, cfg.Usage.Get().IdleTimeout, "by default")
}

func TestAnUnknownSettingIsAnError(t *testing.T) {
	for key, conf := range map[string]map[string]any{
		"power::storage":   {"power": map[string]any{"storage": "file_storage"}}, // The storage setting belongs to gpu_k8s, not to a section.
		"sources::kubelet": {"sources": map[string]any{"kubelet": nil}},
		// The following settings existed only in earlier versions.
		"history":          {"history": "5m"},
		"wait_for_sources": {"wait_for_sources": "0s"},
		"sources::labels":  {"sources": map[string]any{"labels": map[string]any{"enabled": false}}},
	} {
		require.ErrorContains(t, confmap.NewFromStringMap(conf).Unmarshal(createDefaultConfig()), `unknown key "`+key+`"`)
	}
}

func TestTheLimitsThemselvesAreAllowed(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	cfg.ResourceNames = []string{"example.com/*", "nvidia.com/mig-*", "example.com/gpu.shared"}
	for _, timeout := range []time.Duration{10 * time.Millisecond, time.Minute} {
		cfg.Sources.PodResources.Timeout = timeout
		require.NoError(t, confmap.Validate(cfg))
	}
	cfg.Sources.PodResources.Enabled, cfg.Sources.PodResources.Timeout = false, 0
	require.NoError(t, confmap.Validate(cfg), "unused settings are not checked")
}

func TestOnlyCadvisorsMetricsAreDisabledByDefault(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	off := cfg.Metrics.Disabled(emitted())
	for _, m := range emitted() {
		assert.Equal(t, slices.Contains(accelerator, m), off[m], m.Name)
	}
	require.NoError(t, confmap.NewFromStringMap(map[string]any{"metrics": map[string]any{
		"container.accelerator.memory_total": map[string]any{"enabled": true},
		"container.accelerator.memory_used":  map[string]any{"enabled": false},
		"container.accelerator.duty_cycle":   map[string]any{},
		"hw.energy":                          nil,
	}}).Unmarshal(cfg))
	require.NoError(t, confmap.Validate(cfg))
	off = cfg.Metrics.Disabled(emitted())
	assert.False(t, off[signal.ContainerAcceleratorMemoryTotal])
	assert.True(t, off[signal.ContainerAcceleratorMemoryUsed])
	assert.True(t, off[signal.ContainerAcceleratorDutyCycle], "an empty entry does not enable a metric")
	assert.False(t, off[signal.HwEnergy])
}

func TestResourceNames(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	for name, want := range map[string]bool{
		"nvidia.com/gpu": true, "nvidia.com/gpu.shared": true, "nvidia.com/mig-1g.10gb": true, "nvidia.com/mig-1g.10gb.shared": true,
		"nvidia.com/gpumem": false, "cpu": false, "rdma/hca": false,
	} {
		assert.Equal(t, want, cfg.ResourceNames.Has(name), name)
	}
}
