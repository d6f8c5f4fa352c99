package cluster

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/controlplane"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/notruntest"
)

// acquired returns a cache of a real API server's objects. The cache is released at the end of the
// test.
func acquired(t *testing.T, kubeconfig string, o kube.Options) *kube.Cache {
	t.Helper()
	o.Config = kube.Config{AuthType: kube.AuthKubeConfig, KubeConfig: kubeconfig}
	c, err := kube.Acquire(o, componenttest.NewNopTelemetrySettings())
	require.NoError(t, err)
	t.Cleanup(c.Release)
	return c
}

// The reaches function waits until the cache of the given kind is in the given phase.
func reaches(t *testing.T, c *kube.Cache, k kube.Kind, phase kube.Phase) {
	t.Helper()
	require.Eventually(t, func() bool { return c.State(k).Phase == phase }, patience, poll)
}

// lines returns a sorted list that contains the level, kind, and state of each log entry.
func lines(logs *observer.ObservedLogs) []string {
	var list []string
	for _, entry := range logs.All() {
		list = append(list, entry.Level.String()+" "+entry.ContextMap()["kind"].(string)+" "+entry.ContextMap()["state"].(string))
	}
	slices.Sort(list)
	return list
}

func placedPod(namespace, name, node string) *corev1.Pod {
	p := waitingPod(namespace, name, func(*corev1.PodSpec) {})
	p.Spec.NodeName = node
	return p
}

func claimFor(namespace, name string) *resourcev1.ResourceClaim {
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
			Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: controlplane.NVIDIADriver},
		}}}},
	}
}

func TestAnAgentSeesWhatBelongsToItsNode(t *testing.T) {
	plane := controlplane.Start(t)
	namespace := plane.Namespace(t)
	for _, node := range []string{"node-1", "node-2"} {
		plane.CreateNode(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})
		plane.Create(t, placedPod(namespace, "on-"+node, node))
		plane.Create(t, controlplane.NVIDIASlice(node, gpu0))
	}
	plane.Create(t, placedPod(namespace, "waiting", ""))

	agent := acquired(t, plane.KubeConfig(t), kube.Options{NodeName: "node-1"})
	agent.Need(everyKind...)
	require.NoError(t, agent.WaitSynced(t.Context(), everyKind...))
	require.Len(t, agent.Pods(), 1)
	assert.Equal(t, "on-node-1", agent.Pods()[0].Name)
	require.Len(t, agent.Nodes(), 1)
	assert.Equal(t, "node-1", agent.Nodes()[0].Name)
	require.Len(t, agent.ResourceSlices(), 1)
	assert.Equal(t, gpu0, *agent.ResourceSlices()[0].Spec.Devices[0].Attributes["uuid"].StringValue)

	central := acquired(t, plane.KubeConfig(t), kube.Options{Namespace: namespace})
	central.Need(everyKind...)
	require.NoError(t, central.WaitSynced(t.Context(), everyKind...))
	assert.Len(t, central.Pods(), 3)
	assert.Len(t, central.Nodes(), 2)
	assert.Len(t, central.ResourceSlices(), 2)

	plane.Create(t, placedPod(namespace, "late", "node-1"))
	require.Eventually(t, func() bool { _, found := agent.Pod(namespace, "late"); return found }, patience, poll)
}

func TestNoObjectIsLostInAnAPIServerOutage(t *testing.T) {
	plane := controlplane.Start(t)
	namespace := plane.Namespace(t)
	plane.Create(t, placedPod(namespace, "before", "node-1"))
	plane.Create(t, controlplane.NVIDIASlice("node-1", gpu0))
	plane.Create(t, claimFor(namespace, "claim"))
	way := wayTo(t, plane.KubeConfig(t))
	c := acquired(t, way.kubeconfig, kube.Options{})
	c.Need(everyKind...)
	require.NoError(t, c.WaitSynced(t.Context(), everyKind...))

	way.block()
	for _, k := range everyKind {
		reaches(t, c, k, kube.Stale)
		require.Error(t, c.State(k).Err)
		assert.False(t, c.State(k).Since.IsZero())
	}
	_, found := c.Pod(namespace, "before")
	assert.True(t, found, "known objects are kept")
	assert.Len(t, c.ResourceSlices(), 1)
	assert.Len(t, c.ResourceClaims(), 1)
	require.NoError(t, c.WaitSynced(t.Context(), everyKind...), "waiting would not help")

	plane.Create(t, placedPod(namespace, "after", "node-1"))
	require.NoError(t, plane.Admin().CoreV1().Pods(namespace).Delete(t.Context(), "before", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	way.open(t)
	for _, k := range everyKind {
		reaches(t, c, k, kube.Synced)
	}
	require.Eventually(t, func() bool {
		_, before := c.Pod(namespace, "before")
		_, after := c.Pod(namespace, "after")
		return after && !before
	}, patience, poll)
}

func TestAnInterruptedWatchIsResumed(t *testing.T) {
	plane := controlplane.Start(t)
	namespace := plane.Namespace(t)
	way := wayTo(t, plane.KubeConfig(t))
	core, logs := observer.New(zapcore.DebugLevel)
	set := componenttest.NewNopTelemetrySettings()
	set.Logger = zap.New(core)
	c, err := kube.Acquire(kube.Options{Config: kube.Config{AuthType: kube.AuthKubeConfig, KubeConfig: way.kubeconfig}}, set)
	require.NoError(t, err)
	t.Cleanup(c.Release)
	c.Need(kube.Pods)
	require.NoError(t, c.WaitSynced(t.Context(), kube.Pods))
	way.cut()
	plane.Create(t, placedPod(namespace, "after", "node-1"))
	require.Eventually(t, func() bool { _, found := c.Pod(namespace, "after"); return found }, patience, poll)
	assert.Equal(t, kube.Synced, c.State(kube.Pods).Phase)
	assert.Equal(t, []string{"info pods synced"}, lines(logs), "no reason for a line")
}

func TestAServiceAccountReadsWhatItsPermissionsAllow(t *testing.T) {
	plane := controlplane.Start(t)
	namespace := plane.Namespace(t)
	plane.Create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "agent"}})
	plane.Create(t, placedPod(namespace, "train-0", "node-1"))
	grant := func(name, group string, resources ...string) {
		plane.Create(t, &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{group}, Resources: resources, Verbs: []string{"list", "watch"}}},
		})
		plane.Create(t, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "agent"}},
		})
	}
	grant("kube-test-slices", resourcev1.GroupName, "resourceslices")

	c := acquired(t, plane.ServiceAccountKubeConfig(t, namespace, "agent"), kube.Options{})
	c.Need(kube.Pods, kube.ResourceSlices, kube.ResourceClaims)
	reaches(t, c, kube.ResourceSlices, kube.Synced)
	for _, k := range []kube.Kind{kube.Pods, kube.ResourceClaims} {
		reaches(t, c, k, kube.Forbidden)
		assert.True(t, apierrors.IsForbidden(c.State(k).Err), c.State(k).Err)
	}
	assert.Empty(t, c.Pods())

	grant("kube-test-pods", "", "pods")
	reaches(t, c, kube.Pods, kube.Synced)
	_, found := c.Pod(namespace, "train-0")
	assert.True(t, found)
	assert.Equal(t, kube.Forbidden, c.State(kube.ResourceClaims).Phase)
}

// The API server converts objects between API versions. Objects that the cache reads in an old
// version must equal the same objects read in v1.
func TestEveryVersionOfTheAPIGivesTheSameObjects(t *testing.T) {
	config := oldAPIServer(t)
	admin, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	createAll(t, admin)

	current, want := readAs(t, admin, "v1")
	require.Len(t, want.slices, 2)
	old := map[string]*kube.Cache{}
	for _, version := range []string{"v1beta2", "v1beta1"} {
		c, got := readAs(t, admin, version)
		assert.Equal(t, want, got, version)
		old[version] = c
	}

	// Later changes reach the cache through a watch.
	_, err = admin.ResourceV1().ResourceClaims("default").Create(t.Context(), claimFor("default", "late"), metav1.CreateOptions{})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(current.ResourceClaims()) == 2 }, patience, poll)
	late, _ := current.ResourceClaim("default", "late")
	for version, c := range old {
		require.Eventually(t, func() bool { return len(c.ResourceClaims()) == 2 }, patience, poll)
		got, _ := c.ResourceClaim("default", "late")
		assert.Equal(t, late, got, version)
	}
}

// oldAPIServer starts an API server that also serves the old versions of resource.k8s.io.
func oldAPIServer(t *testing.T) *rest.Config {
	t.Helper()
	binaries := os.Getenv("OTELCOL_GPU_CONTROLPLANE")
	if binaries == "" {
		notruntest.Skip(t, "old versions of the API: OTELCOL_GPU_CONTROLPLANE is not the directory of etcd and kube-apiserver; `make check` builds them and runs this test")
	}
	env := &envtest.Environment{UseExistingCluster: new(bool)}
	env.ControlPlane.Etcd = &envtest.Etcd{Path: filepath.Join(binaries, "etcd")}
	api := env.ControlPlane.GetAPIServer()
	api.Path = filepath.Join(binaries, "kube-apiserver")
	api.Configure().Append("runtime-config", "resource.k8s.io/v1beta1=true,resource.k8s.io/v1beta2=true")
	config, err := env.Start()
	t.Cleanup(func() { require.NoError(t, env.Stop()) })
	require.NoError(t, err)
	return config
}

// dra contains a cache's resource.k8s.io objects.
type dra struct {
	slices    []*resourcev1.ResourceSlice
	claims    []*resourcev1.ResourceClaim
	classes   []*resourcev1.DeviceClass
	templates []*resourcev1.ResourceClaimTemplate
}

// readAs returns a cache and the objects in the cache. The cache reads from a server that appears
// to serve only the given version of resource.k8s.io.
func readAs(t *testing.T, client kubernetes.Interface, version string) (*kube.Cache, dra) {
	t.Helper()
	c := kube.NewCache(serving{client, "resource.k8s.io/" + version}, kube.Options{}, componenttest.NewNopTelemetrySettings())
	t.Cleanup(c.Release)
	kinds := []kube.Kind{kube.ResourceSlices, kube.ResourceClaims, kube.DeviceClasses, kube.ResourceClaimTemplates}
	c.Need(kinds...)
	require.NoError(t, c.WaitSynced(t.Context(), kinds...))
	for _, k := range kinds {
		require.Equal(t, kube.Synced, c.State(k).Phase, "%s: %v", k, c.State(k).Err)
	}
	resourceSlices := c.ResourceSlices()
	slices.SortFunc(resourceSlices, func(a, b *resourcev1.ResourceSlice) int { return strings.Compare(a.Name, b.Name) })
	return c, dra{
		resourceSlices, c.ResourceClaims(),
		objects[*resourcev1.DeviceClass](c, kube.DeviceClasses), objects[*resourcev1.ResourceClaimTemplate](c, kube.ResourceClaimTemplates),
	}
}

// objects returns the objects of the given kind that a subscriber of the cache receives.
func objects[T any](c *kube.Cache, k kube.Kind) []T {
	came := make(chan T)
	defer c.SubscribeObjects(k, cache.ResourceEventHandlerFuncs{AddFunc: func(o any) { came <- o.(T) }})()
	all := make([]T, c.Len(k))
	for i := range all {
		all[i] = <-came
	}
	return all
}

// serving is a Kubernetes client whose server appears to serve only one version of resource.k8s.io.
type serving struct {
	kubernetes.Interface
	groupVersion string
}

func (s serving) Discovery() discovery.DiscoveryInterfaces {
	return onlyVersion{s.Interface.Discovery(), s.groupVersion}
}

type onlyVersion struct {
	discovery.DiscoveryInterfaces
	groupVersion string
}

func (o onlyVersion) ServerResourcesForGroupVersionWithContext(
	ctx context.Context,
	groupVersion string,
) (*metav1.APIResourceList, error) {
	if groupVersion != o.groupVersion {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, groupVersion)
	}
	return o.DiscoveryInterfaces.ServerResourcesForGroupVersionWithContext(ctx, groupVersion)
}

// createAll creates an object of each resource.k8s.io kind. The objects contain all fields that the
// components read.
func createAll(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	shared, yes := resource.MustParse("80Gi"), true
	claims := resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{
		{Name: "exact", Exactly: &resourcev1.ExactDeviceRequest{
			DeviceClassName: controlplane.NVIDIADriver, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 2,
			Tolerations: []resourcev1.DeviceToleration{{Key: "gpu.nvidia.com/xid", Operator: resourcev1.DeviceTolerationOpExists}},
			Capacity:    &resourcev1.CapacityRequirements{Requests: map[resourcev1.QualifiedName]resource.Quantity{"memory": shared}},
		}},
		{Name: "all", Exactly: &resourcev1.ExactDeviceRequest{
			DeviceClassName: controlplane.NVIDIADriver, AllocationMode: resourcev1.DeviceAllocationModeAll,
		}},
		{Name: "either", FirstAvailable: []resourcev1.DeviceSubRequest{
			{Name: "big", DeviceClassName: controlplane.NVIDIADriver, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1},
			{Name: "small", DeviceClassName: "mig.nvidia.com", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 4},
		}},
	}}}

	class := controlplane.NVIDIAClass()
	name := "nvidia.com/gpu"
	class.Spec.ExtendedResourceName = &name
	_, err := client.ResourceV1().DeviceClasses().Create(t.Context(), class, metav1.CreateOptions{})
	require.NoError(t, err)

	slice := controlplane.NVIDIASlice("node-1", gpu0)
	version, minor := "580.95.5", int64(0)
	device := &slice.Spec.Devices[0]
	device.AllowMultipleAllocations = &yes
	device.Attributes["driverVersion"] = resourcev1.DeviceAttribute{VersionValue: &version}
	device.Attributes["minor"] = resourcev1.DeviceAttribute{IntValue: &minor}
	device.Attributes["mig"] = resourcev1.DeviceAttribute{BoolValue: new(bool)}
	device.Taints = []resourcev1.DeviceTaint{{Key: "gpu.nvidia.com/xid", Value: "79", Effect: resourcev1.DeviceTaintEffectNoSchedule, TimeAdded: new(metav1.Now().Rfc3339Copy())}}
	device.ConsumesCounters = []resourcev1.DeviceCounterConsumption{{CounterSet: "gpu-0", Counters: map[string]resourcev1.Counter{"memory": {Value: shared}}}}
	slice.Spec.Pool.ResourceSliceCount = 2
	_, err = client.ResourceV1().ResourceSlices().Create(t.Context(), slice, metav1.CreateOptions{})
	require.NoError(t, err)
	counters := controlplane.NVIDIASlice("node-1")
	counters.Name += "-counters"
	counters.Spec.Pool.ResourceSliceCount = 2
	counters.Spec.SharedCounters = []resourcev1.CounterSet{{Name: "gpu-0", Counters: map[string]resourcev1.Counter{"memory": {Value: shared}}}}
	_, err = client.ResourceV1().ResourceSlices().Create(t.Context(), counters, metav1.CreateOptions{})
	require.NoError(t, err)

	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "claim"}, Spec: claims}
	claim, err = client.ResourceV1().ResourceClaims("default").Create(t.Context(), claim, metav1.CreateOptions{})
	require.NoError(t, err)
	share := types.UID("0e8d6d6c-3f2c-4bb3-9a52-2d1a6b2b8b1e")
	claim.Status = resourcev1.ResourceClaimStatus{
		Allocation: &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{{
			Request: "exact", Driver: controlplane.NVIDIADriver, Pool: "node-1", Device: "gpu-0", ShareID: &share,
			ConsumedCapacity: map[resourcev1.QualifiedName]resource.Quantity{"memory": shared},
		}}}},
		ReservedFor: []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "train-0", UID: "1"}},
	}
	_, err = client.ResourceV1().ResourceClaims("default").UpdateStatus(t.Context(), claim, metav1.UpdateOptions{})
	require.NoError(t, err)

	template := &resourcev1.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "template"},
		Spec:       resourcev1.ResourceClaimTemplateSpec{Spec: claims},
	}
	_, err = client.ResourceV1().ResourceClaimTemplates("default").Create(t.Context(), template, metav1.CreateOptions{})
	require.NoError(t, err)
}

var everyKind = []kube.Kind{
	kube.Pods, kube.Nodes, kube.ResourceSlices, kube.ResourceClaims, kube.DeviceClasses, kube.ResourceClaimTemplates, kube.DeviceTaintRules,
}
