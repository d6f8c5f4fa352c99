// Package decide makes the watchdog's decisions. It selects at most one pod to evict, based on a
// device's telemetry, the device's pods in the API server, and earlier decisions. It always returns
// a reason. The package does no I/O, has no clock and stores no state. [Evaluate] has no side
// effects.
//
// A pod is chosen only if all of these conditions are met:
//   - The device's sample is fresh and consistent, and the memory of the containers adds up to the
//     device's memory (attribution valid).
//   - The device was below the floor in the last Breaches evaluations, including this one, each
//     with a separate sample. Between these evaluations there was no gap, and the device did not
//     reach the clear floor.
//   - The pod is over its declared budget by more than the minimum overshoot. It was over its
//     budget in each of these evaluations.
//   - Neither the device nor, on any node, the pod's owner has an active cool-down. The hourly cap
//     has not been reached. Earlier evictions of the owner's pods ended their shortage.
//   - The pod exists with the same UID on the node. It has been running long enough, has an owner
//     that replaces it, declares no more than the telemetry shows, and is not protected.
//
// If several pods qualify, the one with the largest overshoot is chosen. If that pod is already
// terminating or cannot be identified, the evaluation waits.
package decide
