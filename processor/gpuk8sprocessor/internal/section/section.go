// Package section contains the settings that gpu_k8s shares with its power, budget, and usage
// sections.
package section

import (
	"go.opentelemetry.io/collector/component"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
)

// Shared contains the settings of gpu_k8s that the sections also use. The settings in Shared are
// not part of the sections' own configuration.
type Shared struct {
	// Kubernetes configures access to the API server.
	Kubernetes kube.Config
	// Storage is the ID of the storage extension for the state, or nil if no storage is configured.
	Storage *component.ID
	// Metrics enables or disables individual metrics by name.
	Metrics componenthelper.Metrics
}

// StorageID returns the component ID under which a section stores its state.
func StorageID(name string, gpuK8s component.ID) component.ID {
	return component.NewIDWithName(component.MustNewType("gpu_"+name), gpuK8s.Name())
}
