//go:generate mdatagen metadata.yaml

// Package gpuwatchdogexporter watches the free memory of GPUs. If a device runs out
// of memory because a pod is over its declared budget, it evicts the pod, or in dry
// run reports that it would.
//
// The exporter reads pdata, reads the pods from the API server, keeps the lease and
// the state, and carries out decisions. internal/decide makes the decisions.
package gpuwatchdogexporter
