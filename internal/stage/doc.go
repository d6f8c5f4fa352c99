// Package stage contains code for all components that process frames. The package provides batches
// of frames for stages, a separately locked state for each node, and limits on the state of all
// nodes together. The package does not depend on the Collector.
package stage
