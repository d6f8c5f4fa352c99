//go:generate mdatagen metadata.yaml

// Package gpueventsconnector writes a log record for each event on a GPU. The internal/events
// package finds the events. Package gpueventsconnector makes that package available as a Collector
// component.
package gpueventsconnector
