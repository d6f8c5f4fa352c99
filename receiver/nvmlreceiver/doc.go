//go:generate mdatagen metadata.yaml

// Package nvmlreceiver collects samples of GPUs, MIG instances, and their processes from NVIDIA's
// management library (NVML). It is meant for machines without dcgm-exporter. With dcgm-exporter, it
// can collect only the processes.
package nvmlreceiver
