package gpushare

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

func TestPodAllocationsHaveTheContainers(t *testing.T) {
	const device = "GPU-1,NVIDIA,3000,30:;"
	mig := `[{"containerIndex":0,"deviceIndex":0,"gpuUUID":"GPU-1","profile":"1g.10gb","placement":{"start":0,"size":1}}]`
	type c struct {
		init     bool
		requests string
	}
	for name, tt := range map[string]struct {
		containers  []c // named a, b, …
		annotations map[string]string
		want        string // containers of the allocations
		err         string
	}{
		"the slot of an init container was dropped": {
			[]c{{true, ""}, {false, "nvidia=1"}}, map[string]string{hamiAllocated: device}, "b", "",
		},
		"the slot of an init container is empty": {
			[]c{{true, ""}, {false, "nvidia=1"}}, map[string]string{hamiAllocated: ";" + device}, "b", "",
		},
		"an empty slot is written as zeros": {
			[]c{{false, ""}, {false, "nvidia=1"}}, map[string]string{hamiAllocated: ",,0,0:;" + device}, "b", "",
		},
		"only memory is requested": {
			[]c{{false, ""}, {false, "gpumem=3000"}}, map[string]string{hamiAllocated: device}, "b", "",
		},
		"an init container also requests a vGPU": {
			[]c{{true, "nvidia=1"}, {false, "nvidia=1"}}, map[string]string{hamiAllocated: device + "GPU-2,NVIDIA,1,0:;"}, "a b", "",
		},
		"a release without slots for init containers": {
			[]c{{true, "nvidia=1"}, {false, "nvidia=1"}},
			map[string]string{hamiAllocated: device},
			"-",
			"slots with a device: 1, containers that request a vGPU: 2",
		},
		"one of two devices of a container is invalid": {
			[]c{{false, "nvidia=2"}, {false, "nvidia=1"}}, map[string]string{hamiAllocated: "junk:" + device + "GPU-2,NVIDIA,1,0:;"}, "a b", "junk",
		},
		"an invalid device still has a slot": {
			[]c{{false, "nvidia=1"}, {false, "nvidia=1"}}, map[string]string{hamiAllocated: "junk:;" + device}, "b", "junk",
		},
		"a renamed vGPU resource": {
			[]c{{false, ""}, {false, "example.com/vgpu=1"}}, map[string]string{hamiAllocated: device}, "b", "",
		},
		"a renamed vGPU resource and another resource": {
			[]c{{false, "example.com/nic=1"}, {false, "example.com/vgpu=1"}},
			map[string]string{hamiAllocated: device},
			"-",
			"slots with a device: 1, containers that request a vGPU: 2",
		},
		"another vendor's GPU is not in the annotation": {
			[]c{{false, "amd=1"}, {false, "nvidia=1"}}, map[string]string{hamiAllocated: device}, "b", "",
		},
		"an instance that is only in the MIG annotation": {
			[]c{{true, ""}, {false, "nvidia=1"}}, map[string]string{hamiMIG: mig}, "b", "",
		},
		"Koordinator allocates to the pod": {
			[]c{{false, "core=50 ratio=50"}}, map[string]string{koordAllocated: `{"gpu":[{"id":"GPU-1"}]}`}, "-", "",
		},
		"KAI applies to the first app container": {
			[]c{{true, ""}, {false, ""}}, map[string]string{kaiFraction: "0.5"}, "b", "",
		},
		"KAI names a container that does not exist": {
			[]c{{false, ""}}, map[string]string{kaiFraction: "0.5", kaiContainer: "x"}, "", `the pod has no container "x"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podOf(tt.annotations)
			for i, of := range tt.containers {
				addContainer(pod, of.init, container(string(rune('a'+i)), requests(of.requests)))
			}
			got, err := PodAllocations(pod)
			var containers []string
			for _, a := range got {
				containers = append(containers, orDash(a.Container))
			}
			assert.Equal(t, tt.want, strings.Join(containers, " "))
			if tt.err == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, tt.err)
			}
		})
	}
}

func addContainer(pod *corev1.Pod, init bool, c corev1.Container) {
	if init {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	} else {
		pod.Spec.Containers = append(pod.Spec.Containers, c)
	}
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// PodAllocations never matches a device to the wrong container, regardless of the HAMi release. If
// each container that requests a vGPU has a slot, PodAllocations matches every device to a
// container.
func TestDevicesOfAllHAMiReleasesAreMatchedToTheRightContainer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		release := rapid.SampledFrom([]string{"2.8", "2.9", "2.10.0"}).Draw(t, "release")
		empty := rapid.SampledFrom([]string{";", ",,0,0:;"}).Draw(t, "empty slot")
		pod := podOf(map[string]string{})
		annotation, allGiven := "", true
		for i, n := 0, rapid.IntRange(1, 5).Draw(t, "containers"); i < n; i++ {
			name := fmt.Sprintf("c%d", i)
			asks := rapid.IntRange(0, 2).Draw(t, "devices of "+name)
			isInit := i < n-1 && len(pod.Spec.Containers) == 0 && rapid.Bool().Draw(t, name+" is an init container")
			addContainer(pod, isInit, container(name, requests(fmt.Sprintf("nvidia=%d", asks))))
			switch {
			case release == "2.8" && isInit:
				allGiven = allGiven && asks == 0
			case asks == 0 && (release != "2.10.0" || !isInit):
				annotation += empty
			case asks > 0:
				annotation += strings.Repeat("GPU-"+name+",NVIDIA,1,0:", asks) + ";"
			}
		}
		pod.Annotations[hamiAllocated] = annotation
		got, _ := PodAllocations(pod)
		for _, a := range got {
			if a.Container == "" && allGiven || a.Container != "" && "GPU-"+a.Container != a.UUID {
				t.Fatalf("device %s is matched to container %q by %s", a.UUID, a.Container, annotation)
			}
		}
	})
}
