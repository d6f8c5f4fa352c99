// Package section has the settings that gpu_k8s shares with its sections power, budget, and usage.
package section

import (
	"go.opentelemetry.io/collector/component"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
)

// Shared are the settings of gpu_k8s that its sections use. They are not in the sections' own
// configuration.
type Shared struct {
	// NodeName limits the pods that are read to one node. If it is empty, all pods of the cluster
	// are read.
	NodeName string
	// Kubernetes configures access to the API server.
	Kubernetes kube.Config
	// Storage is the storage extension for the state, or nil.
	Storage *component.ID
	// Metrics enables or disables single metrics by name.
	Metrics componenthelper.Metrics
}

// StorageID returns the component ID under which a section stores its state.
func StorageID(name string, gpuK8s component.ID) component.ID {
	return component.NewIDWithName(component.MustNewType("gpu_"+name), gpuK8s.Name())
}
