//go:generate mdatagen metadata.yaml

// Package gpueventsconnector makes log records of what changes on a GPU. It is the border of
// internal/events, which finds the events in frames.
package gpueventsconnector
