package gpushare

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// reservationApps are the values of the label app on reservation pods of KAI Scheduler and Run:ai.
// The namespace of these pods is a setting of the scheduler.
var reservationApps = []string{"kai-resource-reservation", "runai-reservation"}

// IsReservation reports whether a pod is a reservation pod: it has the schedulers' label app,
// belongs to one group, and requests the device that the group shares. The other pods in the group
// never request the device.
func IsReservation(pod *corev1.Pod) bool {
	return slices.Contains(reservationApps, pod.Labels["app"]) && pod.Labels[gpuGroup] != "" && slices.ContainsFunc(Containers(pod), requestsGPU)
}
