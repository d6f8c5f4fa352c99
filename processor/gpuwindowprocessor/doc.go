//go:generate mdatagen metadata.yaml

// Package gpuwindowprocessor turns samples into aligned windows of time: ratios,
// counts, means and maxima, with the share of each window that was observed.
//
// The processor is a shell around the engine in internal/window: it reads metrics and frames,
// runs the engine by the clock, keeps its state in a storage extension and writes metrics. Only
// the default rules and the identity of series are about GPUs.
package gpuwindowprocessor
