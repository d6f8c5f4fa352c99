//go:generate mdatagen metadata.yaml

// Package gpuwatchdogexporter watches the free memory of GPUs and, when one runs
// out of it because a pod is over its declared budget, has that pod evicted, or
// says in dry run that it would.
//
// The exporter is the thin shell around internal/decide, which decides: it reads
// pdata, asks the API server what the pods are, keeps the lease and the state, and
// does what was decided.
package gpuwatchdogexporter
