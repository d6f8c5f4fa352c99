// Package budget calculates how much GPU memory containers may use and how much GPU memory
// containers actually use. Package budget also determines whether the usage of a device's
// containers is consistent with the device's usage. Package budget does not depend on the format of
// metrics or on Kubernetes objects.
//
// A [Place] contains the devices of a node at one time. A [Book] stores the values that container
// exporters report. [Book.Fill] sets the usage of containers from the stored values and from
// process lists. [Place.Declare] sets the budgets of containers. [Device.Reconcile] compares the
// sum of the containers' usage with the device's usage.
//
// # Origin of the usage
//
// The usage of all containers on a device must come from a single origin, because two origins could
// count the same memory twice. The first available origin in this list is used: the usage of the
// containers in the device's frame, the device's own usage if the device has only one holder, the
// process list, and the values of a container exporter in separate frames. If a container does not
// appear in a complete process list, the container uses no memory. A process list is complete only
// if the source also reports the number of processes.
//
// # Valid, partial, invalid
//
// The usage is valid if all holders of the device are known and the sum of the users' usage equals
// the device's usage within the tolerance. The usage is partial if a value is missing or the device
// uses more memory than the users explain. The usage is invalid if values contradict each other, if
// a value is impossible for the hardware, or if the values are too old. The [Reason] constants
// describe all possible reasons.
package budget
