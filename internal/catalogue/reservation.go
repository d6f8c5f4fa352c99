package catalogue

import "slices"

// reservationNamespaces are the namespaces of KAI Scheduler and Run:ai for reservation pods. Users
// have no access to them. Names and labels of pods are no evidence, because any user can choose
// them and would leave the accounting that way.
var reservationNamespaces = []string{"kai-resource-reservation", "runai-reservation"}

// IsReservation reports whether a holder is a reservation pod: it takes a whole device from the
// kubelet for a scheduler, which shares the device among other pods. It is never a holder itself.
func IsReservation(h Holder) bool { return slices.Contains(reservationNamespaces, h.Namespace) }
