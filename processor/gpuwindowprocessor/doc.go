//go:generate mdatagen metadata.yaml

// Package gpuwindowprocessor turns samples into aligned windows of time: ratios,
// counts, means and maxima, with the share of each window that was observed.
//
// The processor is the thin shell around the engine in internal/window: it reads
// pdata, drives the engine by the clock, keeps its state in a storage extension
// and writes pdata. What GPUs have to do with it is in the default rules alone.
package gpuwindowprocessor
