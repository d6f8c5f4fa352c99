//go:generate mdatagen metadata.yaml

// Package gpuk8sprocessor attributes GPUs to containers. The processor repeats each series of a
// device for every container that holds the device. The processor finds the holders in the
// kubelet's PodResources API, ResourceClaims, schedulers' annotations, the exporter's labels, or
// the processes on the device.
package gpuk8sprocessor
