//go:generate mdatagen metadata.yaml

// Package gpuwindowprocessor computes ratios, counts, means, and maxima of samples over aligned
// time windows. The processor also computes the share of each window during which a device was
// observed.
//
// The processor uses the engine in internal/window. The processor reads metrics and frames, closes
// windows according to the wall clock, stores the engine's state in a storage extension, and writes
// metrics. Only the default rules and the identity of series are specific to GPUs.
package gpuwindowprocessor
