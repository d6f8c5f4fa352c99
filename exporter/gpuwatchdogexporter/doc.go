//go:generate mdatagen metadata.yaml

// Package gpuwatchdogexporter watches the free memory of GPUs. If a device runs out of memory
// because a pod exceeds its declared budget, the exporter evicts the pod. In a dry run, it only
// reports the pod.
//
// This package receives metrics, reads pods from the API server, maintains the lease and the stored
// state, and carries out decisions. The package internal/decide makes the decisions.
package gpuwatchdogexporter
