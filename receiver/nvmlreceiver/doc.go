//go:generate mdatagen metadata.yaml

// Package nvmlreceiver makes samples of GPUs, MIG instances and the processes on
// them from NVIDIA's management library, on machines without a dcgm-exporter, or
// beside one for the processes alone.
package nvmlreceiver
