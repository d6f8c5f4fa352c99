package gpuclusterreceiver

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/exporters"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/gpuclusterreceiver/internal/demand"
)

// claimPrefix is the prefix of resource names in allocatedResourcesStatus that refer to a claim of
// the pod.
const claimPrefix = "claim:"

// convertHealth returns the health that the kubelet reports for the devices of a pod. The second
// result is the number of devices that were dropped because the ID or the resource name is too long
// for an attribute.
func convertHealth(p *corev1.Pod) (out []demand.Health, dropped int64) {
	for i := range p.Status.ContainerStatuses {
		c := &p.Status.ContainerStatuses[i]
		for _, status := range c.AllocatedResourcesStatus {
			resource := string(status.Name)
			claimRef, isClaim := strings.CutPrefix(resource, claimPrefix)
			claim := ""
			if isClaim {
				claimRef, _, _ = strings.Cut(claimRef, "/")
				if claim = kube.ClaimNames(p)[claimRef]; claim == "" {
					claim = claimRef // the scheduler created this claim for an extended resource
				}
			}
			for _, r := range status.Resources {
				switch {
				case r.ResourceID == "":
					continue
				case len(r.ResourceID) > maxValue || len(resource) > maxValue:
					dropped++
					continue
				}
				h := demand.Health{
					Container: c.Name, Resource: resource, Claim: claim, ID: string(r.ResourceID), State: healthState(r.Health),
				}
				if !isClaim {
					h.Identity = pluginIdentity(h.ID)
				}
				out = append(out, h)
			}
		}
	}
	return out, dropped
}

func healthState(s corev1.ResourceHealthStatus) string {
	if s == corev1.ResourceHealthStatusHealthy || s == corev1.ResourceHealthStatusUnhealthy {
		return strings.ToLower(string(s))
	}
	return "unknown"
}

// pluginIdentity converts a device ID from a device plugin to the attributes that identify the
// device in metrics.
func pluginIdentity(id string) []demand.Attribute {
	d := exporters.PluginID(id)
	switch {
	case d.MIGUUID != "":
		return []demand.Attribute{{Key: signal.MIGUUID, Value: d.MIGUUID}}
	case d.UUID != "" && d.GPUInstance != "":
		return []demand.Attribute{{Key: signal.HardwareID, Value: exporters.InstanceID(d.UUID, d.GPUInstance)}, {Key: signal.HardwareParent, Value: d.UUID}}
	case d.UUID != "":
		return []demand.Attribute{{Key: signal.HardwareID, Value: d.UUID}}
	}
	return nil
}
