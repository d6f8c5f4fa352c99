// Package kube gives components access to Kubernetes. [Acquire] returns a cache of API objects,
// which the components in the process share. [NewPodResources] returns a client for the kubelet's
// PodResources API.
//
// # The cache
//
// Components with equal [Options] share informers. The cache starts to fetch the objects of a kind
// when a component first needs them. Reading from the cache never waits for the API server and
// never fails because of an API error. If the API server cannot be reached, does not serve an API,
// or denies access, the [State] of the kind contains the problem, and the problem is logged once.
// Components can still read the objects that were fetched before the problem. When the problem has
// been solved, the cache fetches the objects again without a restart.
//
// When objects arrive, the cache removes all fields that components do not use. To use an
// additional field, change transform.go so that the cache keeps the field.
//
// In the cache, objects of resource.k8s.io always have version v1. If the server serves only
// v1beta2 or v1beta1, package kube converts the objects.
//
// # Permissions
//
// For the cache, the service account needs permission only to list and watch the kinds that are
// used. RBAC permissions cannot be limited to the pods on one node. Therefore, an agent needs
// permission for all pods, although a field selector limits the agent's requests to one node.
package kube
