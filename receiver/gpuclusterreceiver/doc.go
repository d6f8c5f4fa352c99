//go:generate mdatagen metadata.yaml

// Package gpuclusterreceiver watches the API server and emits the GPU capacity of a cluster and the
// demand for GPUs. The package counts pods and claims by the same rules that the scheduler and
// Dynamic Resource Allocation (DRA) use. If the collector has several replicas, leader election
// selects the replica that emits points.
//
// The code in convert.go converts each changed object to a plain struct. The internal/demand
// package computes points from the structs. The rest of this package emits the points.
package gpuclusterreceiver
