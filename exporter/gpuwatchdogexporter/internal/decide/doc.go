// Package decide makes the watchdog's decision. From the telemetry of a device, its pods as
// read from the API server and earlier decisions, it chooses at most one pod to evict, and
// always returns a reason. It does no I/O, has no clock and keeps no state: [Evaluate] is a
// pure function.
//
// A pod is chosen only if all of these conditions hold:
//   - The device's sample is fresh and consistent, and the containers' memory adds
//     up to the device's (attribution valid).
//   - The device was below the floor in this and the previous Breaches-1
//     evaluations, each with a separate sample. There was no gap, and the device did
//     not reach the clear floor in between.
//   - The pod is over its declared budget by more than the minimum overshoot, and was
//     over its budget in each of these evaluations.
//   - No cool-down of the device or, on any node, of the pod's owner is active. The
//     hourly cap is not reached. Earlier evictions of the owner ended their shortage.
//   - The pod exists with the same UID on the node, has run long enough, has an owner
//     that replaces it, declares no more than the telemetry shows, and is not protected.
//
// If several pods qualify, the one with the largest overshoot is chosen. If that pod is
// already terminating or cannot be identified, the evaluation waits.
package decide
