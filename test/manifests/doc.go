// Package manifests checks examples/kubernetes against a real API server: that it
// takes every manifest, that the service accounts may do what the collectors need and
// nothing else, and that the collectors work under these permissions.
//
// The parts need what `make unit` (a control plane, see internal/controlplane) and
// `make examples` (the built commands as well) give them, and are skipped otherwise.
package manifests
