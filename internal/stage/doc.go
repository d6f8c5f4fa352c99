// Package stage is used by all components that compute on frames. It contains the batch of frames
// that a stage processes, the state for each node with its own lock, and the limits for the state
// of all nodes together. It does not depend on the Collector.
package stage
