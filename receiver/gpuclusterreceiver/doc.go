//go:generate mdatagen metadata.yaml

// Package gpuclusterreceiver watches the API server and emits a cluster's GPU capacity and
// demand, as seen by the scheduler and Dynamic Resource Allocation. With several replicas,
// leader election selects the one that emits.
//
// convert.go converts each changed object into a plain struct. internal/demand computes points
// from these structs, and the rest of the package emits the points.
package gpuclusterreceiver
