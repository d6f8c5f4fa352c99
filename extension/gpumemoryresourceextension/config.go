package gpumemoryresourceextension

import (
	"strings"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/confmap"
	"k8s.io/apimachinery/pkg/util/validation"

	base "github.com/otelcol-gpu/otelcol-gpu/internal/component"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
)

// Values of unit.
const (
	unitMiB   = "MiB"
	unitBytes = "bytes"
)

// nativeDomain is Kubernetes' own, which extended resources must not have.
const nativeDomain = "kubernetes.io"

// sharedResource is the resource of Koordinator's GPU Share API that counts the pods which can share
// a node's GPUs. The scheduler that divides devices is its only reader, so it has one name.
const sharedResource = "koordinator.sh/gpu.shared"

// maxSharedPerGPU is the most pods on one GPU that can be meant.
const maxSharedPerGPU = 10_000

// quotaPrefix begins names of extended resources in a ResourceQuota, and nowhere else.
const quotaPrefix = "requests."

// Config configures the gpu_memory_resource extension.
type Config struct {
	// Resource is the name of the extended resource, with a domain. It may be empty where Shared is set.
	Resource string `mapstructure:"resource"`
	// Unit is what one of the resource is: MiB or bytes.
	Unit string `mapstructure:"unit"`
	// Amount is the memory that each node advertises. If it is 0, AmountPerGPU counts.
	Amount kube.Bytes `mapstructure:"amount"`
	// AmountPerGPU is the memory that a node advertises for each of its GPUs. A label of the node has
	// their number. If Amount and AmountPerGPU are 0, a label has the memory of each GPU, from which
	// the reserve is subtracted.
	AmountPerGPU kube.Bytes `mapstructure:"amount_per_gpu"`
	// Reserve is the memory of each GPU that is not advertised: that of the driver and of CUDA
	// contexts. It is not subtracted from Amount and AmountPerGPU.
	Reserve kube.Bytes `mapstructure:"reserve"`
	// Shared also advertises koordinator.sh/gpu.shared.
	Shared configoptional.Optional[SharedConfig] `mapstructure:"shared"`
	// NodeName restricts the extension to one node; empty: all GPU nodes.
	NodeName string `mapstructure:"node_name"`
	// Remove takes the resources away instead.
	Remove bool `mapstructure:"remove"`
	// Kubernetes says how the API server is reached.
	Kubernetes kube.Config `mapstructure:"kubernetes"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// SharedConfig configures koordinator.sh/gpu.shared.
type SharedConfig struct {
	// PerGPU is the number of pods that can share one GPU.
	PerGPU int `mapstructure:"per_gpu"`

	// prevent unkeyed literal initialization
	_ struct{}
}

func createDefaultConfig() component.Config {
	return &Config{
		Unit: unitMiB, Reserve: 1 << 30, Kubernetes: kube.NewDefaultConfig(),
		Shared: configoptional.Default(SharedConfig{PerGPU: 100}), // as the GPU Share API says
	}
}

// Unmarshal implements confmap.Unmarshaler, by [base.Unmarshal].
func (cfg *Config) Unmarshal(conf *confmap.Conf) error { return base.Unmarshal(conf, cfg) }

// Validate implements confmap.Validator. Each error names the field, its value
// and what is allowed.
func (cfg *Config) Validate() error {
	var p base.Problems
	domain, _, qualified := strings.Cut(cfg.Resource, "/")
	native := domain == nativeDomain || strings.HasSuffix(domain, "."+nativeDomain)
	// What another system advertises is not to be overwritten, and Kubernetes keeps
	// the prefix of quotas for itself.
	own := !native && !gpushare.IsGPU(cfg.Resource) && !strings.HasPrefix(domain, quotaPrefix)
	shared := cfg.Shared.Get()
	p.Check(cfg.Resource == "" && shared != nil || qualified && own && len(validation.IsQualifiedName(cfg.Resource)) == 0,
		"resource is %q: must be a name with a domain of your own, as in example.com/gpumem", cfg.Resource)
	p.Check(cfg.Unit == unitMiB || cfg.Unit == unitBytes, "unit is %q: must be %s or %s", cfg.Unit, unitMiB, unitBytes)
	p.Check(cfg.Amount == 0 || cfg.Amount.Plausible(),
		"amount is %s: must be 0, or 1Mi to 1Pi, as in 14000Mi; 0 takes what the node's labels say", cfg.Amount)
	p.Check(cfg.AmountPerGPU == 0 || cfg.AmountPerGPU.Plausible(),
		"amount_per_gpu is %s: must be 0, or 1Mi to 1Pi, as in 14000Mi", cfg.AmountPerGPU)
	p.Check(cfg.Amount == 0 || cfg.AmountPerGPU == 0,
		"amount is %s and amount_per_gpu is %s: one of them must be 0", cfg.Amount, cfg.AmountPerGPU)
	if shared != nil {
		base.Between(&p, "shared::per_gpu", shared.PerGPU, 1, maxSharedPerGPU)
	}
	p.Check(cfg.Reserve == 0 || cfg.Reserve.Plausible(), "reserve is %s: must be 0, or 1Mi to 1Pi, as in 1Gi", cfg.Reserve)
	p.Add(base.CheckNodeName(cfg.NodeName))
	p.Check(cfg.Kubernetes.AuthType != kube.AuthNone,
		"kubernetes::auth_type is %q: must be %s or %s, nodes are objects of the API server",
		kube.AuthNone, kube.AuthServiceAccount, kube.AuthKubeConfig)
	return p.Err()
}
