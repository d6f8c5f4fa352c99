//go:generate mdatagen metadata.yaml

// Package gpumemoryresourceextension advertises GPU memory as an extended resource of nodes. The
// scheduler then compares the memory that pods request with the memory that a node advertises. If a
// node loses the resource, the package advertises the resource again.
package gpumemoryresourceextension
