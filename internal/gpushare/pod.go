package gpushare

import corev1 "k8s.io/api/core/v1"

// Containers returns the containers of a pod, init containers first, as HAMi counts them.
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
