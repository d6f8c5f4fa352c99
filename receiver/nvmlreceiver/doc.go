//go:generate mdatagen metadata.yaml

// Package nvmlreceiver collects samples of GPUs, MIG instances, and their processes from the NVIDIA
// Management Library (NVML). The receiver is intended for machines without dcgm-exporter. On
// machines with dcgm-exporter, the receiver can be configured to collect only samples of processes.
package nvmlreceiver
