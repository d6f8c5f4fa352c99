package gpuclusterreceiver

import (
	"slices"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper/lease"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// These are the values of first_available.
const (
	firstAvailableMax   = "max"
	firstAvailableFirst = "first"
)

const minCollectionInterval = time.Second

// Config configures the gpu_cluster receiver.
type Config struct {
	// CollectionInterval is the time between emissions of the metrics.
	CollectionInterval time.Duration `mapstructure:"collection_interval"`
	// Kubernetes configures the connection to the API server.
	Kubernetes kube.Config `mapstructure:"kubernetes"`
	// ClusterName is the value of k8s.cluster.name. If ClusterName is empty, k8s.cluster.name is
	// not set.
	ClusterName string `mapstructure:"cluster_name"`
	// LeaderElection configures the election of the replica that emits points. Receivers with
	// different configurations must use leases with different names.
	LeaderElection lease.Config `mapstructure:"leader_election"`
	// Resources are additional GPU resource names. Each element is a full name, or a prefix
	// followed by *.
	Resources []string `mapstructure:"resources"`
	// DRADrivers are the DRA drivers whose devices are GPUs.
	DRADrivers []string `mapstructure:"dra_drivers"`
	// DeviceClasses are the names of device classes that always count as GPU classes, regardless of
	// the contents of the DeviceClass objects.
	DeviceClasses []string `mapstructure:"device_classes"`
	// NodeConditions are patterns for the types of the node conditions to emit. The wildcard *
	// matches any sequence of characters.
	NodeConditions []string `mapstructure:"node_conditions"`
	// FirstAvailable defines which alternative of a pending firstAvailable request counts as
	// demand: the largest alternative (max) or the most preferred alternative (first).
	FirstAvailable string `mapstructure:"first_available"`
	// Metrics enables or disables individual metrics by name. By default, all metrics are enabled
	// except k8s.resourceclaim.device.condition and k8s.resourceslice.pool.devices.
	Metrics componenthelper.Metrics `mapstructure:"metrics"`
	// FlatAttributes makes the receiver copy the Resource attributes to each point. FlatAttributes
	// is intended for backends that store only point attributes.
	FlatAttributes bool `mapstructure:"flat_attributes"`
}

func createDefaultConfig() component.Config {
	return &Config{
		CollectionInterval: 30 * time.Second,
		Kubernetes:         kube.NewDefaultConfig(),
		LeaderElection:     lease.NewDefaultConfig("otelcol-gpu-cluster"),
		DRADrivers:         []string{"gpu.nvidia.com", "gpu.amd.com", "gpu.intel.com", "gaudi.intel.com"},
		DeviceClasses:      gpushare.DefaultDeviceClasses(),
		NodeConditions:     defaultConditions(),
		FirstAvailable:     firstAvailableMax,
	}
}

// Unmarshal implements confmap.Unmarshaler by calling [componenthelper.Unmarshal].
func (cfg *Config) Unmarshal(conf *confmap.Conf) error { return componenthelper.Unmarshal(conf, cfg) }

// Validate implements confmap.Validator. Each validation error contains the name of the field, the
// value, and the allowed values. Kubernetes and LeaderElection have their own Validate methods.
func (cfg *Config) Validate() error {
	var p componenthelper.Problems
	p.Check(cfg.CollectionInterval >= minCollectionInterval,
		"collection_interval is %s: must be at least %s; write the unit, as in 30s", cfg.CollectionInterval, minCollectionInterval)
	p.Check(cfg.Kubernetes.AuthType != kube.AuthNone, "kubernetes::auth_type is %q: must be %s or %s, because the receiver only reads from the API server",
		kube.AuthNone, kube.AuthServiceAccount, kube.AuthKubeConfig)
	_, err := cfg.families()
	p.Add(err)
	_, err = compileConditions(cfg.NodeConditions)
	p.Add(err)
	for field, names := range map[string][]string{"dra_drivers": cfg.DRADrivers, "device_classes": cfg.DeviceClasses} {
		for i, name := range names {
			p.Check(componenthelper.IsObjectName(name),
				"%s[%d] is %q: must be a name that consists of lowercase letters, digits, '-', and '.'", field, i, name)
		}
	}
	p.Check(cfg.FirstAvailable == firstAvailableMax || cfg.FirstAvailable == firstAvailableFirst,
		"first_available is %q: must be %s or %s", cfg.FirstAvailable, firstAvailableMax, firstAvailableFirst)
	p.Add(cfg.Metrics.Check(signal.Names(emitted()))...)
	return p.Err()
}

// The families method returns the resource names and the device classes that count as GPUs.
func (cfg *Config) families() (gpushare.Families, error) {
	return gpushare.NewFamilies(cfg.Resources, cfg.DeviceClasses)
}

// The emitted function returns the metrics that the receiver can emit.
func emitted() []*signal.Metric {
	return slices.DeleteFunc(signal.All(), func(m *signal.Metric) bool { return m.Stage != signal.StageCluster })
}
