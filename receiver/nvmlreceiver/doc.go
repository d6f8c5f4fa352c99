//go:generate mdatagen metadata.yaml

// Package nvmlreceiver collects samples of GPUs, MIG instances and their processes from the NVIDIA
// Management Library (NVML). It is intended for machines without dcgm-exporter. On machines with
// dcgm-exporter, it can collect only the processes.
package nvmlreceiver
