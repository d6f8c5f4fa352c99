package budgetstage

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/collector/confmap"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/budget"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/section"
)

// maxProcess is the maximum value of tolerance::process, in bytes, and is larger than any CUDA
// context.
const maxProcess = 16 << 30

// Config configures the budget section of gpu_k8s.
type Config struct {
	// Sources configures the sources of budgets.
	Sources SourcesConfig `mapstructure:"sources"`
	// MaxAge is the maximum age of a process list and of the values of a container exporter. If a
	// source's interval is shorter than half of MaxAge, the maximum age is twice the interval.
	MaxAge time.Duration `mapstructure:"max_age"`
	// Tolerance is the maximum allowed difference between the sum of the containers' usage and the
	// device's usage.
	Tolerance budget.Tolerance `mapstructure:"tolerance"`
	// MaxSeries is the maximum number of stored values from container exporters, and the maximum
	// number of devices for which values are stored.
	MaxSeries int `mapstructure:"max_series"`
	// Shared contains the settings that gpu_k8s provides.
	*section.Shared `mapstructure:"-"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// SourcesConfig configures the sources of budgets. Sources that need no configuration are always
// used.
type SourcesConfig struct {
	// DRA enables reading consumedCapacity from allocated claims. DRA requires permission to list
	// and watch ResourceClaims.
	DRA SwitchConfig `mapstructure:"dra"`
	// ExtendedResources are the extended resources whose quantity is an amount of GPU memory.
	ExtendedResources []ExtendedResourceConfig `mapstructure:"extended_resources"`
	// Annotation is a pod annotation that declares a budget.
	Annotation AnnotationConfig `mapstructure:"annotation"`
	// MPS is the memory that each client of an MPS daemon may use.
	MPS budget.MPSBudget `mapstructure:"mps"`

	_ struct{}
}

// SwitchConfig configures a source that can only be enabled or disabled.
type SwitchConfig struct {
	Enabled bool `mapstructure:"enabled"`

	_ struct{}
}

// ExtendedResourceConfig describes an extended resource whose quantity is an amount of GPU memory.
type ExtendedResourceConfig struct {
	// Name is the resource's name, such as example.com/gpumem.
	Name string `mapstructure:"name"`
	// Unit is the unit of the quantity, either MiB or bytes.
	Unit string `mapstructure:"unit"`

	_ struct{}
}

// AnnotationConfig describes a pod annotation that declares a budget. The annotation's value is a
// quantity in bytes.
type AnnotationConfig struct {
	// Key is the key of the annotation that declares the pod's budget. If the suffix .<container>
	// is added to the key, the annotation declares the budget of one container. If Key is empty, no
	// annotation is read.
	Key string `mapstructure:"key"`

	_ struct{}
}

// units maps each allowed value of Unit to a number of bytes.
var units = map[string]int64{"bytes": 1, "MiB": 1 << 20}

// NewDefaultConfig returns the default settings of the section.
func NewDefaultConfig() Config {
	return Config{
		MaxAge:    time.Minute,
		Tolerance: budget.Tolerance{Process: 512 << 20, Ratio: 0.05},
		MaxSeries: 50_000,
	}
}

// Emitted lists the metrics that this section emits.
var Emitted = []*signal.Metric{
	signal.K8sContainerGPUMemoryUsage, signal.K8sContainerGPUMemoryBudget, signal.K8sContainerGPUMemoryBudgetUtilization,
	signal.GPUMemoryBudgetDeclared, signal.GPUMemoryHeadroom,
	signal.GPUMemoryUsageUnbudgeted, signal.GPUMemoryAttributionState,
}

// Budgets returns the configured options for reading budgets from pods.
func (c *Config) Budgets() gpushare.BudgetOptions {
	o := gpushare.BudgetOptions{Resources: map[string]int64{}, Annotation: c.Sources.Annotation.Key}
	for _, r := range c.Sources.ExtendedResources {
		o.Resources[r.Name] = units[r.Unit]
	}
	return o
}

// Unmarshal implements confmap.Unmarshaler with [componenthelper.Unmarshal].
func (c *Config) Unmarshal(conf *confmap.Conf) error { return componenthelper.Unmarshal(conf, c) }

// Validate returns an error that describes every invalid field.
func (c *Config) Validate() error {
	var p componenthelper.Problems
	names := map[string]bool{}
	for i, r := range c.Sources.ExtendedResources {
		p.Check(strings.Contains(r.Name, "/") && len(validation.IsQualifiedName(r.Name)) == 0,
			"sources::extended_resources[%d]::name is %q: must be <domain>/<name>", i, r.Name)
		p.Check(!gpushare.IsGPU(r.Name),
			"sources::extended_resources[%d]::name is %q: must be one that counts memory and that no other source reads", i, r.Name)
		_, ok := units[r.Unit]
		p.Check(ok, "sources::extended_resources[%d]::unit is %q: must be MiB or bytes", i, r.Unit)
		p.Check(!names[r.Name], "sources::extended_resources[%d]::name is %q: must be listed once", i, r.Name)
		names[r.Name] = true
	}
	key := c.Sources.Annotation.Key
	if key != "" {
		reasons, kai := validation.IsQualifiedName(key), gpushare.KAIAnnotations()
		p.Check(len(reasons) == 0, "sources::annotation::key is %q: must be a qualified annotation key, as in example.com/gpu-memory: %s",
			key, strings.Join(reasons, "; "))
		p.Check(len(reasons) > 0 || kube.PodAnnotation(key) && !slices.Contains(kai, key),
			"sources::annotation::key is %q: must have gpu in it and not be one of KAI's %s", key, strings.Join(kai, ", "))
	}
	m := c.Sources.MPS
	p.Check(m.Limit >= 0, "sources::mps::limit is %d: must be 0 or a number of bytes", m.Limit)
	componenthelper.Between(&p, "sources::mps::replicas", m.Replicas, 0, 1000)
	p.Check(m.Limit == 0 || m.Replicas == 0, "sources::mps::limit is %d and sources::mps::replicas is %d: must be one of them", m.Limit, m.Replicas)
	componenthelper.Between(&p, "max_age", c.MaxAge, time.Second, time.Hour)
	p.Check(c.Tolerance.Process >= 0 && c.Tolerance.Process <= maxProcess,
		"tolerance::process is %d: must be between 0 and %d bytes", c.Tolerance.Process, int64(maxProcess))
	componenthelper.Between(&p, "tolerance::ratio", c.Tolerance.Ratio, 0, 0.5)
	p.MaxSeries(c.MaxSeries)
	return p.Err()
}

// CheckKubernetes returns one error for each configured source that needs the API server if
// authType is none. For other values of authType, CheckKubernetes returns nil.
func (c *Config) CheckKubernetes(authType string) (errs []error) {
	if authType != kube.AuthNone {
		return nil
	}
	for _, source := range []struct {
		name   string
		wanted bool
	}{
		{"annotation", c.Sources.Annotation.Key != ""},
		{"dra", c.Sources.DRA.Enabled},
		{"extended_resources", len(c.Sources.ExtendedResources) > 0},
	} {
		if source.wanted {
			errs = append(errs, fmt.Errorf("kubernetes::auth_type is %q: must be %s or %s for budget::sources::%s",
				kube.AuthNone, kube.AuthServiceAccount, kube.AuthKubeConfig, source.name))
		}
	}
	return errs
}
