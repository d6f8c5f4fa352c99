// Package budget says what containers may use of a GPU's memory, what they do
// use, and whether the two can be compared. It knows neither how metrics arrive
// nor Kubernetes objects.
//
// A [Place] is the devices of a node at one moment. A [Book] fills in what
// containers use, from lists of processes and other exporters' series that it
// keeps; [Place.Declare] fills in what they may use; [Device.Reconcile] compares
// the sum with what the device says.
//
// # Whose number counts
//
// The containers of one device get their numbers from one origin, because two of
// them would count memory twice: what came in as a container's usage, else the
// device's own usage for somebody who holds it alone, else the list of
// processes, else the first other exporter that names one of them. A container
// that a complete list does not name has nothing.
//
// # Valid, partial, invalid
//
// Valid: everybody who holds the device is known, and what they use adds up to
// what the device says. Partial: something is missing. Invalid: the numbers
// contradict each other or the hardware. [Reason] is the closed list of why.
package budget
