package gpushare

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// reservationApps contains the values of the "app" label on the reservation pods that KAI Scheduler
// and Run:ai create. A scheduler setting determines the namespace of the reservation pods.
var reservationApps = []string{"kai-resource-reservation", "runai-reservation"}

// IsReservation reports whether a pod is a reservation pod. A reservation pod has one of the values
// in reservationApps as its "app" label, belongs to one group, and requests the device that the
// group shares. The other pods in the group never request the device.
func IsReservation(pod *corev1.Pod) bool {
	return slices.Contains(reservationApps, pod.Labels["app"]) && pod.Labels[gpuGroup] != "" && slices.ContainsFunc(Containers(pod), requestsGPU)
}
