package gpuk8sprocessor

import (
	"path/filepath"
	"slices"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/confmap"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/budgetstage"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/powerstage"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/section"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/usagestage"
)

const (
	// defaultMaxJobs is far above the number of jobs that a node runs within ten minutes. A job has
	// about 60 series per GPU. Even with 16 GPUs per job, 1000 jobs have fewer series than
	// gpu_window allows by default (2,000,000).
	defaultMaxJobs = 1000
	// defaultMaxProcesses is enough for 10,000 devices with 20 processes each.
	defaultMaxProcesses = 200_000
	// waitForSources limits how long start waits for the first answers from the sources.
	waitForSources = 10 * time.Second
	// history is how long past holders are kept for late samples.
	history = 2 * time.Minute
)

// Config configures the gpu_k8s processor.
type Config struct {
	// NodeName is the name of the node whose kubelet and API objects are read. Devices of other
	// nodes are attributed by labels and processes. The default is the environment variable
	// NODE_NAME. If it is also unset, no device belongs to this node.
	NodeName string `mapstructure:"node_name"`
	// Sources configures the sources of holders.
	Sources SourcesConfig `mapstructure:"sources"`
	// ResourceNames are the device plugin resources that represent GPUs. A trailing * matches any
	// suffix. An ID in the form of a GPU ID is used regardless of the resource name.
	ResourceNames gpushare.Names `mapstructure:"resource_names"`
	// OtherResourceNames are device plugin resources that do not represent GPUs, in addition to the
	// predefined ones. The IDs of these resources may have any form.
	OtherResourceNames gpushare.Names `mapstructure:"other_resource_names"`
	// Kubernetes configures access to the API server. The processor reads the UIDs of pods,
	// ResourceSlices, and properties of the node. It also reads ResourceClaims if Claims is set,
	// and Jobs if Jobs is set.
	Kubernetes kube.Config `mapstructure:"kubernetes"`
	// Claims enables reading ResourceClaims, which needs an additional permission. They provide the
	// UID, class, and request of a claim, and the holders that the kubelet does not report.
	Claims bool `mapstructure:"claims"`
	// Jobs enables reading Jobs, which needs an additional permission. They provide the CronJob or
	// other object that created a pod's Job.
	Jobs bool `mapstructure:"jobs"`
	// MaxJobs limits the total number of batch jobs that have series, across all nodes. If a device
	// has a job beyond the limit, the device's holders are unknown.
	MaxJobs int `mapstructure:"max_jobs"`
	// MaxProcesses limits the number of processes in the process lists that the sections power,
	// budget, and usage read, on all nodes together. Lists beyond the limit are dropped and counted.
	MaxProcesses int `mapstructure:"max_processes"`
	// NodeLabels are the keys of the node labels that are added to the node's Resource.
	NodeLabels []string `mapstructure:"node_labels"`
	// PodLabels are the keys of the pod labels that are added to the Resources of holders.
	PodLabels []string `mapstructure:"pod_labels"`
	// Metrics enables or disables metrics by name: the container series of individual metrics,
	// gpu.device.holder, gpu.sharing.clients, container.accelerator.*, and the metrics of the
	// sections. All but container.accelerator.* are enabled by default.
	Metrics componenthelper.Metrics `mapstructure:"metrics"`
	// Power attributes the power of boards to their holders. It is off if the section is missing.
	Power configoptional.Optional[powerstage.Config] `mapstructure:"power"`
	// Budget compares declared with used GPU memory. It is off if the section is missing.
	Budget configoptional.Optional[budgetstage.Config] `mapstructure:"budget"`
	// Usage counts allocated, active, idle, and unallocated GPU time. It is off if the section is
	// missing.
	Usage configoptional.Optional[usagestage.Config] `mapstructure:"usage"`
	// Storage is the storage extension that keeps the state of the sections across restarts.
	Storage *component.ID `mapstructure:"storage"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// SourcesConfig configures the sources of holders. The exporter's labels and the containers whose
// processes use a device are always read.
type SourcesConfig struct {
	// PodResources is the kubelet's PodResources service.
	PodResources kube.PodResourcesConfig `mapstructure:"pod_resources"`
	// DRA reads dynamic resource allocation from the API server.
	DRA DRAConfig `mapstructure:"dra"`
	// JobMappingDir is the directory that dcgm-exporter reads with --hpc-job-mapping-dir. It names
	// the holders of this machine's GPUs if no label does.
	JobMappingDir string `mapstructure:"hpc_job_mapping_dir"`

	_ struct{}
}

// DRAConfig configures the dra source.
type DRAConfig struct {
	Enabled bool `mapstructure:"enabled"`
	// Drivers are the names of the DRA drivers whose devices are GPUs.
	Drivers []string `mapstructure:"drivers"`

	_ struct{}
}

func createDefaultConfig() component.Config {
	return &Config{
		NodeName: componenthelper.NodeName(),
		Sources: SourcesConfig{
			PodResources: kube.NewDefaultPodResourcesConfig(),
			DRA:          DRAConfig{Enabled: true, Drivers: []string{"gpu.nvidia.com"}},
		},
		ResourceNames: gpushare.Names{"nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-*"},
		Kubernetes:    kube.NewDefaultConfig(),
		MaxJobs:       defaultMaxJobs,
		MaxProcesses:  defaultMaxProcesses,
		Power:         configoptional.Default(powerstage.NewDefaultConfig()),
		Budget:        configoptional.Default(budgetstage.NewDefaultConfig()),
		Usage:         configoptional.Default(usagestage.NewDefaultConfig()),
	}
}

// Unmarshal implements confmap.Unmarshaler with [componenthelper.Unmarshal].
func (c *Config) Unmarshal(conf *confmap.Conf) error { return componenthelper.Unmarshal(conf, c) }

// Validate reports every field whose value is not allowed, except those of kubernetes and
// sources::pod_resources, which have their own Validate methods.
func (c *Config) Validate() error {
	var p componenthelper.Problems
	p.Add(componenthelper.CheckNodeName(c.NodeName))
	s := &c.Sources
	p.Check(!s.PodResources.Enabled || len(c.ResourceNames) > 0,
		"resource_names is []: must have a name while sources::pod_resources is enabled")
	p.Add(c.ResourceNames.Check("resource_names")...)
	p.Add(c.OtherResourceNames.Check("other_resource_names")...)
	for i, name := range c.OtherResourceNames {
		p.Check(!slices.Contains(c.ResourceNames, name), "other_resource_names[%d] is %q: must not also be in resource_names", i, name)
	}
	p.Check(!s.DRA.Enabled || len(s.DRA.Drivers) > 0, "sources::dra::drivers is []: must have a driver's name while sources::dra is enabled")
	for i, name := range s.DRA.Drivers {
		p.Check(len(validation.IsDNS1123Subdomain(name)) == 0, "sources::dra::drivers[%d] is %q: must be a driver's name, such as gpu.nvidia.com", i, name)
	}
	p.Check(s.JobMappingDir == "" || filepath.IsAbs(s.JobMappingDir),
		"sources::hpc_job_mapping_dir is %q: must be an absolute path, or empty for none", s.JobMappingDir)
	p.Check(!c.Claims || s.DRA.Enabled, "claims is true: must be false while sources::dra is disabled")
	p.Check(!c.Claims || c.Kubernetes.AuthType != kube.AuthNone, "claims is true: must be false while kubernetes::auth_type is none")
	p.Check(!c.Jobs || c.Kubernetes.AuthType != kube.AuthNone, "jobs is true: must be false while kubernetes::auth_type is none")
	c.checkLabels(&p, "node_labels", c.NodeLabels)
	c.checkLabels(&p, "pod_labels", c.PodLabels)
	p.Check(c.MaxJobs > 0, "max_jobs is %d: must be above 0", c.MaxJobs)
	p.Check(c.MaxProcesses > 0, "max_processes is %d: must be above 0", c.MaxProcesses)
	names := emitted()
	for _, of := range [][]*signal.Metric{powerstage.Emitted, budgetstage.Emitted, usagestage.Emitted} {
		names = append(names, of...)
	}
	p.Add(c.Metrics.Check(signal.Names(names))...)
	if c.Budget.HasValue() {
		p.Add(c.Budget.Get().CheckKubernetes(c.Kubernetes.AuthType)...)
	}
	return p.Err()
}

func (c *Config) checkLabels(p *componenthelper.Problems, setting string, keys []string) {
	p.Check(len(keys) == 0 || c.Kubernetes.AuthType != kube.AuthNone,
		"%s is %q: must be empty while kubernetes::auth_type is none", setting, keys)
	for i, key := range keys {
		p.Check(len(validation.IsQualifiedName(key)) == 0, "%s[%d] is %q: must be the key of a label", setting, i, key)
	}
}

// shared returns the settings that the sections share with gpu_k8s.
func (c *Config) shared() *section.Shared {
	return &section.Shared{Kubernetes: c.Kubernetes, Storage: c.Storage, Metrics: c.Metrics}
}

// emitted returns the metrics that this processor itself emits, including those that it repeats as
// container series. It excludes the metrics of the sections.
func emitted() []*signal.Metric {
	return slices.DeleteFunc(signal.All(), func(m *signal.Metric) bool {
		sampled := m.Stage == signal.StageSample && m != signal.GPUExporterUp && m != signal.GPUSignalAvailable
		return !sampled && m != signal.GPUSharingClients && !slices.Contains(accelerator, m)
	})
}

// accelerator lists the metrics that cAdvisor used to export.
var accelerator = []*signal.Metric{
	signal.ContainerAcceleratorMemoryTotal, signal.ContainerAcceleratorMemoryUsed, signal.ContainerAcceleratorDutyCycle,
}

// outsideKubernetes reports whether neither the kubelet nor claims are read. In this case, only
// processes show whether a device is in use.
func (c *Config) outsideKubernetes() bool {
	return !c.Sources.PodResources.Enabled && !c.Sources.DRA.Enabled
}

// grace returns how long a device without holders counts as free after the kubelet's last answer.
// The time covers a few failed calls or a kubelet restart.
func (c *Config) grace() time.Duration {
	return max(3*c.Sources.PodResources.Interval, history)
}
