// Package decide makes the watchdog's decisions. It selects at most one pod to evict, based on a
// device's telemetry, the device's pods in the API server, and earlier decisions. It always returns
// a reason. The package does no I/O, has no clock and stores no state. [Evaluate] has no side
// effects.
//
// A pod is chosen only if all of these conditions are met:
//   - The device's sample is fresh and consistent, and the memory of the containers adds up to the
//     device's memory (attribution valid).
//   - The device was below the floor in the required number of evaluations (Policy.Breaches),
//     including this one. Each evaluation used a separate sample. Between these evaluations there
//     was no gap, and the device did not reach the clear floor.
//   - The pod is over its declared budget by more than the minimum overshoot. It was over its
//     budget in each of these evaluations.
//   - No cool-down is active for the device, or for the pod's owner on any node. The hourly cap has
//     not been reached. In the last 24 hours, at most one eviction of the owner's pods did not end
//     its shortage.
//   - The pod exists with the same UID on the node. It has been running long enough, has an owner
//     that replaces it, declares no more than the telemetry shows, and is not protected.
//
// If several pods qualify, the one with the largest overshoot is chosen. If that pod is already
// terminating or cannot be identified, the evaluation waits.
package decide
