// Package controlplane runs a real Kubernetes control plane for tests: etcd and kube-apiserver
// through controller-runtime's envtest, and kube-scheduler for tests that need it. There is no
// kubelet, no DRA driver, and no controller manager. Tests must therefore create nodes,
// ResourceSlices, and DeviceClasses themselves. [Plane.Namespace] deletes the objects in a
// namespace. No claims are created from ResourceClaimTemplates.
//
// Each test binary has one plane. The first call to Start starts the plane, which takes a few
// seconds, and [Main] stops it. A package that uses the plane therefore needs
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(controlplane.Main(m)) }
//
// All tests in a package share the plane, but each test has its own namespaces. Cluster-scoped
// objects (nodes, ResourceSlices, and DeviceClasses) are removed at the end of the test that
// created them.
//
// OTELCOL_GPU_CONTROLPLANE is the directory of the binaries, which `make check` builds from the
// module test/controlplane. If the variable is not set, Start skips the test.
// KUBEBUILDER_ATTACH_CONTROL_PLANE_OUTPUT=true shows the output of etcd and the API server. If a
// test binary panics or times out, the plane's processes keep running.
package controlplane
