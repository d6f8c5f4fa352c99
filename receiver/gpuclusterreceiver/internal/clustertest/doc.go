// Package clustertest runs the gpu_cluster receiver against a real Kubernetes
// control plane.
package clustertest
