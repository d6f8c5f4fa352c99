// Package budget computes what containers may use of a GPU's memory, what they use, and whether the two
// can be compared. It knows neither how metrics arrive nor Kubernetes objects.
//
// A [Place] is the devices of a node at one moment. A [Book] fills in what containers use, from the
// lists of processes and the values of exporters of containers that it keeps; [Place.Declare] fills in
// what they may use; [Device.Reconcile] compares the sum with the device's usage.
//
// # Whose number counts
//
// The containers of one device get their numbers from one origin, because two of them would count
// memory twice: what came in as a container's usage in the device's frame, else the device's own usage
// for its only holder, else the list of processes, else what an exporter of containers states in frames
// of its own. A container that is missing from a complete list uses nothing. A list is complete only if
// its source counted the processes.
//
// # Valid, partial, invalid
//
// Valid: everybody who holds the device is known, and what they use adds up to
// what the device says. Partial: something is missing. Invalid: the numbers
// contradict each other or the hardware. [Reason] is the closed list of why.
package budget
