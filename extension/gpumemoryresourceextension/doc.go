//go:generate mdatagen metadata.yaml

// Package gpumemoryresourceextension advertises GPU memory as an extended resource
// of nodes, so that the scheduler adds up what pods declare, and advertises it again
// when a node loses it.
package gpumemoryresourceextension
