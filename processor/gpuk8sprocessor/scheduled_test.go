package gpuk8sprocessor

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/exporters"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/attribution"
)

// scheduledPod is a shorthand for the annotations and labels that schedulers set on a pod.
type scheduledPod struct {
	Assigned []string // Each entry has the format "container=id [share]". An entry without a container applies to the entire pod.
	Unread   bool     // Unread is true if part of the annotation cannot be read.
	Groups   []string // Groups are the groups whose pods share a device.
	Shares   string   // Shares is the name of the container that has the pod's shares.
	Reserved string   // Reserved is the ID of the device that a reservation pod reports.
	Reserves bool     // Reserves is true if the pod has the labels of a reservation pod.
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

// listedBy parses the device IDs that the kubelet lists for a container. Each ID has the format
// "[resource=]id".
func listedBy(ids []string) attribution.ContainerResources {
	var c kube.ContainerResources
	for _, text := range ids {
		name, id, named := strings.Cut(text, "=")
		if !named {
			name, id = "nvidia.com/gpu", text
		}
		c.Devices = append(c.Devices, kube.DeviceRef{Resource: name, ID: id})
	}
	kept := readContainers([]kube.ContainerResources{c}, createDefaultConfig().(*Config))
	if len(kept) == 0 {
		return attribution.ContainerResources{}
	}
	return kept[0]
}

// The golden test scripts use a shorthand for schedulers' annotations. The shorthand must produce
// the same result as a pod with the actual labels and annotations.
func TestTheShorthandOfScriptsEqualsRealAnnotations(t *testing.T) {
	for name, tt := range map[string]struct {
		labels, annotations map[string]string
		asks                string // requested by main
		want                scheduledPod
	}{
		"no annotations": {asks: "nvidia.com/gpu"},
		"HAMi, a share": {
			annotations: map[string]string{"hami.io/vgpu-devices-allocated": lengthen("GPU-2") + ",NVIDIA,1024,30:;"},
			asks:        "nvidia.com/gpu", want: scheduledPod{Assigned: []string{"main=GPU-2 share"}},
		},
		"HAMi, a whole GPU": {
			annotations: map[string]string{"hami.io/vgpu-devices-allocated": lengthen("GPU-2") + ",NVIDIA,1024,100:;"},
			asks:        "nvidia.com/gpu", want: scheduledPod{Assigned: []string{"main=GPU-2"}},
		},
		"HAMi, a partly unreadable annotation": {
			annotations: map[string]string{"hami.io/vgpu-devices-allocated": lengthen("GPU-2") + ",NVIDIA,1024,30:GPU-3:;"},
			asks:        "nvidia.com/gpu", want: scheduledPod{Assigned: []string{"main=GPU-2 share"}, Unread: true},
		},
		"Volcano": {
			annotations: map[string]string{"volcano.sh/vgpu-ids-new": lengthen("GPU-2") + ",NVIDIA,1024,30:"},
			asks:        "volcano.sh/vgpu-number", want: scheduledPod{Assigned: []string{"main=GPU-2 share"}},
		},
		"Koordinator, an allocation of the pod": {
			annotations: map[string]string{"scheduling.koordinator.sh/device-allocated": lengthen(`{"gpu":[{"minor":2,"id":"GPU-3","resources":{"koordinator.sh/gpu-core":"100"}}]}`)},
			want:        scheduledPod{Assigned: []string{"=GPU-3"}},
		},
		"KAI, a pod of a group": {
			labels: map[string]string{"runai-gpu-group": "g1"}, annotations: map[string]string{"gpu-fraction": "0.5"},
			want: scheduledPod{Groups: []string{"g1"}, Shares: "main"},
		},
		"KAI, a reservation pod": {
			labels:      map[string]string{"runai-gpu-group": "g1", "app": "kai-resource-reservation"},
			annotations: map[string]string{"run.ai/reserve_for_gpu_index": lengthen("GPU-1")}, asks: "nvidia.com/gpu",
			want: scheduledPod{Groups: []string{"g1"}, Shares: "main", Reserved: "GPU-1", Reserves: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}, {Name: "side"}}}}
			pod.Labels, pod.Annotations = tt.labels, tt.annotations
			if tt.asks != "" {
				pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceName(tt.asks): resource.MustParse("1")}
			}
			got := readPod(pod, nil, nil)
			for i := range tt.want.Assigned {
				tt.want.Assigned[i] = lengthen(tt.want.Assigned[i])
			}
			tt.want.Reserved = lengthen(tt.want.Reserved)
			var want attribution.Pod
			tt.want.fill(&want)
			assert.Equal(t, [...]any{want.Annotated, want.Unread, want.Assigned, want.Groups, want.GroupContainer, want.Reserved, want.Reservation},
				[...]any{got.Annotated, got.Unread, got.Assigned, got.Groups, got.GroupContainer, got.Reserved, got.Reservation})
		})
	}
}
