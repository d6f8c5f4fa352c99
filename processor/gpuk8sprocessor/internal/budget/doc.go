// Package budget computes how much GPU memory containers may use, how much they use, and whether the
// two can be compared. It does not depend on the format of metrics or on Kubernetes objects.
//
// A [Place] contains the devices of a node at one time. A [Book] stores the values of container
// exporters, and sets the containers' usage from them and from process lists. [Place.Declare] sets the
// containers' budgets. [Device.Reconcile] compares the sum of the containers' usage with the
// device's usage.
//
// # Origin of the usage
//
// The usage of all containers of a device has one origin, because two origins would count memory
// twice. The first available origin in this order is used: the containers' usage in the device's
// frame, the device's own usage for its only holder, the list of processes, and the values of a
// container exporter in separate frames. A container that is missing from a complete list uses no
// memory. A list is complete only if its source reports the number of processes.
//
// # Valid, partial, invalid
//
// The usage is valid if all holders of the device are known and their usage adds up to the device's
// usage. It is partial if a value is missing. It is invalid if the numbers contradict each other or
// the hardware. [Reason] lists all reasons.
package budget
