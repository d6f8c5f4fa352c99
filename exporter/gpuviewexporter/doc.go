//go:generate mdatagen metadata.yaml

// Package gpuviewexporter keeps the windows of the last hours in memory. It
// serves a live page, OpenCost's Allocation API and, if enabled, the accelerator
// part of the kubelet's former summary API.
//
// The exporter reads pdata and serves HTTP. internal/store keeps the windows,
// and internal/allocation and internal/live convert them into responses.
package gpuviewexporter
