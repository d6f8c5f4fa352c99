package gpuk8sprocessor

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/attribution"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/jobfiles"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/enumtest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/kubelettest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/kubetest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/statustest"
)

// statusHost is a host that records the status events that components report.
type statusHost struct {
	component.Host
	events chan *componentstatus.Event
}

func newStatusHost() *statusHost {
	return &statusHost{Host: componenttest.NewNopHost(), events: make(chan *componentstatus.Event, 100)}
}

func (h *statusHost) Report(e *componentstatus.Event) { h.events <- e }

// asking starts a processor that reads from the given kubelet, and from an API server that contains
// the given objects. Both the kubelet and the objects may be nil.
func asking(t *testing.T, kubelet *kubelettest.Kubelet, host component.Host, set component.TelemetrySettings, claims bool, objects ...runtime.Object) *gpuK8s {
	t.Helper()
	settings := processortest.NewNopSettings(metadata.Type)
	settings.TelemetrySettings = set
	p := newTestProcessor(t, "", settings)
	p.cfg.Claims = claims
	p.cfg.Sources.PodResources.Interval = 10 * time.Millisecond
	if kubelet != nil {
		p.cfg.Sources.PodResources.Socket = kubelet.Socket()
		p.sources.kubelet = kube.NewPodResources(p.cfg.Sources.PodResources, zap.NewNop())
	}
	if objects != nil {
		p.sources.cache = kube.NewCache(kubetest.NewClient(objects...), kube.Options{NodeName: "n1"}, set)
		p.sources.kinds = []kube.Kind{kube.Pods, kube.Nodes, kube.ResourceSlices}
		if claims {
			p.sources.kinds = append(p.sources.kinds, kube.ResourceClaims)
		}
	}
	p.sources.run(t.Context(), host)
	t.Cleanup(func() { require.NoError(t, p.shutdown(context.Background())) })
	return p
}

func holders(p *gpuK8s, id string) []attribution.Holding {
	now := time.Now().UnixNano()
	return attribution.Decide(p.tracker.Lookup(lengthen(id), now), now, nil, nil, false).Holders
}

func podsOf(p *gpuK8s, id string) string {
	var names []string
	for _, h := range holders(p, id) {
		names = append(names, h.Pod)
	}
	return strings.Join(names, " ")
}

func containerWith(pod string, ids ...string) kube.ContainerResources {
	c := kube.ContainerResources{Namespace: "ns", Pod: pod, Container: "c"}
	for _, id := range ids {
		resource, id, _ := strings.Cut(id, "=")
		c.Devices = append(c.Devices, kube.DeviceRef{Resource: resource, ID: lengthen(id)})
	}
	return c
}

func TestTheKubeletIsReadOverItsSocket(t *testing.T) {
	kubelet := kubelettest.Start(t)
	kubelet.Set(
		containerWith("a", "nvidia.com/gpu=GPU-1"),
		containerWith("b", "nvidia.com/gpu.shared=GPU-2::3", "nvidia.com/mig-1g.10gb=MIG-GPU-3/7/0"),
		containerWith("c", "example.com/a100=GPU-4"), // renamed
	)
	p := asking(t, kubelet, componenttest.NewNopHost(), componenttest.NewNopTelemetrySettings(), false)
	assert.Equal(t, "a", podsOf(p, "GPU-1"), "the start waits for the first answer")
	assert.Equal(t, "b", podsOf(p, "GPU-2"))
	assert.Equal(t, "b", podsOf(p, "GPU-3/gi7"))
	assert.Equal(t, "c", podsOf(p, "GPU-4"))

	kubelet.Set(containerWith("d", "nvidia.com/gpu=GPU-1"))
	require.Eventually(t, func() bool { return podsOf(p, "GPU-1") == "d" }, 10*time.Second, 10*time.Millisecond)
}

func TestALostKubeletIsReportedAndItsLastAnswerIsKept(t *testing.T) {
	kubelet := kubelettest.Start(t)
	kubelet.Set(containerWith("a", "nvidia.com/gpu=GPU-1"))
	host := newStatusHost()
	tel := componenttest.NewTelemetry()
	p := asking(t, kubelet, host, tel.NewTelemetrySettings(), false)
	require.NoError(t, p.telemetry.RegisterProcessorGpuK8sSourceStateCallback(p.sources.observeStates))
	require.NoError(t, p.telemetry.RegisterProcessorGpuK8sSourceAgeCallback(p.sources.observeAges))
	process(t, p, "GPU-2 hw.power=1")
	nobody := func(at time.Time) bool {
		n := at.UnixNano()
		return attribution.Decide(p.tracker.Lookup(lengthen("GPU-2"), n), n, nil, nil, false).HoldersKnown
	}
	require.True(t, nobody(time.Now().Add(time.Hour)))

	kubelet.Stop(t)
	e := <-host.events
	assert.Equal(t, componentstatus.StatusRecoverableError, e.Status())
	assert.ErrorContains(t, e.Err(), "pod_resources is stale; only data that was read before is used")
	assert.Equal(t, "a", podsOf(p, "GPU-1"))
	assert.True(t, nobody(time.Now()), "one poll failed")
	assert.False(t, nobody(time.Now().Add(history)), "the last answer is too old to show that a device has no holder")
	got, err := tel.GetMetric("otelcol_processor_gpu_k8s_source_age")
	require.NoError(t, err)
	require.NotNil(t, got)
	states := map[string]int64{}
	got, err = tel.GetMetric("otelcol_processor_gpu_k8s_source_state")
	require.NoError(t, err)
	for _, dp := range got.Data.(metricdata.Gauge[int64]).DataPoints {
		state, _ := dp.Attributes.Value("state")
		states[state.AsString()] = dp.Value
	}
	assert.Equal(t, map[string]int64{"off": 0, "syncing": 0, "synced": 0, "stale": 1, "forbidden": 0, "absent": 0}, states)

	kubelet.Listen(t)
	assert.Equal(t, componentstatus.StatusOK, (<-host.events).Status())
	process(t, p, "GPU-2 hw.power=1")
	assert.True(t, nobody(time.Now().Add(time.Hour)))
}

func TestAnUnavailableAPIServerIsReportedUntilItResponds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var unavailable atomic.Bool
		unavailable.Store(true)
		client := kubetest.NewClient()
		client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			return unavailable.Load(), nil, errors.New("connection refused")
		})
		host := statustest.NewHost()
		p := newTestProcessor(t, "", processortest.NewNopSettings(metadata.Type))
		p.sources.cache = kube.NewCache(client, kube.Options{NodeName: "n1"}, componenttest.NewNopTelemetrySettings())
		p.sources.kinds = []kube.Kind{kube.Pods, kube.Nodes}
		p.sources.run(t.Context(), host)
		defer p.sources.shutdown()
		synctest.Wait()
		assert.Regexp(t, "^pods is syncing; only data that was read before is used: .*connection refused$", host.Last())

		unavailable.Store(false)
		time.Sleep(time.Minute + time.Second) // in the synctest bubble
		synctest.Wait()
		assert.Equal(t, "StatusOK", host.Last())
	})
}

func TestNoHolderStaysValidForThreePollsOrTheHistory(t *testing.T) {
	for interval, want := range map[time.Duration]time.Duration{
		10 * time.Second: 2 * time.Minute,
		time.Minute:      3 * time.Minute,
	} {
		cfg := createDefaultConfig().(*Config)
		cfg.Sources.PodResources.Interval = interval
		assert.Equal(t, want, cfg.grace())
	}
}

func TestWithoutReadableSlicesNoHolderIsUnknown(t *testing.T) {
	failing := func(err error) func(*fake.Clientset) {
		return func(c *fake.Clientset) {
			c.PrependReactor("list", "resourceslices", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
		}
	}
	for _, tt := range []struct {
		name    string
		prepare func(*fake.Clientset)
		phase   kube.Phase
		known   bool
	}{
		{"read", func(*fake.Clientset) {}, kube.Synced, true},
		{"no dynamic resource allocation", func(c *fake.Clientset) { c.Resources = nil }, kube.Absent, true},
		{"forbidden", failing(apierrors.NewForbidden(resourcev1.Resource("resourceslices"), "", nil)), kube.Forbidden, false},
		{"no answer yet", failing(apierrors.NewTimeoutError("later", 0)), kube.Syncing, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			kubelet := kubelettest.Start(t)
			kubelet.Set(containerWith("a", "nvidia.com/gpu=GPU-1"))
			p := newTestProcessor(t, "", processortest.NewNopSettings(metadata.Type))
			p.sources.maxStartWait = time.Second
			p.cfg.Sources.PodResources.Socket = kubelet.Socket()
			p.sources.kubelet = kube.NewPodResources(p.cfg.Sources.PodResources, zap.NewNop())
			client := kubetest.NewClient()
			tt.prepare(client)
			p.sources.cache = kube.NewCache(client, kube.Options{NodeName: "n1"}, componenttest.NewNopTelemetrySettings())
			p.sources.kinds = []kube.Kind{kube.ResourceSlices}
			p.sources.run(t.Context(), componenttest.NewNopHost())
			t.Cleanup(func() { require.NoError(t, p.shutdown(context.Background())) })
			require.Eventually(t, func() bool {
				_, _, state := p.sources.kubelet.Snapshot()
				return p.sources.cache.State(kube.ResourceSlices).Phase == tt.phase && state.Settled()
			}, 10*time.Second, 10*time.Millisecond)
			p.sources.update(time.Now())
			process(t, p, "GPU-2 hw.power=1")
			now := time.Now().UnixNano()
			assert.Equal(t, tt.known, attribution.Decide(p.tracker.Lookup(lengthen("GPU-2"), now), now, nil, nil, false).HoldersKnown)
		})
	}
}

func TestMissingSourcesAreLoggedOnceAndDoNotBlockTheStart(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	set := processortest.NewNopSettings(metadata.Type)
	set.Logger = zap.New(core)
	cfg := createDefaultConfig().(*Config)
	cfg.NodeName = "n1"
	cfg.Sources.PodResources.Socket = "/nowhere/kubelet.sock"
	p, err := newProcessor(cfg, set)
	require.NoError(t, err)
	host := newStatusHost()
	require.NoError(t, p.start(t.Context(), host), "without a socket and without a cluster")
	require.NoError(t, p.shutdown(t.Context()))
	assert.Empty(t, host.events, "no status event is reported")
	assert.Len(t, logs.All(), 2, "%v", logs.All())
}

func TestWithoutANodeNoSourceIsRead(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	set := processortest.NewNopSettings(metadata.Type)
	set.Logger = zap.New(core)
	cfg := createDefaultConfig().(*Config)
	cfg.NodeName = ""
	p, err := newProcessor(cfg, set)
	require.NoError(t, err)
	require.NoError(t, p.start(t.Context(), componenttest.NewNopHost()))
	require.NoError(t, p.shutdown(t.Context()))
	require.Len(t, logs.All(), 1)
	assert.Contains(t, logs.All()[0].Message, "node_name")
}

func TestAKubeconfigThatCannotBeUsedFailsTheStart(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	cfg.NodeName = "n1"
	cfg.Kubernetes = kube.Config{AuthType: kube.AuthKubeConfig, KubeConfig: "/nowhere/config"}
	p, err := newProcessor(cfg, processortest.NewNopSettings(metadata.Type))
	require.NoError(t, err)
	require.ErrorContains(t, p.start(t.Context(), componenttest.NewNopHost()), "/nowhere/config")
	require.NoError(t, p.shutdown(t.Context()))
}

// The test uses API objects that describe one pod and its claims.
func TestObjectsOfTheAPIServerAreRead(t *testing.T) {
	created := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "uid-a", CreationTimestamp: created},
		Spec: corev1.PodSpec{
			NodeName: "n1",
			ResourceClaims: []corev1.PodResourceClaim{
				{Name: "mine", ResourceClaimTemplateName: new("template")},
				{Name: "shared", ResourceClaimName: new("claim-shared")},
			},
			InitContainers: []corev1.Container{
				{Name: "side", RestartPolicy: new(corev1.ContainerRestartPolicyAlways), Resources: corev1.ResourceRequirements{
					Claims: []corev1.ResourceClaim{{Name: "shared"}},
				}},
				{Name: "warm-up", Resources: corev1.ResourceRequirements{ // This init container ends before the other containers start.
					Claims: []corev1.ResourceClaim{{Name: "mine"}, {Name: "shared"}},
				}},
			},
			Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
				Claims: []corev1.ResourceClaim{{Name: "mine", Request: "gpu"}},
			}}},
		},
		Status: corev1.PodStatus{
			Phase:                 corev1.PodRunning,
			ResourceClaimStatuses: []corev1.PodResourceClaimStatus{{Name: "mine", ResourceClaimName: new("a-mine-x7")}},
			ExtendedResourceClaimStatus: &corev1.PodExtendedResourceClaimStatus{
				ResourceClaimName: "a-extended",
				RequestMappings: []corev1.ContainerExtendedResourceRequest{
					{ContainerName: "warm-up", ResourceName: "nvidia.com/gpu", RequestName: "container-0-request-0"},
					{ContainerName: "main", ResourceName: "nvidia.com/gpu", RequestName: "container-0-request-0"},
				},
			},
		},
	}
	result := func(request, device string) resourcev1.DeviceRequestAllocationResult {
		return resourcev1.DeviceRequestAllocationResult{Request: request, Driver: "gpu.nvidia.com", Pool: "n1", Device: device}
	}
	claim := func(name string, r resourcev1.DeviceRequestAllocationResult, requests ...resourcev1.DeviceRequest) *resourcev1.ResourceClaim {
		c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "uid-of-claim"}}
		c.Spec.Devices.Requests = requests
		c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
			Results: []resourcev1.DeviceRequestAllocationResult{r},
		}}
		c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "a", UID: "uid-a"}}
		return c
	}
	sharedResult := result("gpu", "gpu-1")
	sharedResult.ShareID = new(pod.UID)
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: resourcev1.ResourceSliceSpec{
		Driver: "gpu.nvidia.com", NodeName: new("n1"), Pool: resourcev1.ResourcePool{Name: "n1", Generation: 3, ResourceSliceCount: 1},
	}}
	for i, name := range []string{"gpu-0", "gpu-1", "gpu-2"} {
		slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{Name: name, Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
			"uuid": {StringValue: new(lengthen("GPU-" + string(rune('1'+i))))}, "type": {StringValue: new("gpu")}, "minor": {IntValue: new(int64(i))},
		}})
	}
	p := asking(t, nil, componenttest.NewNopHost(), componenttest.NewNopTelemetrySettings(), true,
		pod, slice,
		claim("a-mine-x7", result("gpu/big", "gpu-0"), resourcev1.DeviceRequest{
			Name: "gpu", FirstAvailable: []resourcev1.DeviceSubRequest{{Name: "big", DeviceClassName: "big.example.com"}},
		}),
		claim("claim-shared", sharedResult, resourcev1.DeviceRequest{
			Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu.nvidia.com"},
		}),
		claim("a-extended", result("container-0-request-0", "gpu-2"), resourcev1.DeviceRequest{Name: "container-0-request-0"}),
	)
	want := func(container, claim, class, request, device, share string) attribution.Holding {
		return attribution.Holding{
			Holder: gpudata.Holder{Namespace: "ns", Pod: "a", UID: "uid-a", Container: container},
			Allocation: gpudata.Allocation{
				Claim: claim, ClaimUID: "uid-of-claim", Class: class, Request: request, ShareID: share,
				Driver: "gpu.nvidia.com", Pool: "n1", Device: device,
			},
		}
	}
	for id, h := range map[string]attribution.Holding{
		"GPU-1": want("main", "a-mine-x7", "big.example.com", "gpu/big", "gpu-0", ""),
		"GPU-2": want("side", "claim-shared", "gpu.nvidia.com", "gpu", "gpu-1", "uid-a"),
		"GPU-3": want("main", "a-extended", "", "container-0-request-0", "gpu-2", ""),
	} {
		got := holders(p, id)
		require.Len(t, got, 1, id)
		assert.Equal(t, h.Holder, got[0].Holder)
		assert.Equal(t, h.Allocation, got[0].Allocation)
		assert.False(t, got[0].At(created.Add(-time.Second).UnixNano()), "before the pod was created")
	}
}

func TestContainersAndStaticPodsAreRead(t *testing.T) {
	pod := readPod(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"kubernetes.io/config.mirror": "hash-of-file"}},
		Status: corev1.PodStatus{
			InitContainerStatuses: []corev1.ContainerStatus{{Name: "side", ContainerID: "cri-o://c1"}},
			ContainerStatuses: []corev1.ContainerStatus{
				{Name: "main", ContainerID: "containerd://c2"}, {Name: "waiting"}, {Name: "broken", ContainerID: "docker://"},
			},
		},
	}, nil, nil)
	assert.Equal(t, "hash-of-file", pod.StaticUID)
	assert.Equal(t, []attribution.PodContainer{{Name: "side", ID: "c1"}, {Name: "main", ID: "c2"}}, pod.Containers)
}

func TestProcessesAreFoundInTheCacheOfPods(t *testing.T) {
	p := asking(t, nil, componenttest.NewNopHost(), componenttest.NewNopTelemetrySettings(), false, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "uid-a"},
		Spec:       corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "main"}}},
		Status: corev1.PodStatus{
			Phase:             corev1.PodRunning,
			ContainerStatuses: []corev1.ContainerStatus{{Name: "main", ContainerID: "containerd://c1"}},
		},
	})
	user, known := p.tracker.Container("uid-a", "c1")
	assert.True(t, known)
	assert.Equal(t, gpudata.Holder{Namespace: "ns", Pod: "a", UID: "uid-a", Container: "main"}, user)
}

func TestTheNodesLabelAndSchedulersAnnotationsAreRead(t *testing.T) {
	kubelet := kubelettest.Start(t)
	kubelet.Set(containerWith("a", "nvidia.com/gpu=GPU-1::0", "nvidia.com/mig-1g.10gb=MIG-2"))
	p := asking(t, kubelet, componenttest.NewNopHost(), componenttest.NewNopTelemetrySettings(), false,
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{sharingStrategyLabel: "mps"}}},
		&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "uid-a", Annotations: map[string]string{
				"hami.io/vgpu-mig-allocations": lengthen(`[{"containerIndex":0,"deviceIndex":0,"gpuUUID":"GPU-2","profile":"1g.10gb",` +
					`"placement":{"Start":0,"Size":1},"migUUID":"MIG-2","gpuInstanceID":7,"computeInstanceID":0}]`),
			}},
			Spec:   corev1.PodSpec{NodeName: "n1"},
			Status: corev1.PodStatus{Phase: corev1.PodRunning},
		})
	md, err := p.processMetrics(t.Context(), parse(t, []string{
		lengthen("GPU-1 hw.power=1"), lengthen("GPU-2/gi7 gpu.engine.active=1"),
	}, time.Duration(time.Now().UnixNano())))
	require.NoError(t, err)
	text := shorten(render(md))
	assert.Contains(t, text, "gpu.sharing.strategy=mps, hw.id=GPU-1}")
	assert.Contains(t, text, "gpu.mig.uuid=MIG-2, gpu.sharing.strategy=none, hw.id=GPU-2/gi7")
	assert.Contains(t, text, "k8s.pod.uid=uid-a")
}

func TestTheValuesOfSelfMetricsAreDocumented(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	cfg.Sources.DRA.Enabled, cfg.Claims, cfg.Jobs = true, true, true
	names := []string{"pod_resources"}
	for _, k := range kindsOf(cfg) {
		names = append(names, k.String())
	}
	assert.ElementsMatch(t, enumtest.Documented(t, "source"), names)
	for _, attribute := range []string{"state", "budget.state"} {
		assert.ElementsMatch(t, enumtest.Documented(t, attribute), enumtest.Names(kube.Off, kube.Absent+1))
	}
	assert.ElementsMatch(t, enumtest.Documented(t, "drop.reason"), append(enumtest.Names(0, numDropReasons), "no_room"))
	assert.ElementsMatch(t, enumtest.Documented(t, "reason"), enumtest.Names(attribution.Joined+1, attribution.NumReasons))
	assert.ElementsMatch(t, enumtest.Documented(t, "file.state"), enumtest.Names(0, jobfiles.NumStates))
}
