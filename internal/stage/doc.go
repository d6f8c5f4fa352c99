// Package stage has what the components that compute on frames share: the state of each node with
// its own lock, and limits for the state of all nodes together.
package stage
