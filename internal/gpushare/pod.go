package gpushare

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// PodAllocations parses a pod's annotations in the same way as [Allocations]. In addition,
// PodAllocations determines the container of each allocation.
//
// HAMi's annotation consists of slots, and the meaning of a slot depends on HAMi's release. Before
// HAMi 2.9, each slot represents an app container. In HAMi 2.9 and later, slots represent all
// containers, with init containers first. HAMi 2.10.0 omits the empty slots of init containers
// (HAMi#3079, HAMi#2899). In all releases, the slots that contain a device are in the order of the
// containers. If the number of slots that contain a device equals the number of containers that
// request a vGPU, PodAllocations matches these slots to these containers in order. If the numbers
// differ, PodAllocations returns the devices without a container, and the error states that it is
// unknown which container uses which device.
//
// If KAI's annotation does not name a container, the annotation applies to the first app container.
// If an allocation names a container that the pod does not have, PodAllocations omits the
// allocation from the result and lists it in the error.
func PodAllocations(pod *corev1.Pod) ([]Allocation, error) {
	var p problems
	all, slots := allocations(pod.Annotations, &p)
	names := map[int]string{} // container names by slot
	key, asking := positional(pod.Annotations), vgpuContainers(pod)
	switch key {
	case volcanoAllocated:
		asking = volcanoContainers(pod)
	case hamiToAllocate:
		key = hamiAllocated
	}
	if len(asking) == len(slots) {
		for i, index := range slots {
			names[index] = asking[i].Name
		}
	} else if len(slots) > 0 {
		p.add("%s: slots with a device: %d, containers that request a vGPU: %d; it is unknown which container has which device",
			key, len(slots), len(asking))
	}
	var out []Allocation
	for _, a := range all {
		switch a.Family {
		case HAMi:
			a.Container = names[a.Slot]
		case KAI:
			var err error
			if a.Container, err = kaiContainerOf(a, pod); err != nil {
				p.add("%w", err)
				continue
			}
		}
		out = append(out, a)
	}
	return out, p.err()
}

// vgpuContainers returns the containers that use HAMi's default resource names to request a vGPU.
// If no container uses the default resource names, the administrator may have configured other
// names, so vgpuContainers returns all containers that request any extended resource. The caller
// checks whether the number of returned containers equals the number of slots.
func vgpuContainers(pod *corev1.Pod) []*corev1.Container {
	var asking, extended []*corev1.Container
	for _, c := range Containers(pod) {
		requests := RequestsOf(c)
		if hamiNVIDIA.isRequested(requests) {
			asking = append(asking, c)
		}
		if requests.extended() {
			extended = append(extended, c)
		}
	}
	if asking == nil {
		return extended
	}
	return asking
}

// kaiContainerOf returns the name of the container to which a KAI annotation applies. If the
// annotation does not name a container, the annotation applies to the first app container.
func kaiContainerOf(a Allocation, pod *corev1.Pod) (string, error) {
	if a.Container == "" && len(pod.Spec.Containers) > 0 {
		return pod.Spec.Containers[0].Name, nil
	}
	for _, c := range Containers(pod) {
		if c.Name == a.Container {
			return c.Name, nil
		}
	}
	return "", fmt.Errorf("%s: the pod has no container %s", kaiContainer, clip(a.Container))
}

// Containers returns the containers of a pod. Init containers come first.
func Containers(p *corev1.Pod) []*corev1.Container {
	all := make([]*corev1.Container, 0, len(p.Spec.InitContainers)+len(p.Spec.Containers))
	for _, containers := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range containers {
			all = append(all, &containers[i])
		}
	}
	return all
}

// RequestsOf returns a container's requests. If a resource has a limit but no request, RequestsOf
// uses the limit as the request.
func RequestsOf(c *corev1.Container) Requests {
	out := Requests{}
	for _, list := range []corev1.ResourceList{c.Resources.Limits, c.Resources.Requests} {
		for name, q := range list {
			out[string(name)] = q
		}
	}
	return out
}

// PodRequests returns the arguments for [Families.Check]: the requests of each container, and the
// pod's effective requests for extended resources. PodRequests computes the effective requests in
// the same way as the scheduler. If a resource has a limit but no request, PodRequests uses the
// limit as the request, like the API server.
func PodRequests(p *corev1.Pod) (containers []Requests, effective Requests) {
	filled := *p
	filled.Spec.InitContainers = slices.Clone(p.Spec.InitContainers)
	filled.Spec.Containers = slices.Clone(p.Spec.Containers)
	for _, c := range Containers(&filled) {
		requests := RequestsOf(c)
		containers = append(containers, requests)
		c.Resources.Requests = make(corev1.ResourceList, len(requests))
		for name, q := range requests {
			c.Resources.Requests[corev1.ResourceName(name)] = q
		}
	}
	effective = Requests{}
	for name, q := range resourcehelper.PodRequests(&filled, resourcehelper.PodResourcesOptions{}) {
		if IsExtended(name) {
			effective[string(name)] = q
		}
	}
	return containers, effective
}

// IsExtended reports whether a resource is an extended resource. Unlike the names of extended
// resources, the names of built-in resources, such as cpu and memory, do not contain a domain.
func IsExtended(name corev1.ResourceName) bool { return strings.Contains(string(name), "/") }
