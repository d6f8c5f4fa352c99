// Package kube gives components access to Kubernetes. [Acquire] returns a cache of API objects. The
// components in the process share this cache. [NewPodResources] returns a client for the kubelet's
// PodResources API.
//
// # The cache
//
// Components with equal [Options] share informers. The objects of a kind are fetched when the first
// component needs them. Reading from the cache never waits for the API server and never fails
// because of an API error. If the API server cannot be reached, does not serve an API, or denies
// access, the [State] of the kind contains the problem, and the problem is logged once. The objects
// that were last fetched can still be read. When the problem has been solved, the objects are
// fetched without a restart.
//
// When objects arrive, all fields that components do not use are removed. To use another field,
// keep it in transform.go.
//
// In the cache, objects of resource.k8s.io always have version v1. If the server serves only
// v1beta2 or v1beta1, package kube converts the objects.
//
// # Permissions
//
// For the cache, the service account only needs permission to list and watch the kinds that are
// used. RBAC permissions cannot be limited to the pods of one node. An agent therefore needs
// permission for all pods, although a field selector limits its requests to one node.
package kube
