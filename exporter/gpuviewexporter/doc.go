//go:generate mdatagen metadata.yaml

// Package gpuviewexporter keeps the last hours of windows in memory and serves a
// live page, OpenCost's Allocation API and, on request, the accelerators of the
// kubelet's old summary.
//
// The exporter is the thin shell around internal/store, which keeps the windows,
// and internal/allocation and internal/live, which tell them: it reads pdata and
// speaks HTTP.
package gpuviewexporter
