//go:generate mdatagen metadata.yaml

// Package gpuclusterreceiver watches the API server and emits a cluster's GPU capacity and demand
// as the scheduler and Dynamic Resource Allocation determine them. With several replicas, leader
// election selects the one that emits.
//
// convert.go converts each changed object to a plain struct. internal/demand computes points from
// these structs, and the rest of the package emits the points.
package gpuclusterreceiver
