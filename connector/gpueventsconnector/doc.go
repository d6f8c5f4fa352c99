//go:generate mdatagen metadata.yaml

// Package gpueventsconnector writes a log record for each change to a GPU. The package
// internal/events finds the events in frames. This package connects it to the Collector.
package gpueventsconnector
