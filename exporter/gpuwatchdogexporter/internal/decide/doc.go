// Package decide holds the watchdog's decision: from what telemetry says of a
// device, what the API server says of the pods on it and what was decided before,
// to at most one pod to evict, always with a reason. It does no I/O, has no clock
// and keeps nothing: [Evaluate] is a function of its arguments.
//
// A pod is chosen only when all of this holds:
//   - the device's sample is fresh, free of contradictions, and the containers'
//     memory is known to add up to the device's (attribution valid);
//   - the device was below the floor in this and the Breaches-1 evaluations
//     before, each with a sample of its own, without a hole in between and without
//     having been above the clear floor since;
//   - the pod is over its declared budget by more than the least overshoot, and was
//     over it in each of these evaluations;
//   - neither the device nor the pod's owner was acted on lately, and the hourly
//     cap leaves room;
//   - the pod exists with that UID on that node, runs long enough, has an owner
//     that replaces it, and nothing protects it.
//
// Of several the one with the largest overshoot is chosen. When the largest one is
// already going away, or nobody can say what it is, the evaluation waits.
package decide
