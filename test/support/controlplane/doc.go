// Package controlplane runs a real Kubernetes control plane for tests: etcd and
// kube-apiserver by way of controller-runtime's envtest, and kube-scheduler for the
// tests that ask for it. There is no kubelet, no DRA driver and no controller
// manager: a test creates nodes, slices and classes as those would, a Namespace is
// emptied by its helper, and nothing makes claims out of claim templates.
//
// A test binary has one plane, which the first Start starts in some seconds and
// [Main] stops, so a package that uses it has
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(controlplane.Main(m)) }
//
// Tests of a package share the plane's objects: namespaces are each test's own, what
// has none (nodes, slices, classes) is removed when the test that made it ends.
//
// The binaries lie in the directory that OTELCOL_GPU_CONTROLPLANE names; `make check`
// builds them from the module test/controlplane. Without it, Start skips the test.
// KUBEBUILDER_ATTACH_CONTROL_PLANE_OUTPUT=true shows what etcd and the API server say.
// A test binary that panics or runs out of time leaves its plane running.
package controlplane
