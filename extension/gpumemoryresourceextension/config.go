package gpumemoryresourceextension

import (
	"strings"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/confmap"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
)

// Valid values of Config.Unit.
const (
	unitMiB   = "MiB"
	unitBytes = "bytes"
)

// nativeDomain is the domain of Kubernetes itself, which must not be used in the names of extended
// resources.
const nativeDomain = "kubernetes.io"

// sharedResource is the resource in Koordinator's GPU Share API whose capacity is the number of
// pods that can share a node's GPUs. The name cannot be configured, because Koordinator's scheduler
// reads only this name.
const sharedResource = "koordinator.sh/gpu.shared"

// maxSharedPerGPU is the highest value that SharedConfig.PerGPU may have.
const maxSharedPerGPU = 10_000

// quotaPrefix is the prefix of extended resource names in a ResourceQuota. Kubernetes does not
// allow this prefix elsewhere.
const quotaPrefix = "requests."

// Config configures the gpu_memory_resource extension.
type Config struct {
	// Resource is the name of the extended resource, including a domain. The name may be empty if
	// Shared is set.
	Resource string `mapstructure:"resource"`
	// Unit is the unit of the resource: MiB or bytes.
	Unit string `mapstructure:"unit"`
	// Amount is the memory that each node advertises. If Amount is 0, AmountPerGPU is used.
	Amount kube.Bytes `mapstructure:"amount"`
	// AmountPerGPU is the memory that a node advertises for each of its GPUs. The number of GPUs is
	// read from a node label. If Amount and AmountPerGPU are both 0, the memory per GPU is read
	// from a node label, and Reserve is subtracted.
	AmountPerGPU kube.Bytes `mapstructure:"amount_per_gpu"`
	// Reserve is the memory per GPU that is not advertised because the driver and CUDA contexts
	// need it. Reserve is not subtracted from Amount or AmountPerGPU.
	Reserve kube.Bytes `mapstructure:"reserve"`
	// Shared configures the koordinator.sh/gpu.shared resource. If Shared is absent, this resource
	// is not advertised.
	Shared configoptional.Optional[SharedConfig] `mapstructure:"shared"`
	// NodeName is the name of the only node that is patched. If NodeName is empty, all GPU nodes
	// are patched.
	NodeName string `mapstructure:"node_name"`
	// If Remove is true, the resources are removed from the nodes instead of being advertised.
	Remove bool `mapstructure:"remove"`
	// Kubernetes contains the settings for access to the API server.
	Kubernetes kube.Config `mapstructure:"kubernetes"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// SharedConfig configures koordinator.sh/gpu.shared.
type SharedConfig struct {
	// PerGPU is the number of pods that can share a GPU.
	PerGPU int `mapstructure:"per_gpu"`

	// prevent unkeyed literal initialization
	_ struct{}
}

func createDefaultConfig() component.Config {
	return &Config{
		Unit: unitMiB, Reserve: 1 << 30, Kubernetes: kube.NewDefaultConfig(),
		Shared: configoptional.Default(SharedConfig{PerGPU: 100}), // the default of the GPU Share API
	}
}

// Unmarshal implements confmap.Unmarshaler with [componenthelper.Unmarshal].
func (cfg *Config) Unmarshal(conf *confmap.Conf) error { return componenthelper.Unmarshal(conf, cfg) }

// Validate implements confmap.Validator. Error messages contain the field, its value, and the
// allowed values.
func (cfg *Config) Validate() error {
	var p componenthelper.Problems
	domain, _, qualified := strings.Cut(cfg.Resource, "/")
	native := domain == nativeDomain || strings.HasSuffix(domain, "."+nativeDomain)
	// The extension must not overwrite resources that belong to other systems. Names that start
	// with quotaPrefix are reserved for ResourceQuotas.
	own := !native && !gpushare.IsGPU(cfg.Resource) && !strings.HasPrefix(domain, quotaPrefix)
	shared := cfg.Shared.Get()
	p.Check(cfg.Resource == "" && shared != nil || qualified && own && len(validation.IsQualifiedName(cfg.Resource)) == 0,
		"resource is %q: must be a name with your own domain, as in example.com/gpumem", cfg.Resource)
	p.Check(cfg.Unit == unitMiB || cfg.Unit == unitBytes, "unit is %q: must be %s or %s", cfg.Unit, unitMiB, unitBytes)
	p.Check(cfg.Amount == 0 || cfg.Amount.Plausible(),
		"amount is %s: must be 0, or 1Mi to 1Pi, as in 14000Mi; 0 uses the node's labels", cfg.Amount)
	p.Check(cfg.AmountPerGPU == 0 || cfg.AmountPerGPU.Plausible(),
		"amount_per_gpu is %s: must be 0, or 1Mi to 1Pi, as in 14000Mi", cfg.AmountPerGPU)
	p.Check(cfg.Amount == 0 || cfg.AmountPerGPU == 0,
		"amount is %s and amount_per_gpu is %s: one of them must be 0", cfg.Amount, cfg.AmountPerGPU)
	if shared != nil {
		componenthelper.Between(&p, "shared::per_gpu", shared.PerGPU, 1, maxSharedPerGPU)
	}
	p.Check(cfg.Reserve == 0 || cfg.Reserve.Plausible(), "reserve is %s: must be 0, or 1Mi to 1Pi, as in 1Gi", cfg.Reserve)
	p.Add(componenthelper.CheckNodeName(cfg.NodeName))
	p.Check(cfg.Kubernetes.AuthType != kube.AuthNone,
		"kubernetes::auth_type is %q: must be %s or %s, because the nodes are patched in the API server",
		kube.AuthNone, kube.AuthServiceAccount, kube.AuthKubeConfig)
	return p.Err()
}
