//go:generate mdatagen metadata.yaml

// Package gpuviewexporter keeps recent windows in memory. The exporter serves a live page,
// OpenCost's Allocation API and, if enabled, the accelerator fields that the kubelet's summary API
// used to have.
//
// This package reads pdata and serves HTTP requests. The windows are stored by the package
// internal/store. The packages internal/allocation and internal/live convert the windows into
// responses.
package gpuviewexporter
