// Package kube gives components access to Kubernetes. [Acquire] returns a cache of API objects that
// components in the process share. [NewPodResources] returns a client for the kubelet's
// PodResources API.
//
// # The cache
//
// Components with equal [Options] share informers. Objects of a kind are fetched when the first
// component needs them. No call waits for the API server or fails because of it. If the server
// cannot be reached, does not serve an API, or denies access, the [State] of the kind shows this,
// and the problem is logged once. The objects that were last fetched can still be read. When the
// problem is solved, the objects are fetched without a restart.
//
// When objects arrive, they are reduced to the fields that components use. To use another field,
// add it in transform.go.
//
// Objects of resource.k8s.io always have version v1. If the server serves only v1beta2 or v1beta1,
// the package converts them.
//
// # Permissions
//
// The service account needs only the permissions to list and watch the kinds that are used. RBAC
// cannot be limited to the pods of one node. Therefore, an agent needs permission for all pods,
// although a field selector limits its requests to one node.
package kube
