// Package stage provides state for each node, with its own lock, and limits for the state of all
// nodes together. The components that process frames use it.
package stage
