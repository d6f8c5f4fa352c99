// Package stage contains code for all components that process frames. The package provides the
// batch of frames that a stage processes, the state of each node with a separate lock, and limits
// on the state of all nodes together. The package does not depend on the Collector.
package stage
