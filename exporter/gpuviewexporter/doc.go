//go:generate mdatagen metadata.yaml

// Package gpuviewexporter keeps recent windows in memory. The exporter serves a live page,
// OpenCost's Allocation API and, if enabled, the accelerator fields that the kubelet's summary API
// used to have.
//
// This package reads pdata and serves HTTP requests. The internal/store package stores the windows.
// The internal/allocation and internal/live packages convert the windows into responses.
package gpuviewexporter
