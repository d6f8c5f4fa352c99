// Package manifests checks examples/kubernetes against a real API server: that it
// takes every manifest, that the service accounts may do what the collectors need and
// nothing else, and that the collectors work under these permissions.
//
// The parts need what `make check` gives them, a control plane (see test/support/controlplane) and
// the built commands, and are skipped otherwise.
package manifests
