// Package stage contains what the components that compute on frames share: the batch of frames that a
// stage processes, state for each node with its own lock, and limits for the state of all nodes
// together. It does not depend on the Collector.
package stage
