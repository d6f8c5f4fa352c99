package gpuclusterreceiver

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/confmaptest"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper/lease"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

func TestEveryOptionIsRead(t *testing.T) {
	conf, err := confmaptest.LoadConf(filepath.Join("testdata", "config.yaml"))
	require.NoError(t, err)
	sub, err := conf.Sub("receivers::gpu_cluster")
	require.NoError(t, err)
	cfg := createDefaultConfig().(*Config)
	require.NoError(t, sub.Unmarshal(cfg))
	require.NoError(t, confmap.Validate(cfg))
	assert.Equal(t, &Config{
		CollectionInterval: time.Minute,
		Kubernetes:         kube.Config{AuthType: kube.AuthKubeConfig, KubeConfig: "/etc/otelcol/kubeconfig", Context: "prod"},
		ClusterName:        "prod",
		LeaderElection: lease.Config{
			Enabled: true, Namespace: "monitoring", Name: "gpu-cluster-prod",
			LeaseDuration: 30 * time.Second, RenewDeadline: 20 * time.Second, RetryPeriod: 5 * time.Second,
		},
		Resources:      []string{"nvidia.com/a100", "example.com/gpu-*"},
		DRADrivers:     []string{"gpu.nvidia.com", "gpu.example.com"},
		DeviceClasses:  []string{"fast-gpu"},
		NodeConditions: []string{"XidCriticalError", "example.com/GPU*"},
		FirstAvailable: "first",
		Metrics:        componenthelper.Metrics{"k8s.resourceslice.device": {Enabled: new(false)}},
	}, cfg)
}

func TestEmptyMetricEntryKeepsTheMetricEnabled(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	require.NoError(t, confmap.NewFromStringMap(map[string]any{"metrics": map[string]any{
		"k8s.resourceslice.device": map[string]any{}, "k8s.resourceslice.devices": nil,
	}}).Unmarshal(cfg))
	off := map[*signal.Metric]bool{signal.K8sResourceClaimDeviceCondition: true, signal.K8sResourceSlicePoolDevices: true}
	assert.Equal(t, off, cfg.Metrics.Disabled(emitted()), "off by default")
}

func TestDefaultsAreValidInAPod(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "monitoring")
	cfg := createDefaultConfig().(*Config)
	require.NoError(t, componenttest.CheckConfigStruct(cfg))
	require.NoError(t, confmap.Validate(cfg))
}

func TestInvalidOptionIsReportedWithItsValueAndTheAllowedValues(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"interval": {
			func(c *Config) { c.CollectionInterval = 30 },
			"collection_interval is 30ns: must be at least 1s; write the unit, as in 30s",
		},
		"no API server": {
			func(c *Config) { c.Kubernetes.AuthType = kube.AuthNone },
			`kubernetes::auth_type is "none": must be serviceAccount or kubeConfig, because the receiver only reads from the API server`,
		},
		"namespace":  {func(c *Config) { c.LeaderElection.Namespace = "My Team" }, `leader_election: namespace is "My Team": must be a namespace`},
		"lease name": {func(c *Config) { c.LeaderElection.Name = "" }, `leader_election: name is "": must be a name that consists of lowercase letters, digits, '-', and '.'`},
		"retry period": {
			func(c *Config) { c.LeaderElection.RetryPeriod = 2 },
			"leader_election: retry_period is 2ns: must be at least 100ms; write the unit, as in 2s",
		},
		"renew deadline": {
			func(c *Config) { c.LeaderElection.RenewDeadline = 2400 * time.Millisecond },
			"leader_election: renew_deadline is 2.4s: must be more than 2.4s, which is 1.2 times retry_period",
		},
		"lease duration": {
			func(c *Config) { c.LeaderElection.LeaseDuration = 10 * time.Second },
			"leader_election: lease_duration is 10s: must be whole seconds and more than renew_deadline, 10s",
		},
		"lease duration in fractions": {
			func(c *Config) { c.LeaderElection.LeaseDuration = 15500 * time.Millisecond },
			"leader_election: lease_duration is 15.5s: must be whole seconds and more than renew_deadline, 10s",
		},
		"resource": {
			func(c *Config) { c.Resources = []string{"gpu"} },
			`resources[0] is "gpu": must be <domain>/<name>, or a prefix <domain>/<start>*`,
		},
		"driver": {
			func(c *Config) { c.DRADrivers = []string{"gpu.nvidia.com", "GPU"} },
			`dra_drivers[1] is "GPU": must be a name that consists of lowercase letters, digits, '-', and '.'`,
		},
		"class": {
			func(c *Config) { c.DeviceClasses = []string{"gpu_nvidia"} },
			`device_classes[0] is "gpu_nvidia": must be a name that consists of lowercase letters, digits, '-', and '.'`,
		},
		"node condition": {
			func(c *Config) { c.NodeConditions = []string{"*GPU*", "[GX]*"} },
			`node_conditions[1] is "[GX]*": must be a condition type that consists of letters, digits, '-', '_', '.', and '/'; a '*' matches any characters`,
		},
		"empty node condition": {
			func(c *Config) { c.NodeConditions = []string{""} },
			`node_conditions[0] is "": must be a condition type that consists of letters`,
		},
		"first available": {
			func(c *Config) { c.FirstAvailable = "last" },
			`first_available is "last": must be max or first`,
		},
		"metric": {
			func(c *Config) { c.Metrics = componenthelper.Metrics{"hw.power": {}} },
			`metrics has the key "hw.power": must be one of cluster.gpu.pending_pod_count, `,
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := createDefaultConfig().(*Config)
			cfg.LeaderElection.Namespace = "monitoring"
			require.NoError(t, confmap.Validate(cfg))
			tt.change(cfg)
			err := confmap.Validate(cfg)
			require.Error(t, err)
			assert.True(t, strings.HasPrefix(err.Error(), tt.want), err.Error())
			assert.NotContains(t, err.Error(), "\n", "one invalid setting causes one error")
		})
	}
}

func TestWithoutLeaderElectionItsOptionsDoNotMatter(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	cfg.LeaderElection = lease.Config{}
	require.NoError(t, confmap.Validate(cfg))
}
