package gpushare

import corev1 "k8s.io/api/core/v1"

// volcanoAllocated is the annotation in which Volcano records allocations. The format is the same
// as that of HAMi's annotation, because Volcano uses HAMi's device plugin. The memory values in
// Volcano's annotation are ignored, because their unit depends on the scheduler's configuration.
const volcanoAllocated = "volcano.sh/vgpu-ids-new"

// Volcano's resource names. A container that requests either of these resources requests a vGPU.
const (
	volcanoNumber = "volcano.sh/vgpu-number"
	volcanoMemory = "volcano.sh/vgpu-memory"
)

// The function positional returns the key of the annotation whose slots correspond to containers.
// The function returns the first annotation that exists, in the following order: HAMi's annotation
// for NVIDIA devices, HAMi's annotation for AMD devices, and Volcano's annotation. If the pod has
// none of these annotations, positional returns the key of the annotation that contains HAMi's
// request.
func positional(annotations map[string]string) string {
	for _, key := range [...]string{hamiAllocated, hamiAMD, volcanoAllocated} {
		if _, ok := annotations[key]; ok {
			return key
		}
	}
	return hamiToAllocate
}

// volcanoContainers returns the app containers that request a vGPU from Volcano. Only these
// containers have a slot in the annotation.
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
