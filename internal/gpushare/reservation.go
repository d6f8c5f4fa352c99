package gpushare

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// reservationApps contains the values of the label "app" of reservation pods that KAI Scheduler and
// Run:ai create. The namespace of these pods is a setting of the scheduler.
var reservationApps = []string{"kai-resource-reservation", "runai-reservation"}

// IsReservation reports whether a pod is a reservation pod. A reservation pod has a specific value
// of the label "app", belongs to one group, and requests the device that the group shares. The
// other pods in the group never request the device.
func IsReservation(pod *corev1.Pod) bool {
	return slices.Contains(reservationApps, pod.Labels["app"]) && pod.Labels[gpuGroup] != "" && slices.ContainsFunc(Containers(pod), requestsGPU)
}
