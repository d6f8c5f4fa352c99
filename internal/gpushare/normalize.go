package gpushare

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// PatchOperation is an operation in a JSON patch (RFC 6902) for a pod. All values are quantities.
type PatchOperation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value string `json:"value,omitempty"`
}

// Normalize returns the JSON patch that the mutating webhook of the GPU share API applies to a pod.
// The patch changes the requests and limits of all containers, including init containers:
//
//   - If the value of koordinator.sh/gpu is allowed (1 to 100, or a multiple of 100) and no other
//     resource name in the API is requested, gpu-core and gpu-memory-ratio with the same value
//     replace koordinator.sh/gpu.
//   - If gpu-core, gpu-memory, or gpu-memory-ratio is requested without gpu.shared, the patch adds
//     gpu.shared. The value is the number of devices that [Demands] returns for the same requests.
//
// Other requests for koordinator.sh/gpu break a rule. Normalize does not change containers with
// such requests, so that [Families.Check] reports what the user wrote. Normalize does not change
// containers that share an NPU, because these containers do not use the GPU share API. If the pod
// was already patched, the patch is empty.
func Normalize(p *corev1.Pod) []PatchOperation {
	var patch []PatchOperation
	for i := range p.Spec.InitContainers {
		patch = append(patch, normalizeContainer(fmt.Sprintf("/spec/initContainers/%d", i), &p.Spec.InitContainers[i])...)
	}
	for i := range p.Spec.Containers {
		patch = append(patch, normalizeContainer(fmt.Sprintf("/spec/containers/%d", i), &p.Spec.Containers[i])...)
	}
	return patch
}

// shareNames lists the resource names that a pod can request together with gpu.shared.
var shareNames = []string{koordCore, koordMemory, koordRatio}

// normalizeContainer returns the patch operations for the container at the given path.
func normalizeContainer(path string, c *corev1.Container) []PatchOperation {
	requests := RequestsOf(c)
	_, hasGPU := requests[koordGPU]
	_, hasShared := requests[koordShared]
	if hasShared || Units(requests[npuCore]) > 0 || hasGPU && !convertible(requests) {
		return nil
	}
	uses := func(list corev1.ResourceList) bool {
		return Units(list[koordGPU]) > 0 || slices.ContainsFunc(shareNames, func(name string) bool {
			return Units(list[corev1.ResourceName(name)]) > 0
		})
	}
	demand, _ := koordinator(requests)
	shared := resource.NewQuantity(demand.Devices, resource.DecimalSI).String()

	var patch []PatchOperation
	for _, list := range []struct {
		name      string
		resources corev1.ResourceList
	}{{"limits", c.Resources.Limits}, {"requests", c.Resources.Requests}} {
		if !uses(list.resources) {
			continue
		}
		at := func(name string) string {
			return path + "/resources/" + list.name + "/" + strings.ReplaceAll(name, "/", "~1")
		}
		if gpu, ok := list.resources[koordGPU]; ok {
			patch = append(patch,
				PatchOperation{Op: "remove", Path: at(koordGPU)},
				PatchOperation{Op: "add", Path: at(koordCore), Value: gpu.String()},
				PatchOperation{Op: "add", Path: at(koordRatio), Value: gpu.String()})
		}
		patch = append(patch, PatchOperation{Op: "add", Path: at(koordShared), Value: shared})
	}
	return patch
}

// The convertible function reports whether a request for koordinator.sh/gpu can be converted to
// gpu-core and gpu-memory-ratio. Conversion requires that none of the names in shareNames are
// requested and that the request for koordinator.sh/gpu does not break a rule.
func convertible(requests Requests) bool {
	for _, name := range shareNames {
		if _, ok := requests[name]; ok {
			return false
		}
	}
	return len(Families{}.Check([]Requests{{koordGPU: requests[koordGPU]}}, nil)) == 0
}
