package gpushare

import corev1 "k8s.io/api/core/v1"

// volcanoAllocated is the annotation in which Volcano writes what it gave to a pod. It has the format of
// HAMi's, whose device plugin Volcano uses. Its memory is not used: the unit is a factor of MiB
// that is set in the scheduler.
const volcanoAllocated = "volcano.sh/vgpu-ids-new"

// Volcano's names of what a container asks for. One of them makes it ask for a vGPU.
const (
	volcanoNumber = "volcano.sh/vgpu-number"
	volcanoMemory = "volcano.sh/vgpu-memory"
)

// positional returns the key of the annotation whose slots are a pod's containers: HAMi's for NVIDIA's
// devices, else for AMD's, else Volcano's, else HAMi's request.
func positional(annotations map[string]string) string {
	for _, key := range [...]string{hamiAllocated, hamiAMD, volcanoAllocated} {
		if _, ok := annotations[key]; ok {
			return key
		}
	}
	return hamiToAllocate
}

// volcanoContainers returns the app containers that ask for a vGPU of Volcano's. Only they have a slot.
func volcanoContainers(pod *corev1.Pod) (asking []*corev1.Container) {
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		requests := RequestsOf(c)
		if Units(requests[volcanoNumber]) > 0 || Units(requests[volcanoMemory]) > 0 {
			asking = append(asking, c)
		}
	}
	return asking
}
