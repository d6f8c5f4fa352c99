//go:generate mdatagen metadata.yaml

// Package gpumemoryresourceextension advertises GPU memory as an extended resource of nodes. The
// scheduler then adds up the memory that pods request. If a node loses the resource, the package
// advertises it again.
package gpumemoryresourceextension
