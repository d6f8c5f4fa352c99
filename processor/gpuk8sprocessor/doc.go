//go:generate mdatagen metadata.yaml

// Package gpuk8sprocessor attributes GPUs to containers: it repeats each series of a device for
// every container that holds the device. The holders come from the kubelet's PodResources API,
// ResourceClaims, the exporter's labels, or the processes on the device.
package gpuk8sprocessor
