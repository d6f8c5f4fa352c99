package catalogue

import "slices"

// reservationNamespaces are the namespaces in which KAI Scheduler and Run:ai create reservation
// pods. Users have no access to the reservation namespaces. Pod names and labels are not sufficient
// evidence, because users could choose names and labels that evade accounting.
var reservationNamespaces = []string{"kai-resource-reservation", "runai-reservation"}

// IsReservation reports whether a holder is a reservation pod. A scheduler creates a reservation
// pod to allocate a device from the kubelet, and then shares the device among other pods. A
// reservation pod never counts as a holder.
func IsReservation(h Holder) bool { return slices.Contains(reservationNamespaces, h.Namespace) }
