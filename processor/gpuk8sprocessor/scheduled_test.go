package gpuk8sprocessor

import (
	"strings"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/exporters"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/attribution"
)

// scheduledPod is what schedulers write on a pod of a script.
type scheduledPod struct {
	Assigned []string // "container=id [share]"; without a container to the pod
	Unread   bool     // the annotation, in part
	Groups   []string // that share a device
	Shares   string   // the container that has the shares
	Reserved string   // the id of the device that a reservation pod reports
	Reserves bool     // a reservation pod by its labels
}

func (s *scheduledPod) fill(p *attribution.Pod) {
	p.Annotated, p.Unread = s.Unread || s.Assigned != nil, s.Unread
	for _, text := range s.Assigned {
		id, share, _ := strings.Cut(text, " ")
		container, id, _ := strings.Cut(id, "=")
		d := attribution.Assigned{PluginID: exporters.PluginID(id), Container: container}
		d.Replica = share != ""
		p.Assigned = append(p.Assigned, d)
	}
	p.Groups, p.GroupContainer, p.Reserved = s.Groups, s.Shares, exporters.PluginID(s.Reserved)
	p.Reservation = s.Reserves
}

// listedBy returns what is kept of "[resource=]id" that the kubelet lists for a container.
func listedBy(ids []string) attribution.ContainerResources {
	var c kube.ContainerResources
	for _, text := range ids {
		resource, id, named := strings.Cut(text, "=")
		if !named {
			resource, id = "nvidia.com/gpu", text
		}
		c.Devices = append(c.Devices, kube.DeviceRef{Resource: resource, ID: id})
	}
	kept := readContainers([]kube.ContainerResources{c}, createDefaultConfig().(*Config))
	if len(kept) == 0 {
		return attribution.ContainerResources{}
	}
	return kept[0]
}
