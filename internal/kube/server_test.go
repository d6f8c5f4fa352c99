package kube_test

import (
	"context"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
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
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/otelcol-gpu/otelcol-gpu/internal/controlplane"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
)

// acquired is a cache of a real API server until the test ends.
func acquired(t *testing.T, kubeconfig string, o kube.Options) *kube.Cache {
	t.Helper()
	o.Config = kube.Config{AuthType: kube.AuthKubeConfig, KubeConfig: kubeconfig}
	set, _ := observed()
	c, err := kube.Acquire(o, set)
	require.NoError(t, err)
	t.Cleanup(c.Release)
	return c
}

// reaches waits until a kind is in a phase.
func reaches(t *testing.T, c *kube.Cache, k kube.Kind, phase kube.Phase) {
	t.Helper()
	holds(t, c, k, func() bool { return c.State(k).Phase == phase })
}

// holds waits until a condition on objects of a kind holds.
func holds(t *testing.T, c *kube.Cache, k kube.Kind, condition func() bool) {
	t.Helper()
	eventually(t, func(f func()) func() { return c.Subscribe(k, f) }, condition)
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
		plane.Create(t, pod(namespace, "on-"+node, node))
		plane.Create(t, controlplane.NVIDIASlice(node, gpu0))
	}
	plane.Create(t, pod(namespace, "waiting", ""))

	agent := acquired(t, plane.KubeConfig(t), kube.Options{NodeName: "node-1"})
	agent.Need(allKinds...)
	require.NoError(t, agent.WaitSynced(t.Context(), allKinds...))
	require.Len(t, agent.Pods(), 1)
	assert.Equal(t, "on-node-1", agent.Pods()[0].Name)
	require.Len(t, agent.Nodes(), 1)
	assert.Equal(t, "node-1", agent.Nodes()[0].Name)
	require.Len(t, agent.ResourceSlices(), 1)
	assert.Equal(t, gpu0, *agent.ResourceSlices()[0].Spec.Devices[0].Attributes["uuid"].StringValue)

	central := acquired(t, plane.KubeConfig(t), kube.Options{Namespace: namespace})
	central.Need(allKinds...)
	require.NoError(t, central.WaitSynced(t.Context(), allKinds...))
	assert.Len(t, central.Pods(), 3)
	assert.Len(t, central.Nodes(), 2)
	assert.Len(t, central.ResourceSlices(), 2)

	plane.Create(t, pod(namespace, "late", "node-1"))
	holds(t, agent, kube.Pods, func() bool { _, found := agent.Pod(namespace, "late"); return found })
}

func TestAnAPIServerThatIsGoneCostsNoObjectAndIsCaughtUpWith(t *testing.T) {
	plane := controlplane.Start(t)
	namespace := plane.Namespace(t)
	plane.Create(t, pod(namespace, "before", "node-1"))
	plane.Create(t, controlplane.NVIDIASlice("node-1", gpu0))
	plane.Create(t, claimFor(namespace, "claim"))
	way := wayTo(t, plane.KubeConfig(t))
	c := acquired(t, way.kubeconfig, kube.Options{})
	c.Need(allKinds...)
	require.NoError(t, c.WaitSynced(t.Context(), allKinds...))

	way.block()
	for _, k := range allKinds {
		reaches(t, c, k, kube.Stale)
		require.Error(t, c.State(k).Err)
		assert.False(t, c.State(k).Since.IsZero())
	}
	_, found := c.Pod(namespace, "before")
	assert.True(t, found, "what was known is kept")
	assert.Len(t, c.ResourceSlices(), 1)
	assert.Len(t, c.ResourceClaims(), 1)
	require.NoError(t, c.WaitSynced(t.Context(), allKinds...), "waiting would be of no use")

	plane.Create(t, pod(namespace, "after", "node-1"))
	require.NoError(t, plane.Admin().CoreV1().Pods(namespace).Delete(t.Context(), "before", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	way.open(t)
	for _, k := range allKinds {
		reaches(t, c, k, kube.Synced)
	}
	holds(t, c, kube.Pods, func() bool {
		_, before := c.Pod(namespace, "before")
		_, after := c.Pod(namespace, "after")
		return after && !before
	})
}

func TestAWatchThatIsCutIsTakenUpAgain(t *testing.T) {
	plane := controlplane.Start(t)
	namespace := plane.Namespace(t)
	way := wayTo(t, plane.KubeConfig(t))
	set, logs := observed()
	c, err := kube.Acquire(kube.Options{Config: kube.Config{AuthType: kube.AuthKubeConfig, KubeConfig: way.kubeconfig}}, set)
	require.NoError(t, err)
	t.Cleanup(c.Release)
	c.Need(kube.Pods)
	require.NoError(t, c.WaitSynced(t.Context(), kube.Pods))
	way.cut()
	plane.Create(t, pod(namespace, "after", "node-1"))
	holds(t, c, kube.Pods, func() bool { _, found := c.Pod(namespace, "after"); return found })
	assert.Equal(t, kube.Synced, c.State(kube.Pods).Phase)
	assert.Equal(t, []string{"info pods synced"}, lines(logs), "no reason for a line")
}

func TestAServiceAccountSeesWhatItMayAndLaterWhatItIsGranted(t *testing.T) {
	plane := controlplane.Start(t)
	namespace := plane.Namespace(t)
	plane.Create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "agent"}})
	plane.Create(t, pod(namespace, "train-0", "node-1"))
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

// The server converts between the versions of the API too; what it makes of an
// object in an old version must come out of the cache as it is in v1.
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

	// Later changes come through a watch.
	_, err = admin.ResourceV1().ResourceClaims("default").Create(t.Context(), claimFor("default", "late"), metav1.CreateOptions{})
	require.NoError(t, err)
	holds(t, current, kube.ResourceClaims, func() bool { return len(current.ResourceClaims()) == 2 })
	late, _ := current.ResourceClaim("default", "late")
	for version, c := range old {
		holds(t, c, kube.ResourceClaims, func() bool { return len(c.ResourceClaims()) == 2 })
		got, _ := c.ResourceClaim("default", "late")
		assert.Equal(t, late, got, version)
	}
}

// oldAPIServer is an API server that serves the old versions too.
func oldAPIServer(t *testing.T) *rest.Config {
	t.Helper()
	binaries := os.Getenv("OTELCOL_GPU_CONTROLPLANE")
	if binaries == "" {
		t.Skip("OTELCOL_GPU_CONTROLPLANE does not name the directory of etcd and kube-apiserver")
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

// dra are the objects of resource.k8s.io in a cache.
type dra struct {
	slices    []*resourcev1.ResourceSlice
	claims    []*resourcev1.ResourceClaim
	classes   []*resourcev1.DeviceClass
	templates []*resourcev1.ResourceClaimTemplate
}

// readAs returns a cache of a server that seems to serve one version only, and
// what is in it.
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
	return c, dra{resourceSlices, c.ResourceClaims(), c.DeviceClasses(), c.ResourceClaimTemplates()}
}

// serving is a client of a server that seems to serve one version of
// resource.k8s.io.
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

// createAll creates an object of each kind of resource.k8s.io with everything
// that components read.
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

// way is a connection to an API server that can be blocked.
type way struct {
	kubeconfig string // leads along the way
	address    string
	target     string

	mu          sync.Mutex
	listener    net.Listener
	connections []net.Conn
	running     sync.WaitGroup
}

// wayTo opens a way to the server of a kubeconfig.
func wayTo(t *testing.T, kubeconfig string) *way {
	t.Helper()
	config, err := clientcmd.LoadFromFile(kubeconfig)
	require.NoError(t, err)
	w := &way{kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"), address: "127.0.0.1:0"}
	for _, cluster := range config.Clusters {
		u, err := url.Parse(cluster.Server)
		require.NoError(t, err)
		w.target = u.Host
		w.open(t)
		cluster.Server = "https://" + w.address
	}
	require.NoError(t, clientcmd.WriteToFile(*config, w.kubeconfig))
	t.Cleanup(w.block)
	return w
}

// open lets connections through again.
func (w *way) open(t *testing.T) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", w.address)
	require.NoError(t, err)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.listener, w.address = listener, listener.Addr().String()
	w.running.Go(func() { w.serve(listener) })
}

func (w *way) serve(listener net.Listener) {
	for {
		near, err := listener.Accept()
		if err != nil {
			return
		}
		far, err := new(net.Dialer).DialContext(context.Background(), "tcp", w.target)
		if err != nil {
			_ = near.Close()
			continue
		}
		w.mu.Lock()
		w.connections = append(w.connections, near, far)
		w.mu.Unlock()
		for _, pair := range [][2]net.Conn{{near, far}, {far, near}} {
			w.running.Go(func() {
				_, _ = io.Copy(pair[0], pair[1])
				_, _ = pair[0].Close(), pair[1].Close()
			})
		}
	}
}

// cut ends the connections that there are.
func (w *way) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.connections {
		_ = c.Close()
	}
	w.connections = nil
}

// block ends the connections and refuses new ones.
func (w *way) block() {
	w.mu.Lock()
	_ = w.listener.Close()
	w.mu.Unlock()
	w.cut()
	w.running.Wait()
}
