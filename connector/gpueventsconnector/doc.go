//go:generate mdatagen metadata.yaml

// Package gpueventsconnector writes a log record for each change of a GPU. internal/events finds
// the events in frames; this package connects it to the Collector.
package gpueventsconnector
