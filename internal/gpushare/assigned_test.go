package gpushare

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func podWith(annotations map[string]string, containers ...corev1.Container) *corev1.Pod {
	p := &corev1.Pod{Spec: corev1.PodSpec{Containers: containers}}
	p.Annotations = annotations
	return p
}

func asking(name, resourceName string) corev1.Container {
	c := corev1.Container{Name: name}
	if resourceName != "" {
		c.Resources.Limits = corev1.ResourceList{corev1.ResourceName(resourceName): resource.MustParse("1")}
	}
	return c
}

func TestDevicesThatASchedulersAnnotationAssigns(t *testing.T) {
	const koordinator, hami = "scheduling.koordinator.sh/device-allocated", "hami.io/vgpu-devices-allocated"
	const volcano = "volcano.sh/vgpu-ids-new"
	type device struct {
		uuid, container string
		whole           bool
	}
	for name, tt := range map[string]struct {
		pod       *corev1.Pod
		want      []device
		annotated bool
		unread    bool
	}{
		"no annotation":      {pod: podWith(nil, asking("main", "nvidia.com/gpu"))},
		"a request of KAI":   {pod: podWith(map[string]string{"gpu-fraction": "0.5"}, asking("main", ""))},
		"HAMi's request":     {pod: podWith(map[string]string{"hami.io/vgpu-devices-to-allocate": "GPU-1,NVIDIA,1024,0:;"}, asking("main", "nvidia.com/gpu"))},
		"only other devices": {pod: podWith(map[string]string{koordinator: `{"rdma":[{"minor":0}]}`}, asking("main", "nvidia.com/gpu"))},
		"Koordinator, one container requests a GPU": {
			pod:       podWith(map[string]string{koordinator: `{"gpu":[{"minor":0,"id":"GPU-1","resources":{"koordinator.sh/gpu-core":"50","koordinator.sh/gpu-memory-ratio":"50"}}]}`}, asking("side", ""), asking("main", "koordinator.sh/gpu-core")),
			annotated: true, want: []device{{"GPU-1", "main", false}},
		},
		"Koordinator, two containers request a GPU": {
			pod:       podWith(map[string]string{koordinator: `{"gpu":[{"minor":0,"id":"GPU-1","resources":{"koordinator.sh/gpu-core":"100","koordinator.sh/gpu-memory-ratio":"100"}}]}`}, asking("a", "nvidia.com/gpu"), asking("b", "nvidia.com/gpu")),
			annotated: true, want: []device{{"GPU-1", "", true}},
		},
		"HAMi": {
			pod:       podWith(map[string]string{hami: "GPU-1,NVIDIA,1024,0:;GPU-2,NVIDIA,2048,100:;"}, asking("a", "nvidia.com/gpu"), asking("b", "nvidia.com/gpu")),
			annotated: true, want: []device{{"GPU-1", "a", false}, {"GPU-2", "b", true}},
		},
		"HAMi's AMD devices, whose cores are compute units": {
			pod:       podWith(map[string]string{"hami.io/amd-devices-allocated": "0x1a2b,AMDGPU,49152,304:;"}, asking("a", "amd.com/gpu")),
			annotated: true, want: []device{{"0x1a2b", "a", false}},
		},
		"HAMi's AMD devices, several in one container": {
			pod:       podWith(map[string]string{"hami.io/amd-devices-allocated": "u1,AMDGPU,1024,76:u2,AMDGPU,1024,76:;"}, asking("a", "amd.com/gpu"), asking("b", "")),
			annotated: true, want: []device{{"u1", "a", false}, {"u2", "a", false}},
		},
		"HAMi, slots that do not match the containers": {
			pod:       podWith(map[string]string{hami: "GPU-1,NVIDIA,1024,0:;"}, asking("a", "nvidia.com/gpu"), asking("b", "nvidia.com/gpu")),
			annotated: true, want: []device{{"GPU-1", "", false}},
		},
		"an invalid entry": {
			pod:       podWith(map[string]string{hami: "GPU-1,NVIDIA,1024,0:GPU-2:;"}, asking("a", "nvidia.com/gpu")),
			annotated: true, unread: true, want: []device{{"GPU-1", "a", false}},
		},
		"Volcano, only requesting containers have a slot": {
			pod: podWith(map[string]string{volcano: "GPU-1,NVIDIA,1126,0:GPU-2,NVIDIA,1126,100:;GPU-3,NVIDIA,0,0:"},
				asking("side", "rdma/hca"), asking("a", "volcano.sh/vgpu-number"), asking("b", "volcano.sh/vgpu-memory")),
			annotated: true, want: []device{{"GPU-1", "a", false}, {"GPU-2", "a", true}, {"GPU-3", "b", false}},
		},
		"Volcano, slots that do not match the containers": {
			pod:       podWith(map[string]string{volcano: "GPU-1,NVIDIA,1126,0:"}, asking("a", "volcano.sh/vgpu-number"), asking("b", "volcano.sh/vgpu-number")),
			annotated: true, want: []device{{"GPU-1", "", false}},
		},
		"Volcano, an instance of a template": {
			pod:       podWith(map[string]string{volcano: "GPU-1[group2-3],NVIDIA,1126,0:"}, asking("a", "volcano.sh/vgpu-number")),
			annotated: true, want: []device{{"GPU-1", "a", false}},
		},
		"Volcano, an invalid entry": {
			pod: podWith(map[string]string{volcano: "GPU-1:"}, asking("a", "volcano.sh/vgpu-number")), annotated: true, unread: true,
		},
		"HAMi and Volcano": {
			pod:       podWith(map[string]string{volcano: "GPU-1,NVIDIA,1,0:", hami: "GPU-2,NVIDIA,1,0:;"}, asking("a", "nvidia.com/gpu")),
			annotated: true, want: []device{{"GPU-2", "a", false}},
		},
		"an invalid annotation": {pod: podWith(map[string]string{koordinator: "{"}, asking("a", "")), annotated: true, unread: true},
	} {
		t.Run(name, func(t *testing.T) {
			given, annotated, err := Assigned(tt.pod)
			var got []device
			for i := range given {
				got = append(got, device{given[i].UUID, given[i].Container, given[i].IsEntireDevice()})
			}
			assert.Equal(t, tt.want, got)
			assert.Equal(t, tt.annotated, annotated)
			assert.Equal(t, tt.unread, err != nil, "%v", err)
		})
	}
}

// The scheduler's settings determine the memory unit in Volcano's annotation, so the number in the
// annotation does not specify an amount of memory.
func TestVolcanosAnnotationIsNotAMemoryBudget(t *testing.T) {
	pod := podWith(map[string]string{"volcano.sh/vgpu-ids-new": "GPU-1,NVIDIA,1126,50:"}, asking("a", "volcano.sh/vgpu-number"))
	got, err := PodAllocations(pod)
	require.NoError(t, err)
	assert.Equal(t, []Allocation{{Family: HAMi, Container: "a", UUID: "GPU-1", Minor: -1, Core: 0.5}}, got)
	budgets, err := Budgets(pod, BudgetOptions{})
	require.NoError(t, err)
	assert.Empty(t, budgets)
}

func TestGroupsThatShareAReservedDevice(t *testing.T) {
	p := podWith(map[string]string{"gpu-fraction-container-name": "b", "run.ai/reserve_for_gpu_index": "GPU-1"}, asking("a", ""), asking("b", ""))
	p.Labels = map[string]string{"runai-gpu-group": "g1", "runai-gpu-group/g2": "g2", "runai-gpu-group/g1": "g1", "runai-gpu-groups": "no"}
	assert.Equal(t, []string{"g1", "g2"}, Groups(p))
	assert.Equal(t, "b", GroupContainer(p))
	assert.Equal(t, "GPU-1", ReservedDevice(p))
	p.Annotations["gpu-fraction-container-name"] = "gone"
	assert.Empty(t, GroupContainer(p))
	delete(p.Annotations, "gpu-fraction-container-name")
	assert.Equal(t, "a", GroupContainer(p))
	assert.Empty(t, Groups(podWith(nil)))
	assert.Empty(t, GroupContainer(podWith(nil)))
}

func TestAReservationPodIsIdentifiedByItsLabelsInAnyNamespace(t *testing.T) {
	pod := func(resource string, labels map[string]string) *corev1.Pod {
		p := podWith(nil, asking("resource-reservation", resource))
		p.Labels = labels
		return p
	}
	assert.True(t, IsReservation(pod("nvidia.com/gpu", map[string]string{"app": "kai-resource-reservation", "runai-gpu-group": "g1"})))
	assert.True(t, IsReservation(pod("nvidia.com/gpu", map[string]string{"app": "runai-reservation", "runai-gpu-group": "g1"})))
	assert.False(t, IsReservation(pod("nvidia.com/gpu", map[string]string{"app": "train", "runai-gpu-group": "g1"})))
	assert.False(t, IsReservation(pod("nvidia.com/gpu", map[string]string{"app": "kai-resource-reservation"})), "a pod without a group")
	assert.False(t, IsReservation(pod("", map[string]string{"app": "kai-resource-reservation", "runai-gpu-group": "g1"})), "a pod that does not allocate a device")
}
