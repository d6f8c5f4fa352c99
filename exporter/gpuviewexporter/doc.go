//go:generate mdatagen metadata.yaml

// Package gpuviewexporter keeps recent windows in memory. It serves a live page, OpenCost's
// Allocation API and, if enabled, the accelerator part of the kubelet's former summary API.
//
// This package reads pdata and serves HTTP. The package internal/store keeps the windows. The
// packages internal/allocation and internal/live convert the windows into responses.
package gpuviewexporter
