// Package decide holds the watchdog's decision: it takes the telemetry of a device, the pods on
// it as the API server has them, and earlier decisions, and chooses at most one pod to evict,
// always with a reason. It does no I/O, has no clock and keeps nothing: [Evaluate] is a function
// of its arguments.
//
// A pod is chosen only when all of this holds:
//   - the device's sample is fresh, free of contradictions, and the containers'
//     memory is known to add up to the device's (attribution valid);
//   - the device was below the floor in this and the Breaches-1 evaluations
//     before, each with a sample of its own, without a hole in between and without
//     having been above the clear floor since;
//   - the pod is over its declared budget by more than the least overshoot, and was
//     over it in each of these evaluations;
//   - no cool-down of the device or, on any node, of the pod's owner is active, the
//     hourly cap is not reached, and earlier evictions of the owner ended their shortage;
//   - the pod exists with that UID on that node, runs long enough, has an owner
//     that replaces it, declares no more than telemetry has, and nothing protects it.
//
// Of several pods the one with the largest overshoot is chosen. If that one is already
// terminating, or cannot be identified, the evaluation waits.
package decide
