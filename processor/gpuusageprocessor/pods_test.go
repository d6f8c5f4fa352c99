package gpuusageprocessor

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

func TestComputeIsDeclared(t *testing.T) {
	requests := func(name, requests string) corev1.Container {
		c := corev1.Container{Name: name}
		if requests != "" {
			c.Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1"), "nvidia.com/gpucores": resource.MustParse(requests)}
		}
		return c
	}
	for name, tt := range map[string]struct {
		annotations map[string]string
		containers  []corev1.Container
		want        map[string]float64 // by container
	}{
		"nothing":      {nil, []corev1.Container{requests("a", ""), requests("b", "")}, map[string]float64{"a": 0, "b": 0}},
		"HAMi's cores": {nil, []corev1.Container{requests("a", "25"), requests("b", "50")}, map[string]float64{"a": 0.25, "b": 0.5}},
		"KAI's fraction": {
			map[string]string{"gpu-fraction": "0.4"}, []corev1.Container{requests("a", ""), requests("b", "")}, map[string]float64{"a": 0.4, "b": 0},
		},
		"HAMi's allocation, which goes before requests": {
			map[string]string{"hami.io/vgpu-devices-allocated": "GPU-1,NVIDIA,1000,30:;GPU-2,NVIDIA,1000,40:;"},
			[]corev1.Container{requests("a", "25"), requests("b", "50")},
			map[string]float64{"a": 0.3, "b": 0.5},
		},
		"Koordinator's allocation of a pod, which its containers on the board divide": {
			map[string]string{"scheduling.koordinator.sh/device-allocated": `{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"50"}}]}`},
			[]corev1.Container{requests("a", ""), requests("b", "")},
			map[string]float64{"a": 0.25, "b": 0.25},
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: tt.annotations}, Spec: corev1.PodSpec{Containers: tt.containers}}
			s, err := declarationsOf(pod)
			require.NoError(t, err)
			d := (&gpudata.Frame{}).Device("GPU-1")
			d.Name = "nvidia0"
			for container := range tt.want {
				d.User(gpudata.Holder{Namespace: "ns", Pod: "p", Container: container}).Holds = true
			}
			got := map[string]float64{}
			for _, u := range d.Users {
				got[u.Holder.Container] = s.on(d, u)
			}
			assert.Equal(t, tt.want, got)
		})
	}
}
