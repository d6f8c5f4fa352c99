// Package decide makes the watchdog's decisions. For each device, the package selects at most one
// pod to evict, based on the device's telemetry, the state of the device's pods in the API server,
// and earlier decisions. Each decision has a reason. The package does no I/O, has no clock and
// stores no state. [Evaluate] has no side effects.
//
// A pod is chosen only if all of these conditions are met:
//   - The device's sample is fresh and consistent, and its attribution state is valid, which means
//     that the memory usage of the containers adds up to the device's memory usage.
//   - The device was below the floor in the required number of evaluations (Policy.Breaches),
//     including the current one. Each evaluation used a different sample. Between the required
//     evaluations, there was no gap in the samples, no fresh sample was inconsistent or had an
//     attribution state other than valid, and the free memory did not reach the clear floor.
//   - The pod is over its declared budget by more than the minimum overshoot. The pod was over its
//     budget in each of the required evaluations.
//   - No cool-down is active for the device, or for the pod's owner on any node. The hourly cap has
//     not been reached. In the last 24 hours, at most one eviction of a pod of the same owner
//     failed to end a shortage.
//   - The pod exists on the node with the same UID. The pod has been running long enough, has a
//     controller that will replace it, declares no larger budget than the telemetry shows, and is
//     not protected.
//
// If several pods qualify, the pod with the largest overshoot is chosen. If a pod with a larger
// overshoot is already terminating or cannot be identified, no pod is chosen.
package decide
