package gpushare

import corev1 "k8s.io/api/core/v1"

// volcanoAllocated is the annotation in which Volcano records allocations. Volcano's annotation has
// the same format as HAMi's, because Volcano uses HAMi's device plugin. The memory values in
// Volcano's annotation are ignored, because their unit depends on the scheduler's configuration.
const volcanoAllocated = "volcano.sh/vgpu-ids-new"

// A container that requests either of these Volcano resources requests a vGPU.
const (
	volcanoNumber = "volcano.sh/vgpu-number"
	volcanoMemory = "volcano.sh/vgpu-memory"
)

// The positional function returns the key of the annotation whose slots correspond to containers.
// If several annotations with slots exist, the function prefers HAMi's annotation for NVIDIA
// devices, then HAMi's annotation for AMD devices, and then Volcano's annotation. If the pod has
// none of these annotations, the function returns the key of the annotation that contains HAMi's
// request.
func positional(annotations map[string]string) string {
	for _, key := range [...]string{hamiAllocated, hamiAMD, volcanoAllocated} {
		if _, ok := annotations[key]; ok {
			return key
		}
	}
	return hamiToAllocate
}

// volcanoContainers returns the app containers that request a vGPU from Volcano. Only containers
// that request a vGPU from Volcano have a slot in Volcano's annotation.
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
