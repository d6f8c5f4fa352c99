package gpuclusterreceiver

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"

	base "github.com/otelcol-gpu/otelcol-gpu/internal/component"
	"github.com/otelcol-gpu/otelcol-gpu/internal/component/lease"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Values of first_available.
const (
	firstAvailableMax   = "max"
	firstAvailableFirst = "first"
)

const minCollectionInterval = time.Second

// Config configures the gpu_cluster receiver.
type Config struct {
	// CollectionInterval is the time from one emission to the next.
	CollectionInterval time.Duration `mapstructure:"collection_interval"`
	// Kubernetes says how the API server is reached.
	Kubernetes kube.Config `mapstructure:"kubernetes"`
	// ClusterName is k8s.cluster.name; unset when empty.
	ClusterName string `mapstructure:"cluster_name"`
	// LeaderElection chooses the replica that emits. Receivers with different
	// configurations need leases of different names.
	LeaderElection lease.Config `mapstructure:"leader_election"`
	// Resources are further resource names that are GPUs, each a full name or a
	// prefix that ends in *.
	Resources []string `mapstructure:"resources"`
	// DRADrivers are the DRA drivers whose devices are GPUs.
	DRADrivers []string `mapstructure:"dra_drivers"`
	// DeviceClasses are device classes that are GPU classes whatever their
	// objects say.
	DeviceClasses []string `mapstructure:"device_classes"`
	// FirstAvailable is what a request with alternatives counts as while it is
	// pending: the largest (max) or the most preferred (first).
	FirstAvailable string `mapstructure:"first_available"`
	// Metrics switches single metrics by name; all are enabled by default.
	Metrics base.Metrics `mapstructure:"metrics"`
}

var (
	_ confmap.Unmarshaler = (*Config)(nil)
	_ confmap.Validator   = (*Config)(nil)
)

func createDefaultConfig() component.Config {
	return &Config{
		CollectionInterval: 30 * time.Second,
		Kubernetes:         kube.NewDefaultConfig(),
		LeaderElection:     lease.NewDefaultConfig("otelcol-gpu-cluster"),
		DRADrivers:         []string{"gpu.nvidia.com"},
		DeviceClasses:      []string{"gpu.nvidia.com", "mig.nvidia.com", "vfio.gpu.nvidia.com"},
		FirstAvailable:     firstAvailableMax,
	}
}

// subdomain is what names of objects, drivers and classes look like.
var subdomain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

const maxSubdomain = 253

func isSubdomain(text string) bool { return len(text) <= maxSubdomain && subdomain.MatchString(text) }

// Unmarshal implements confmap.Unmarshaler. A number that its field cannot hold is an
// error.
func (cfg *Config) Unmarshal(conf *confmap.Conf) error { return base.Unmarshal(conf, cfg) }

// Validate implements confmap.Validator. Each error names the field, its value
// and what is allowed. Kubernetes and LeaderElection are validated by themselves.
func (cfg *Config) Validate() error {
	var errs []error
	if cfg.CollectionInterval < minCollectionInterval {
		errs = append(errs, fmt.Errorf("collection_interval is %s: must be at least %s; write the unit, as in 30s", cfg.CollectionInterval, minCollectionInterval))
	}
	if cfg.Kubernetes.AuthType == kube.AuthNone {
		errs = append(errs, fmt.Errorf("kubernetes::auth_type is %q: must be %s or %s, everything comes from the API server",
			kube.AuthNone, kube.AuthServiceAccount, kube.AuthKubeConfig))
	}
	if _, err := cfg.families(); err != nil {
		errs = append(errs, err)
	}
	for field, names := range map[string][]string{"dra_drivers": cfg.DRADrivers, "device_classes": cfg.DeviceClasses} {
		for i, name := range names {
			if !isSubdomain(name) {
				errs = append(errs, fmt.Errorf("%s[%d] is %q: must be a name of lower case letters, digits, '-' and '.'", field, i, name))
			}
		}
	}
	if cfg.FirstAvailable != firstAvailableMax && cfg.FirstAvailable != firstAvailableFirst {
		errs = append(errs, fmt.Errorf("first_available is %q: must be %s or %s", cfg.FirstAvailable, firstAvailableMax, firstAvailableFirst))
	}
	errs = append(errs, cfg.Metrics.Check(base.MetricNames(emitted()))...)
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// families returns the resource names that are GPUs.
func (cfg *Config) families() (gpushare.Families, error) {
	return gpushare.NewFamilies(cfg.Resources, cfg.DeviceClasses)
}

// emitted returns the metrics that the receiver makes.
func emitted() []*signal.Metric {
	return slices.DeleteFunc(signal.All(), func(m *signal.Metric) bool { return m.Stage != signal.StageCluster })
}
