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

// These are the values of unit.
const (
	unitMiB   = "MiB"
	unitBytes = "bytes"
)

// nativeDomain is the domain of Kubernetes, which extended resources must not use.
const nativeDomain = "kubernetes.io"

// sharedResource is the resource of Koordinator's GPU Share API that counts how many pods can share
// a node's GPUs. The name is fixed, because only Koordinator's scheduler reads it.
const sharedResource = "koordinator.sh/gpu.shared"

// maxSharedPerGPU is the highest plausible number of pods per GPU.
const maxSharedPerGPU = 10_000

// quotaPrefix precedes extended resources in a ResourceQuota. It is not allowed elsewhere.
const quotaPrefix = "requests."

// Config configures the gpu_memory_resource extension.
type Config struct {
	// Resource is the name of the extended resource, with a domain. It may be empty if Shared is
	// set.
	Resource string `mapstructure:"resource"`
	// Unit is the unit of the resource: MiB or bytes.
	Unit string `mapstructure:"unit"`
	// Amount is the memory that each node advertises. If it is 0, AmountPerGPU is used.
	Amount kube.Bytes `mapstructure:"amount"`
	// AmountPerGPU is the memory that a node advertises for each of its GPUs. The number of GPUs is
	// read from a node label. If Amount and AmountPerGPU are both 0, the memory of each GPU is read
	// from a node label, and Reserve is subtracted from it.
	AmountPerGPU kube.Bytes `mapstructure:"amount_per_gpu"`
	// Reserve is the memory per GPU that is not advertised, for the driver and CUDA contexts. It is
	// not subtracted from Amount or AmountPerGPU.
	Reserve kube.Bytes `mapstructure:"reserve"`
	// Shared also advertises koordinator.sh/gpu.shared.
	Shared configoptional.Optional[SharedConfig] `mapstructure:"shared"`
	// NodeName limits the extension to one node. If it is empty, all GPU nodes are patched.
	NodeName string `mapstructure:"node_name"`
	// Remove removes the resources from the nodes instead of advertising them.
	Remove bool `mapstructure:"remove"`
	// Kubernetes configures access to the API server.
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
		Shared: configoptional.Default(SharedConfig{PerGPU: 100}), // the default in the GPU Share API
	}
}

// Unmarshal implements confmap.Unmarshaler with [componenthelper.Unmarshal].
func (cfg *Config) Unmarshal(conf *confmap.Conf) error { return componenthelper.Unmarshal(conf, cfg) }

// Validate implements confmap.Validator. Each error contains the field, its value, and the allowed
// values.
func (cfg *Config) Validate() error {
	var p componenthelper.Problems
	domain, _, qualified := strings.Cut(cfg.Resource, "/")
	native := domain == nativeDomain || strings.HasSuffix(domain, "."+nativeDomain)
	// The extension must not overwrite the resources of other systems. Kubernetes reserves the
	// prefix for quotas.
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
