// Package kube has everything that components need from Kubernetes: one cache of API objects per
// process ([Acquire]) and a client of the kubelet's PodResources API ([NewPodResources]).
//
// # The cache
//
// Components with equal [Options] share informers. Objects of a kind are fetched when the first
// component needs them. No call waits for the API server or fails because of it. If the server
// cannot be reached, does not serve an API, or denies access, the kind has a corresponding [State],
// which is logged once. When the problem is solved, the objects are fetched without a restart.
// Until then the objects that were last fetched can still be read.
//
// Objects are reduced to the fields that components use when they arrive, see transform.go. To use
// another field, add it there.
//
// Objects of resource.k8s.io always have version v1. If the server only serves v1beta2 or v1beta1,
// they are converted when they arrive.
//
// # Permissions
//
// The service account needs list and watch on the kinds that are used, and nothing else. RBAC
// cannot be limited to the pods of one node. So an agent that selects the pods of its node with a
// field selector still needs permission for all pods.
package kube
