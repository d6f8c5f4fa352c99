// Package stage contains code for all components that compute on frames: the batch of frames that a
// stage processes, the state of each node with its own lock, and the limits on the state of all
// nodes together. It does not depend on the Collector.
package stage
