//go:generate mdatagen metadata.yaml

// Package gpumemoryresourceextension advertises GPU memory as an extended resource of nodes, so
// that the scheduler adds up the memory that pods declare. If a node loses the resource, the
// package advertises it again.
package gpumemoryresourceextension
