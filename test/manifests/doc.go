// Package manifests tests the manifests in examples/kubernetes against a real API server. The API
// server must accept every manifest, the service accounts must have exactly the permissions that
// the collectors need, and the collectors must work with only these permissions.
//
// The tests need a control plane (see test/support/controlplane) and the built commands, which
// `make check` provides. If the control plane or the commands are not available, the tests are
// skipped.
package manifests
