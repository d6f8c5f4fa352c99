//go:generate mdatagen metadata.yaml

// Package gpuclusterreceiver watches the API server and emits a cluster's GPU capacity and
// demand, as the scheduler and Dynamic Resource Allocation see them. Of several replicas one
// emits, by leader election.
//
// Objects become plain structs when they change (convert.go), internal/demand computes points
// from them, and the rest of the package emits these.
package gpuclusterreceiver
