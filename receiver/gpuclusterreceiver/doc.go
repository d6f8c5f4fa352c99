//go:generate mdatagen metadata.yaml

// Package gpuclusterreceiver watches the API server and says what a cluster has
// of GPUs and what is asked of it: the scheduler's view and that of Dynamic
// Resource Allocation. One replica among several emits, by leader election.
//
// Objects become plain structs when they change (convert.go), internal/demand
// computes points of them, and the rest is when to emit and how.
package gpuclusterreceiver
