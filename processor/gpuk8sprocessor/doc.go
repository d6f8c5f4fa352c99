//go:generate mdatagen metadata.yaml

// Package gpuk8sprocessor says which container holds which GPU: it repeats a
// device's series under every container that holds it, by the kubelet's
// PodResources, ResourceClaims, the exporter's labels or the processes seen on
// the device.
package gpuk8sprocessor
