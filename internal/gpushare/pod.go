package gpushare

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// PodAllocations reads the annotations of a pod as [Allocations] does, and adds the containers that
// they refer to.
//
// HAMi's annotation is positional, and its releases differ in what a slot stands for: up to 2.8 an
// app container, from 2.9 a container with the init containers first, and 2.10.0 drops the empty
// slots of init containers (HAMi#3079, HAMi#2899). They agree in the order of the slots with a
// device. So if these are as many as the containers that ask for a vGPU, they match in order.
// Otherwise the devices belong to the pod and the container is unknown, which the error reports.
//
// If KAI's annotation names no container, it refers to the first app container. Allocations to
// containers that the pod does not have are omitted and listed in the error.
func PodAllocations(pod *corev1.Pod) ([]Allocation, error) {
	var p problems
	all, slots := allocations(pod.Annotations, &p)
	names := map[int]string{} // by slot
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
		p.add("%s: slots with a device: %d, containers that ask for a vGPU: %d; cannot tell which container has which device",
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

// vgpuContainers returns the containers that ask for a vGPU of HAMi's: those that use its names. If
// none does, its administrator may have chosen another name, so it returns all that ask for any
// extended resource: if they are as many as the slots, they are the same containers.
func vgpuContainers(pod *corev1.Pod) []*corev1.Container {
	var asking, extended []*corev1.Container
	for _, c := range Containers(pod) {
		requests := RequestsOf(c)
		if hamiNVIDIA.asked(requests) {
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

// kaiContainerOf returns the container that a KAI annotation is about: the one that it names, or
// the first app container.
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

// Containers returns the containers of a pod, init containers first.
func Containers(p *corev1.Pod) []*corev1.Container {
	all := make([]*corev1.Container, 0, len(p.Spec.InitContainers)+len(p.Spec.Containers))
	for _, containers := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range containers {
			all = append(all, &containers[i])
		}
	}
	return all
}

// RequestsOf returns what a container requests, its limits where there is no request.
func RequestsOf(c *corev1.Container) Requests {
	out := Requests{}
	for _, list := range []corev1.ResourceList{c.Resources.Limits, c.Resources.Requests} {
		for name, q := range list {
			out[string(name)] = q
		}
	}
	return out
}

// PodRequests returns what the rules of [Families.Check] are checked on: the requests of each of
// [Containers], and the pod's effective requests of extended resources, as the scheduler computes
// them. A limit is also the request where there is none, as the API server stores it.
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

// IsExtended reports whether a resource is an extended one. The node's own cpu, memory and
// storage have no domain in their names.
func IsExtended(name corev1.ResourceName) bool { return strings.Contains(string(name), "/") }
