//go:generate mdatagen metadata.yaml

// Package gpuwatchdogexporter watches the free memory of GPUs. If a device is about to run out of
// memory and a pod exceeds its declared budget, the exporter evicts the pod. In a dry run, the
// exporter only reports which pod it would evict.
//
// This package receives metrics, reads pods from the API server, maintains the Lease and the stored
// state, and carries out decisions. The internal/decide package makes the decisions.
package gpuwatchdogexporter
