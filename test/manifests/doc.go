// Package manifests checks examples/kubernetes against a real API server. The server accepts every
// manifest, the service accounts have exactly the permissions that the collectors need, and the
// collectors work with these permissions.
//
// The tests need the environment of `make check`: a control plane (see test/support/controlplane)
// and the built commands. Otherwise they are skipped.
package manifests
