//go:generate mdatagen metadata.yaml

// Package gpuwatchdogexporter watches the free memory of GPUs. If a device runs out of memory
// because a pod is over its declared budget, the exporter evicts the pod. In a dry run, it only
// reports the pod.
//
// The exporter reads metrics, reads pods from the API server, maintains the lease and the state,
// and carries out decisions. internal/decide makes the decisions.
package gpuwatchdogexporter
