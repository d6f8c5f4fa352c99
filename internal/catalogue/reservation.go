package catalogue

import "slices"

// reservationNamespaces are the namespaces of KAI Scheduler and Run:ai for reservation pods. Users
// have no access to them. Pod names and labels are not sufficient evidence, because users could
// choose them to evade accounting.
var reservationNamespaces = []string{"kai-resource-reservation", "runai-reservation"}

// IsReservation reports whether a holder is a reservation pod: it allocates a device from the
// kubelet for a scheduler, which then shares the device among other pods. A reservation pod is
// never a holder.
func IsReservation(h Holder) bool { return slices.Contains(reservationNamespaces, h.Namespace) }
