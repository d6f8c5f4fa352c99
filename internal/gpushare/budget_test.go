package gpushare

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

func TestBudgets(t *testing.T) {
	const key = "example.com/gpu-memory"
	options := BudgetOptions{Resources: map[string]int64{"example.com/gpumem": 1 << 20, "example.com/gpubytes": 1}, Annotation: key}
	type c struct {
		name     string
		init     bool
		requests string
	}
	for name, c := range map[string]struct {
		containers  []c
		annotations map[string]string
		want        []Budget
		err         string
	}{
		"nothing declared": {containers: []c{{name: "a", requests: "nvidia=1 nvidia.com/mig-1g.10gb=1"}}},
		"extended resource in MiB": {
			containers: []c{{name: "a", requests: "example.com/gpumem=3000"}, {name: "b"}},
			want:       []Budget{{Source: BudgetResource, Container: "a", Minor: -1, MemoryBytes: 3000 << 20}},
		},
		"extended resource in the API server's notation": {
			containers: []c{{name: "a", requests: "example.com/gpumem=5k"}},
			want:       []Budget{{Source: BudgetResource, Container: "a", Minor: -1, MemoryBytes: 5000 << 20}},
		},
		"extended resources in MiB and in bytes are added": {
			containers: []c{{name: "a", requests: "example.com/gpumem=1 example.com/gpubytes=1Mi"}},
			want:       []Budget{{Source: BudgetResource, Container: "a", Minor: -1, MemoryBytes: 2 << 20}},
		},
		"koordinator bytes, split over two devices": {
			containers: []c{{name: "a", requests: "mem=4Gi core=100 shared=2"}},
			want:       []Budget{{Source: BudgetKoordinator, Container: "a", Minor: -1, Devices: 2, MemoryBytes: 2 << 30}},
		},
		"koordinator ratio": {
			containers: []c{{name: "a", requests: "gpu=50"}},
			want:       []Budget{{Source: BudgetKoordinator, Container: "a", Minor: -1, Devices: 1, MemoryRatio: 0.5}},
		},
		"koordinator core does not declare memory": {containers: []c{{name: "a", requests: "core=50"}}},
		"koordinator allocation is preferred and belongs to the pod": {
			containers: []c{{name: "a", requests: "ratio=50 shared=1"}},
			annotations: map[string]string{koordAllocated: `{"gpu":[{"minor":3,"id":"GPU-1","resources":{
				"koordinator.sh/gpu-memory":"8Gi","koordinator.sh/gpu-memory-ratio":50}}]}`},
			want: []Budget{
				{Source: BudgetKoordinatorAllocation, UUID: "GPU-1", Minor: 3, Devices: 1, MemoryBytes: 8 << 30, MemoryRatio: 0.5},
				{Source: BudgetKoordinator, Container: "a", Minor: -1, Devices: 1, MemoryRatio: 0.5},
			},
		},
		"HAMi memory of each vGPU": {
			containers: []c{{name: "a", requests: "nvidia=2 gpumem=3000"}},
			want:       []Budget{{Source: BudgetHAMi, Container: "a", Minor: -1, Devices: 2, MemoryBytes: 3000 << 20}},
		},
		"HAMi percentage": {
			containers: []c{{name: "a", requests: "nvidia=1 gpumem%=25"}},
			want:       []Budget{{Source: BudgetHAMi, Container: "a", Minor: -1, Devices: 1, MemoryRatio: 0.25}},
		},
		"HAMi allocation without a slot for the init container": {
			containers:  []c{{name: "setup", init: true}, {name: "a", requests: "nvidia=1"}},
			annotations: map[string]string{hamiAllocated: "GPU-1,NVIDIA,3000,30:;"},
			want:        []Budget{{Source: BudgetHAMiAllocation, Container: "a", UUID: "GPU-1", Minor: -1, Devices: 1, MemoryBytes: 3000 << 20}},
		},
		"HAMi allocation that does not match the containers belongs to the pod": {
			containers:  []c{{name: "a", requests: "nvidia=1"}},
			annotations: map[string]string{hamiAllocated: "GPU-1,NVIDIA,1,0:;GPU-2,NVIDIA,1,0:;"},
			want: []Budget{
				{Source: BudgetHAMiAllocation, UUID: "GPU-1", Minor: -1, Devices: 1, MemoryBytes: 1 << 20},
				{Source: BudgetHAMiAllocation, UUID: "GPU-2", Minor: -1, Devices: 1, MemoryBytes: 1 << 20},
			},
			err: "hami.io/vgpu-devices-allocated: slots with a device: 2, containers that request a vGPU: 1; it is unknown which container has which device",
		},
		"HAMi's MIG instances have their own memory": {
			containers:  []c{{name: "a", requests: "nvidia=1"}},
			annotations: map[string]string{hamiAllocated: "GPU-1[0-1],NVIDIA,10240,0:;"},
		},
		"KAI applies to the first app container": {
			containers:  []c{{name: "setup", init: true}, {name: "a"}, {name: "b"}},
			annotations: map[string]string{"gpu-memory": "2000"},
			want:        []Budget{{Source: BudgetKAI, Container: "a", Minor: -1, Devices: 1, MemoryBytes: 2000 << 20}},
		},
		"KAI names another container": {
			containers:  []c{{name: "a"}, {name: "b"}},
			annotations: map[string]string{"gpu-fraction": "0.5", "gpu-fraction-container-name": "b"},
			want:        []Budget{{Source: BudgetKAI, Container: "b", Minor: -1, Devices: 1, MemoryRatio: 0.5}},
		},
		"KAI names a container that does not exist": {
			containers:  []c{{name: "a"}},
			annotations: map[string]string{"gpu-fraction": "0.5", "gpu-fraction-container-name": "b"},
			err:         `gpu-fraction-container-name: the pod has no container "b"`,
		},
		"annotation for the pod and for one container": {
			containers:  []c{{name: "a"}, {name: "b"}},
			annotations: map[string]string{key: "5Gi", key + ".b": "3Gi", key + ".other": "1Gi"},
			want: []Budget{
				{Source: BudgetAnnotation, Container: "b", Minor: -1, MemoryBytes: 3 << 30},
				{Source: BudgetAnnotation, Minor: -1, MemoryBytes: 5 << 30},
			},
		},
		"annotation that is not a quantity": {
			containers:  []c{{name: "a", requests: "example.com/gpumem=1"}},
			annotations: map[string]string{key: "plenty", koordAllocated: "{"},
			want:        []Budget{{Source: BudgetResource, Container: "a", Minor: -1, MemoryBytes: 1 << 20}},
			err:         "scheduling.koordinator.sh/device-allocated: \"{\" is not a list of devices by type\nexample.com/gpu-memory: \"plenty\" is not a quantity",
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podOf(c.annotations)
			for _, spec := range c.containers {
				of := &pod.Spec.Containers
				if spec.init {
					of = &pod.Spec.InitContainers
				}
				*of = append(*of, container(spec.name, requests(spec.requests)))
			}
			got, err := Budgets(pod, options)
			assert.Equal(t, c.want, got)
			if c.err == "" {
				assert.NoError(t, err)
				return
			}
			assert.EqualError(t, err, c.err)
		})
	}
}

func TestBudgetsAreLimitedAndInOrderOfPreference(t *testing.T) {
	names := append(allNames(), "example.com/gpumem")
	options := BudgetOptions{Resources: map[string]int64{"example.com/gpumem": 1 << 40}, Annotation: "budget"}
	rapid.Check(t, func(t *rapid.T) {
		var containers []corev1.Container
		for _, name := range []string{"a", "b", "c"} {
			containers = append(containers, container(name, drawRequests(t, names...)))
		}
		q := quantity().Draw(t, "annotation")
		got, _ := Budgets(podOf(map[string]string{
			"budget": q.String(), kaiFraction: "0.5", hamiAllocated: "GPU-1,NVIDIA,3000,30:;",
		}, containers...), options)
		rank := -1
		for _, b := range got {
			if b.MemoryBytes < 0 || b.MemoryBytes > limit || b.MemoryRatio < 0 || b.Devices < 0 || b.MemoryBytes == 0 && b.MemoryRatio == 0 {
				t.Fatalf("out of range: %+v", b)
			}
			r := slices.Index(BudgetSources(), b.Source)
			if r < rank {
				t.Fatalf("%s after %s", b.Source, BudgetSources()[rank])
			}
			rank = r
		}
	})
}
