// Package section has what gpu_k8s shares with its sections power, budget and usage.
package section

import (
	"go.opentelemetry.io/collector/component"

	base "github.com/otelcol-gpu/otelcol-gpu/internal/component"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
)

// Shared are the settings of gpu_k8s that its sections use. A section does not read them from its own
// configuration.
type Shared struct {
	// NodeName restricts the pods that are read to those of a node. Empty: the pods of the whole cluster.
	NodeName string
	// Kubernetes says how the API server is reached.
	Kubernetes kube.Config
	// Storage is the storage extension of the state; nil for none.
	Storage *component.ID
	// Metrics switches single metrics by name.
	Metrics base.Metrics
}

// StorageID returns the id under which a section stores its state in a storage extension.
func StorageID(name string, gpuK8s component.ID) component.ID {
	return component.NewIDWithName(component.MustNewType("gpu_"+name), gpuK8s.Name())
}
