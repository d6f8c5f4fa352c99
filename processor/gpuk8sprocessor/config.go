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
	// about 60 series per GPU. Even if each job uses 16 GPUs, 1000 jobs stay below the default
	// series limit of gpu_window, which is 2,000,000.
	defaultMaxJobs = 1000
	// defaultMaxProcesses is enough for 10,000 devices with 19 processes each.
	defaultMaxProcesses = 200_000
	// waitForSources is the maximum time that start waits for the first responses from the sources.
	waitForSources = 10 * time.Second
	// history is how long previous holders are kept for samples that arrive late.
	history = 2 * time.Minute
)

// Config configures the gpu_k8s processor.
type Config struct {
	// NodeName is the name of the node whose kubelet and API objects the processor reads. NodeName
	// defaults to the value of the NODE_NAME environment variable. If neither NodeName nor
	// NODE_NAME is set, the processor treats all devices as devices on other nodes. To find the
	// holders of devices on other nodes, the processor uses only labels and processes and, for the
	// devices of this machine, job mapping files.
	NodeName string `mapstructure:"node_name"`
	// Sources configures the sources from which the processor reads the holders of devices.
	Sources SourcesConfig `mapstructure:"sources"`
	// ResourceNames are the device plugin resources that represent GPUs. A trailing * matches any
	// suffix. A device ID that has the format of a GPU ID is always used, regardless of the
	// resource name.
	ResourceNames gpushare.Names `mapstructure:"resource_names"`
	// OtherResourceNames are additional device plugin resources that do not represent GPUs. Common
	// non-GPU resources are predefined. The processor ignores the device IDs of resources in
	// OtherResourceNames, except device IDs that have the format of a GPU ID.
	OtherResourceNames gpushare.Names `mapstructure:"other_resource_names"`
	// Kubernetes configures access to the API server. The processor reads pods, ResourceSlices, and
	// the node from the API server. If Claims or budget::sources::dra is set, the processor also
	// reads ResourceClaims. If Jobs is set, the processor also reads Jobs.
	Kubernetes kube.Config `mapstructure:"kubernetes"`
	// Claims enables reading ResourceClaims, which requires an additional permission.
	// ResourceClaims provide the UID, class, and request of each claim, and the holders that the
	// kubelet does not report.
	Claims bool `mapstructure:"claims"`
	// Jobs enables reading Jobs, which requires an additional permission. A Job identifies the
	// object that created it, such as a CronJob.
	Jobs bool `mapstructure:"jobs"`
	// MaxJobs is the maximum total number of batch jobs on all nodes for which the processor emits
	// series. If a job beyond the limit holds a device, the device's holders are unknown.
	MaxJobs int `mapstructure:"max_jobs"`
	// MaxProcesses is the maximum total number of processes in the stored process lists of all
	// devices on all nodes, plus the number of these devices. The power, budget, and usage sections
	// read the process lists. A process list beyond the limit is counted and not stored, so the
	// list applies only to samples with the same timestamp.
	MaxProcesses int `mapstructure:"max_processes"`
	// NodeLabels are the keys of the node labels that are added to the node's Resource.
	NodeLabels []string `mapstructure:"node_labels"`
	// PodLabels are the keys of the pod labels that are added to the Resources of holders.
	PodLabels []string `mapstructure:"pod_labels"`
	// Metrics enables or disables metrics by name: the container series of each device metric,
	// gpu.device.holder, gpu.sharing.clients, container.accelerator.*, and the metrics of the
	// sections. All metrics except container.accelerator.* are enabled by default.
	Metrics componenthelper.Metrics `mapstructure:"metrics"`
	// Power configures the section that attributes the power of boards to their holders. The power
	// section is disabled if Power is not set.
	Power configoptional.Optional[powerstage.Config] `mapstructure:"power"`
	// Budget configures the section that compares declared GPU memory with used GPU memory. The
	// budget section is disabled if Budget is not set.
	Budget configoptional.Optional[budgetstage.Config] `mapstructure:"budget"`
	// Usage configures the section that counts allocated, active, idle, and unallocated GPU time.
	// The usage section is disabled if Usage is not set.
	Usage configoptional.Optional[usagestage.Config] `mapstructure:"usage"`
	// Storage is the ID of the storage extension in which the power and usage sections keep their
	// state across restarts.
	Storage *component.ID `mapstructure:"storage"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// SourcesConfig configures the sources from which the processor reads the holders of devices. The
// processor also uses the exporter's labels and the processes on each device as sources. Labels and
// processes are always used and need no configuration.
type SourcesConfig struct {
	// PodResources configures access to the kubelet's PodResources service.
	PodResources kube.PodResourcesConfig `mapstructure:"pod_resources"`
	// DRA configures whether the processor reads dynamic resource allocation (DRA) objects from the
	// API server, and for which drivers.
	DRA DRAConfig `mapstructure:"dra"`
	// JobMappingDir is the directory that is passed to dcgm-exporter in --hpc-job-mapping-dir. The
	// directory contains job mapping files, which list the jobs that hold this machine's GPUs. For
	// each device, the job mapping file is used only if no label identifies a holder.
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

// Validate returns an error that describes every invalid field. Validate does not check the fields
// of kubernetes, sources::pod_resources, power, budget, and usage, because these have their own
// Validate methods.
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

// emitted returns the metrics that the processor emits without its sections, including the metrics
// that are repeated for containers.
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

// outsideKubernetes reports whether the processor uses neither the kubelet nor DRA as a source. If
// neither source is used, only a device's process list can show that nobody holds the device.
func (c *Config) outsideKubernetes() bool {
	return !c.Sources.PodResources.Enabled && !c.Sources.DRA.Enabled
}

// grace returns how long a device without holders counts as free after the kubelet's last response.
// The grace period is long enough for a few failed calls or a kubelet restart.
func (c *Config) grace() time.Duration {
	return max(3*c.Sources.PodResources.Interval, history)
}
