//go:generate mdatagen metadata.yaml

// Package gpuclusterreceiver watches the API server and emits the GPU capacity of a cluster and the
// demand for GPUs. The package counts pods and claims by the same rules that the scheduler and
// Dynamic Resource Allocation (DRA) use. If the collector has several replicas, leader election
// selects the replica that emits points.
//
// The code in convert.go, conditions.go, and health.go converts changed pods, nodes, and
// ResourceSlices. Other objects are not converted. The internal/demand package computes points from
// the objects. The rest of this package emits the points.
package gpuclusterreceiver
