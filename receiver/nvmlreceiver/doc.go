//go:generate mdatagen metadata.yaml

// Package nvmlreceiver collects samples of GPUs, MIG instances and their processes from
// NVIDIA's management library (NVML). It is meant for machines without a dcgm-exporter, or
// in addition to one for the processes only.
package nvmlreceiver
