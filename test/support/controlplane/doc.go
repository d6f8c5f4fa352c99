// Package controlplane runs a real Kubernetes control plane for tests: etcd and kube-apiserver
// through controller-runtime's envtest, and kube-scheduler for tests that need it. There is no
// kubelet, no DRA driver, and no controller manager. So tests create nodes, slices, and classes
// themselves, [Plane.Namespace] deletes the objects in a namespace, and no claims are created from
// claim templates.
//
// A test binary has one plane. The first Start starts it, which takes a few seconds, and [Main]
// stops it, so a package that uses it needs
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(controlplane.Main(m)) }
//
// The tests of a package share the plane. Each test has its own namespaces. Objects without a
// namespace (nodes, slices, classes) are removed when the test that created them ends.
//
// OTELCOL_GPU_CONTROLPLANE is the directory of the binaries. `make check` builds them from the
// module test/controlplane. Without it, Start skips the test.
// KUBEBUILDER_ATTACH_CONTROL_PLANE_OUTPUT=true shows the output of etcd and the API server. If a
// test binary panics or times out, its plane keeps running.
package controlplane
