//go:generate mdatagen metadata.yaml

// Package gpuwindowprocessor computes ratios, counts, means and maxima over aligned time windows
// from samples, with the share of each window that was observed.
//
// The processor runs the engine in internal/window: it reads metrics and frames, runs the engine by
// the clock, keeps its state in a storage extension and writes metrics. Only the default rules and
// the identity of series are specific to GPUs.
package gpuwindowprocessor
