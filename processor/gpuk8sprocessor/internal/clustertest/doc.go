// Package clustertest tests the gpu_k8s processor against a real API server and,
// behind it, the upstream k8s_attributes processor.
package clustertest
