package declared

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// An environment variable limits an MPS client to a percentage of the device's threads. If the
// device is not shared through MPS, the environment variable is ignored. An invalid percentage is
// also ignored.
func TestTheShareOfAnMPSClientIsItsThreadPercentage(t *testing.T) {
	for _, tt := range []struct {
		env, strategy string
		want          float64
	}{
		{"30", signal.SharingMPS, 0.3},
		{"12.5", signal.SharingMPS, 0.125},
		{"100", signal.SharingMPS, 1},
		{"30", signal.SharingTimeSlicing, 0},
		{"30", signal.SharingNone, 0},
		{"30", "", 0},
		{"0", signal.SharingMPS, 0},
		{"-5", signal.SharingMPS, 0},
		{"101", signal.SharingMPS, 0},
		{"NaN", signal.SharingMPS, 0},
		{"half", signal.SharingMPS, 0},
		{"", signal.SharingMPS, 0},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Env: []corev1.EnvVar{
			{Name: "OTHER", Value: "90"}, {Name: "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", Value: tt.env},
		}}}}}
		c := readCompute(pod)
		d := (&gpudata.Frame{}).Device("GPU-1")
		u := d.User(gpudata.Holder{Namespace: "ns", Pod: "p", Container: "a"})
		u.Holds, u.Strategy = true, tt.strategy
		assert.Equal(t, tt.want, c.of(d, u), tt)
	}
}

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
		"HAMi's allocation has priority over requests": {
			map[string]string{"hami.io/vgpu-devices-allocated": "GPU-1,NVIDIA,1000,30:;GPU-2,NVIDIA,1000,40:;"},
			[]corev1.Container{requests("a", "25"), requests("b", "50")},
			map[string]float64{"a": 0.3, "b": 0.5},
		},
		"Koordinator's allocation of a pod is divided among its containers on the board": {
			map[string]string{"scheduling.koordinator.sh/device-allocated": `{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"50"}}]}`},
			[]corev1.Container{requests("a", ""), requests("b", "")},
			map[string]float64{"a": 0.25, "b": 0.25},
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: tt.annotations}, Spec: corev1.PodSpec{Containers: tt.containers}}
			c := readCompute(pod)
			d := (&gpudata.Frame{}).Device("GPU-1")
			d.Name = "nvidia0"
			for container := range tt.want {
				d.User(gpudata.Holder{Namespace: "ns", Pod: "p", Container: container}).Holds = true
			}
			got := map[string]float64{}
			for _, u := range d.Users {
				got[u.Holder.Container] = c.of(d, u)
			}
			assert.Equal(t, tt.want, got)
		})
	}
}
