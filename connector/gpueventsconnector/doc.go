//go:generate mdatagen metadata.yaml

// Package gpueventsconnector writes a log record for each event on a GPU. The package
// internal/events finds the events, and gpueventsconnector makes internal/events available as a
// Collector component.
package gpueventsconnector
