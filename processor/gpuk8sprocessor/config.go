package gpuk8sprocessor

import (
	"errors"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"k8s.io/apimachinery/pkg/util/validation"

	base "github.com/otelcol-gpu/otelcol-gpu/internal/component"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

const (
	maxWait    = 5 * time.Minute
	minHistory = time.Second
	maxHistory = time.Hour
)

// Config configures the gpu_k8s processor.
type Config struct {
	// NodeName is the node whose kubelet and API objects are read. Devices of
	// other nodes are attributed by labels and processes. Default: the environment
	// variable NODE_NAME; when that is unset too, no device is of this node.
	NodeName string `mapstructure:"node_name"`
	// Sources switches what is asked for holders.
	Sources SourcesConfig `mapstructure:"sources"`
	// ResourceNames are the device plugins' resources that are GPUs; a trailing
	// * stands for any ending.
	ResourceNames []string `mapstructure:"resource_names"`
	// Kubernetes says how the API server is reached: for the UIDs of pods,
	// ResourceSlices, the node's label and, with Claims, ResourceClaims.
	Kubernetes kube.Config `mapstructure:"kubernetes"`
	// Claims says that ResourceClaims may be read, which needs a permission of its
	// own: for the claim's UID, class and request, and for holders where the
	// kubelet does not tell.
	Claims bool `mapstructure:"claims"`
	// WaitForSources bounds how long the start waits for first answers.
	WaitForSources time.Duration `mapstructure:"wait_for_sources"`
	// History is how long what was so serves samples that come late.
	History time.Duration `mapstructure:"history"`
	// Metrics switches the container series of single metrics, gpu.device.holder,
	// gpu.sharing.clients and container.accelerator.* by name; all but the last are
	// enabled by default.
	Metrics base.Metrics `mapstructure:"metrics"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// SourcesConfig switches sources of holders.
type SourcesConfig struct {
	// PodResources is the kubelet's PodResources service.
	PodResources PodResourcesConfig `mapstructure:"pod_resources"`
	// DRA is what the API server knows of dynamic resource allocation.
	DRA DRAConfig `mapstructure:"dra"`
	// Labels are pod labels on the exporter's rows.
	Labels SwitchConfig `mapstructure:"labels"`
	// Processes are containers that were seen to use a device that nobody was
	// given.
	Processes SwitchConfig `mapstructure:"processes"`

	_ struct{}
}

// PodResourcesConfig is the source pod_resources.
type PodResourcesConfig struct {
	Enabled bool `mapstructure:"enabled"`
	// Socket is the path of the kubelet's socket, or of one that serves the same
	// API, such as koordlet's.
	Socket string `mapstructure:"socket"`
	// Interval is the time from one question to the next.
	Interval time.Duration `mapstructure:"interval"`
	// Timeout bounds the wait for one answer.
	Timeout time.Duration `mapstructure:"timeout"`

	_ struct{}
}

// client returns the configuration of the kubelet's client.
func (c *PodResourcesConfig) client() kube.PodResourcesConfig {
	return kube.PodResourcesConfig{Socket: c.Socket, Interval: c.Interval, Timeout: c.Timeout}
}

// Validate reports what the kubelet's client does not allow, where it is used.
func (c *PodResourcesConfig) Validate() error {
	if !c.Enabled {
		return nil
	}
	client := c.client()
	return client.Validate()
}

// DRAConfig is the source dra.
type DRAConfig struct {
	Enabled bool `mapstructure:"enabled"`
	// Drivers are those whose devices are GPUs.
	Drivers []string `mapstructure:"drivers"`

	_ struct{}
}

// SwitchConfig switches a source.
type SwitchConfig struct {
	Enabled bool `mapstructure:"enabled"`

	_ struct{}
}

var (
	_ confmap.Unmarshaler = (*Config)(nil)
	_ confmap.Validator   = (*Config)(nil)
)

func createDefaultConfig() component.Config {
	kubelet := kube.NewDefaultPodResourcesConfig()
	return &Config{
		NodeName: base.NodeName(),
		Sources: SourcesConfig{
			PodResources: PodResourcesConfig{
				Enabled: true, Socket: kubelet.Socket, Interval: kubelet.Interval, Timeout: kubelet.Timeout,
			},
			DRA:       DRAConfig{Enabled: true, Drivers: []string{"gpu.nvidia.com"}},
			Labels:    SwitchConfig{Enabled: true},
			Processes: SwitchConfig{Enabled: true},
		},
		ResourceNames:  []string{"nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-*"},
		Kubernetes:     kube.NewDefaultConfig(),
		WaitForSources: 10 * time.Second,
		History:        2 * time.Minute,
	}
}

// Unmarshal implements confmap.Unmarshaler. A number that its field cannot hold is an
// error.
func (c *Config) Unmarshal(conf *confmap.Conf) error { return base.Unmarshal(conf, c) }

// Validate reports every field whose value is not allowed; kubernetes and
// sources::pod_resources report their own.
func (c *Config) Validate() error {
	var errs base.Errors
	check := errs.Check
	if err := base.CheckNodeName(c.NodeName); err != nil {
		errs = append(errs, err)
	}
	s := &c.Sources
	check(s.PodResources.Enabled || s.DRA.Enabled || s.Labels.Enabled || s.Processes.Enabled,
		"sources is without an enabled one: must be at least one of pod_resources, dra, labels, processes")
	check(!s.PodResources.Enabled || len(c.ResourceNames) > 0,
		"resource_names is []: must have a name while sources::pod_resources is enabled")
	for i, name := range c.ResourceNames {
		prefix, wild := strings.CutSuffix(name, "*")
		one := prefix // a name that it stands for
		if wild {
			one += "x"
		}
		check(strings.Contains(prefix, "/") && len(validation.IsQualifiedName(one)) == 0,
			"resource_names[%d] is %q: must be <domain>/<name>, or a prefix <domain>/<start>*", i, name)
	}
	check(!s.DRA.Enabled || len(s.DRA.Drivers) > 0, "sources::dra::drivers is []: must have a driver's name while sources::dra is enabled")
	for i, name := range s.DRA.Drivers {
		check(name != "", "sources::dra::drivers[%d] is \"\": must be a driver's name", i)
	}
	check(!c.Claims || s.DRA.Enabled, "claims is true: must be false while sources::dra is disabled")
	check(!c.Claims || c.Kubernetes.AuthType != kube.AuthNone, "claims is true: must be false while kubernetes::auth_type is none")
	check(c.WaitForSources >= 0 && c.WaitForSources <= maxWait, "wait_for_sources is %s: must be between 0s and %s", c.WaitForSources, maxWait)
	check(c.History >= minHistory && c.History <= maxHistory, "history is %s: must be between %s and %s", c.History, minHistory, maxHistory)
	errs = append(errs, c.Metrics.Check(base.MetricNames(emitted()))...)
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// emitted returns the metrics that this processor makes, or makes container series
// of.
func emitted() []*signal.Metric {
	return slices.DeleteFunc(signal.All(), func(m *signal.Metric) bool { return !emits(m) })
}

func emits(m *signal.Metric) bool {
	return m.Stage == signal.StageSample && m != signal.GPUExporterUp && m != signal.GPUSignalAvailable || m == signal.GPUSharingClients || ofAccelerator(m)
}

// ofAccelerator reports whether the metric is one of cAdvisor's.
func ofAccelerator(m *signal.Metric) bool {
	switch m {
	case signal.ContainerAcceleratorMemoryTotal, signal.ContainerAcceleratorMemoryUsed, signal.ContainerAcceleratorDutyCycle:
		return true
	}
	return false
}

// enabled reports whether a metric is switched on.
func (c *Config) enabled(m *signal.Metric) bool {
	// cAdvisor's say again, under another name, what others say.
	return c.Metrics.Enabled(m.Name, !ofAccelerator(m))
}

// grace returns how long nobody stays nobody after the kubelet's last answer: a
// few failures, or its restart, change nothing.
func (c *Config) grace() time.Duration {
	return max(3*c.Sources.PodResources.Interval, c.History)
}

// isGPU reports whether a resource name is one of ResourceNames.
func (c *Config) isGPU(resource string) bool {
	for _, name := range c.ResourceNames {
		prefix, wild := strings.CutSuffix(name, "*")
		if resource == name || wild && strings.HasPrefix(resource, prefix) {
			return true
		}
	}
	return false
}
