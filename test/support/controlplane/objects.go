package controlplane

import (
	"bufio"
	"context"
	"errors"
	"io"
	"maps"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// NVIDIADriver is the name of NVIDIA's DRA driver for GPUs. The driver's device class for full GPUs
// has the same name.
const NVIDIADriver = "gpu.nvidia.com"

// Create creates an object of any built-in kind, updates obj to the API server's version of the
// object, and removes the object at the end of the test. The test fails if obj contains an unknown
// field.
func (p *Plane) Create(t testing.TB, obj client.Object) {
	t.Helper()
	require.NoError(t, p.objects.Create(t.Context(), obj))
	p.removeAfter(t, obj)
}

// Apply applies the objects in manifests in order, as `kubectl apply --server-side` does, and
// removes them at the end of the test. The test fails if an object contains an unknown or duplicate
// field. Apply returns the API server's versions of the objects.
func (p *Plane) Apply(t testing.TB, manifests string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := Decode(manifests)
	require.NoError(t, err)
	for _, obj := range objects {
		require.NoError(t, p.apply(t.Context(), obj), "%s %s", obj.GetKind(), obj.GetName())
		p.removeAfter(t, obj)
	}
	return objects
}

func (p *Plane) apply(ctx context.Context, obj *unstructured.Unstructured) error {
	return p.objects.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner("test"), client.ForceOwnership)
}

// Decode parses YAML documents and returns their objects. Documents may be empty. A duplicate field
// is an error.
func Decode(manifests string) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	reader := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(manifests)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		obj := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(document, &obj.Object); err != nil {
			return nil, err
		}
		if len(obj.Object) > 0 {
			objects = append(objects, obj)
		}
	}
}

// Namespace creates a namespace for the test and returns the namespace's name. At the end of the
// test, all pods and ResourceClaims in the namespace are removed.
func (p *Plane) Namespace(t testing.TB) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	p.Create(t, namespace)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		var pods corev1.PodList
		require.NoError(t, p.objects.List(ctx, &pods, client.InNamespace(namespace.Name)))
		for i := range pods.Items {
			p.remove(t, &pods.Items[i])
		}
		var claims resourcev1.ResourceClaimList
		require.NoError(t, p.objects.List(ctx, &claims, client.InNamespace(namespace.Name)))
		for i := range claims.Items {
			p.remove(t, &claims.Items[i])
		}
	})
	return namespace.Name
}

// CreateNode creates a node as a kubelet does, and removes the node at the end of the test. Missing
// fields are set to the values of a healthy node, which has 64 CPUs, 256 GiB of memory, room for
// 110 pods, allocatable resources equal to its capacity, and the Ready condition.
func (p *Plane) CreateNode(t testing.TB, node *corev1.Node) {
	t.Helper()
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("64"),
		corev1.ResourceMemory: resource.MustParse("256Gi"),
		corev1.ResourcePods:   resource.MustParse("110"),
	}
	maps.Copy(capacity, node.Status.Capacity)
	node.Status.Capacity = capacity
	allocatable := capacity.DeepCopy()
	maps.Copy(allocatable, node.Status.Allocatable)
	node.Status.Allocatable = allocatable
	if node.Status.Conditions == nil {
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}}
	}
	taints := node.Spec.Taints
	p.Create(t, node)

	// The API server adds a not-ready taint to new nodes. Remove the taint, as a controller usually
	// would.
	node.Spec.Taints = taints
	require.NoError(t, p.objects.Update(t.Context(), node))
}

// NVIDIASlice returns the ResourceSlice that NVIDIA's DRA driver publishes for a node's full GPUs.
// The slice is a complete pool with the node's name. For the n-th UUID, the slice contains a device
// gpu-<n> with 80 GiB of memory.
func NVIDIASlice(node string, uuids ...string) *resourcev1.ResourceSlice {
	kind, product := "gpu", "NVIDIA H100 80GB HBM3"
	slice := &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: node + "-" + NVIDIADriver},
		Spec: resourcev1.ResourceSliceSpec{
			Driver:   NVIDIADriver,
			NodeName: &node,
			Pool:     resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
		},
	}
	for n, uuid := range uuids {
		slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{
			Name: "gpu-" + strconv.Itoa(n),
			Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
				"type":        {StringValue: &kind},
				"uuid":        {StringValue: &uuid},
				"productName": {StringValue: &product},
			},
			Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{
				"memory": {Value: resource.MustParse("80Gi")},
			},
		})
	}
	return slice
}

// NVIDIAClass returns the device class of NVIDIA's DRA driver for full GPUs, without an extended
// resource name.
func NVIDIAClass() *resourcev1.DeviceClass {
	return &resourcev1.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: NVIDIADriver},
		Spec: resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{
			Expression: `device.driver == "` + NVIDIADriver + `" && device.attributes["` + NVIDIADriver + `"].type == "gpu"`,
		}}}},
	}
}

func (p *Plane) removeAfter(t testing.TB, obj client.Object) {
	t.Helper()
	t.Cleanup(func() { p.remove(t, obj) })
}

// remove deletes an object immediately. Because no controllers run, remove also removes the
// object's finalizers and finalizes namespaces.
func (p *Plane) remove(t testing.TB, obj client.Object) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	require.NoError(t, client.IgnoreNotFound(p.objects.Delete(ctx, obj, client.GracePeriodSeconds(0))))
	kind, err := p.objects.GroupVersionKindFor(obj)
	require.NoError(t, err)
	if kind.Kind == "Namespace" {
		ended := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: obj.GetName()}}
		_, err = p.admin.CoreV1().Namespaces().Finalize(ctx, ended, metav1.UpdateOptions{})
	} else {
		unheld := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		err = p.objects.Patch(ctx, obj, unheld)
	}
	require.NoError(t, client.IgnoreNotFound(err))
}
