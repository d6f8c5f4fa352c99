// Package kube is what every component knows of Kubernetes: one cache of API
// objects per process ([Acquire]) and a client of the kubelet's PodResources API
// ([NewPodResources]).
//
// # The cache
//
// Components that ask for the same [Options] share informers. Nothing is
// fetched before a component says which kinds it needs, nothing waits for the
// API server, and nothing fails because of it: a server that cannot be reached,
// an API that is not served and a permission that is missing are a [State] of
// the kind, one log line, and picked up without a restart when they appear. The
// objects last seen stay readable meanwhile.
//
// Objects are cut to the fields that components use when they arrive, see
// transform.go; whoever reads a new field adds it there.
//
// Objects of resource.k8s.io are always those of version v1. Where the server
// serves only v1beta2 or v1beta1 they are converted on arrival.
//
// # Permissions
//
// list and watch on the kinds that are needed, and nothing else. RBAC cannot
// tell one node's pods from another's, so that an agent that sees only the pods
// of its node by field selector still needs the permission for all.
package kube
