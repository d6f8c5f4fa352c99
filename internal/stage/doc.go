// Package stage provides what the components that process frames share: state for each node, with
// its own lock, and limits for the state of all nodes together.
package stage
