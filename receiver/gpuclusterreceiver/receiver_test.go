package gpuclusterreceiver

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/gpuclusterreceiver/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/gpuclusterreceiver/internal/metadatatest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/enumtest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/kubetest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/statustest"
)

// replica is a receiver that uses a fake API server.
type replica struct {
	*clusterReceiver
	t    *testing.T
	sink *consumertest.MetricsSink
	host *statustest.Host
}

// startReplica starts a receiver that sends its batches to the given consumer. If the consumer is
// nil, the receiver sends its batches to the sink of the replica.
func startReplica(t *testing.T, client *fake.Clientset, change func(*Config), set receiver.Settings, next consumer.Metrics) *replica {
	t.Helper()
	cfg := createDefaultConfig().(*Config)
	cfg.LeaderElection.Enabled = false
	cfg.LeaderElection.Namespace = "monitoring"
	if change != nil {
		change(cfg)
	}
	require.NoError(t, confmap.Validate(cfg))
	r := &replica{t: t, sink: &consumertest.MetricsSink{}, host: statustest.NewHost()}
	if next == nil {
		next = r.sink
	}
	var err error
	r.clusterReceiver, err = newReceiver(set, cfg, next)
	require.NoError(t, err)
	r.newCache = func(o kube.Options, set component.TelemetrySettings) (*kube.Cache, error) {
		return kube.NewCache(client, o, set), nil
	}
	require.NoError(t, r.Start(t.Context(), r.host))
	return r
}

func (r *replica) stop() { require.NoError(r.t, r.Shutdown(context.WithoutCancel(r.t.Context()))) }

// emittedPoints returns the points that were emitted since the last call to emittedPoints, with one
// point per line.
func (r *replica) emittedPoints() []string {
	batches := r.sink.AllMetrics()
	r.sink.Reset()
	if len(batches) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSpace(render(r.t, batches...)), "\n")
}

// The emitted method returns the names of the metrics that the replica has emitted since the last
// call to emitted or emittedPoints.
func (r *replica) emitted() []string {
	var names []string
	for _, md := range r.sink.AllMetrics() {
		for _, rm := range md.ResourceMetrics().All() {
			for _, m := range rm.ScopeMetrics().At(0).Metrics().All() {
				names = append(names, m.Name())
			}
		}
	}
	r.sink.Reset()
	slices.Sort(names)
	return slices.Compact(names)
}

// The after function advances the fake clock.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func gpuPod(name, node string, phase corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{
			Name:      "main",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}},
		}}},
		Status: corev1.PodStatus{Phase: phase},
	}
}

func gpuNode(name string) *corev1.Node {
	amounts := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: corev1.NodeStatus{
			Capacity: amounts, Allocatable: amounts,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

const runningLine = "{} k8s.gpu.pods {resource=nvidia.com/gpu, state=running} = "

func nop() receiver.Settings { return receivertest.NewNopSettings(metadata.Type) }

func TestFirstEmissionWaitsForAllKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := kubetest.NewClient(gpuNode("a"), gpuPod("one", "a", corev1.PodRunning))
		r := startReplica(t, client, nil, nop(), nil)
		defer r.stop()

		after(time.Second)
		lines := r.emittedPoints()
		assert.Contains(t, lines, runningLine+"1")
		assert.Contains(t, lines, "{} cluster.gpu.requested_allocatable_ratio {resource=nvidia.com/gpu} = 0.125")

		_, err := client.CoreV1().Pods("team").Create(t.Context(), gpuPod("two", "a", corev1.PodRunning), metav1.CreateOptions{})
		require.NoError(t, err)
		after(28 * time.Second)
		assert.Empty(t, r.emittedPoints(), "changes wait for the next interval")
		after(2 * time.Second)
		assert.Contains(t, r.emittedPoints(), runningLine+"2")

		require.NoError(t, client.CoreV1().Pods("team").Delete(t.Context(), "one", metav1.DeleteOptions{}))
		done := gpuPod("two", "a", corev1.PodSucceeded)
		_, err = client.CoreV1().Pods("team").Update(t.Context(), done, metav1.UpdateOptions{})
		require.NoError(t, err)
		after(30 * time.Second)
		assert.Contains(t, r.emittedPoints(), runningLine+"0")
		assert.Empty(t, r.host.Last())
	})
}

// refuse makes the fake API server reject requests for a resource while the returned flag is true.
func refuse(client *fake.Clientset, resourceName string, err error) (refusing *atomic.Bool) {
	refusing = &atomic.Bool{}
	client.PrependReactor("*", resourceName, func(clienttesting.Action) (bool, runtime.Object, error) {
		return refusing.Load(), nil, err
	})
	return refusing
}

func TestForbiddenKindHasNoPointsButOthersDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := kubetest.NewClient(gpuNode("a"), gpuPod("one", "", corev1.PodPending))
		refusing := refuse(client, "nodes", apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", errors.New("no RBAC policy matched")))
		refusing.Store(true)
		telemetry := componenttest.NewTelemetry()
		defer func() { require.NoError(t, telemetry.Shutdown(context.WithoutCancel(t.Context()))) }()
		r := startReplica(t, client, nil, metadatatest.NewSettings(telemetry), nil)
		defer r.stop()

		after(time.Second)
		names := r.emitted()
		assert.Contains(t, names, signal.ClusterPendingPodCount.Name)
		assert.Contains(t, names, signal.K8sGPUPods.Name)
		assert.NotContains(t, names, signal.K8sGPUAllocatable.Name)
		assert.NotContains(t, names, signal.ClusterRequestedAllocatableRatio.Name)
		assert.Contains(t, r.host.Last(), "nodes: forbidden")
		assert.Equal(t, "forbidden", cacheState(t, telemetry, "nodes"))
		assert.Equal(t, "synced", cacheState(t, telemetry, "pods"))

		refusing.Store(false)
		after(2 * time.Minute)
		assert.Contains(t, r.emitted(), signal.ClusterRequestedAllocatableRatio.Name)
		assert.Equal(t, "StatusOK", r.host.Last())
		assert.Equal(t, "synced", cacheState(t, telemetry, "nodes"))
	})
}

// cacheState returns the state that the self-metric for cache states reports for a kind.
func cacheState(t *testing.T, telemetry *componenttest.Telemetry, kind string) string {
	t.Helper()
	m, err := telemetry.GetMetric("otelcol_receiver_gpu_cluster_cache_state")
	require.NoError(t, err)
	var states []string
	for _, dp := range m.Data.(metricdata.Gauge[int64]).DataPoints {
		if k, _ := dp.Attributes.Value(attribute.Key("kind")); k.AsString() == kind && dp.Value == 1 {
			state, _ := dp.Attributes.Value(attribute.Key("state"))
			states = append(states, state.AsString())
		}
	}
	require.Len(t, states, 1)
	return states[0]
}

// slowError is a throttling error of the API server whose text can be delayed. The informers keep
// this error unchanged if a watch request returns it.
type slowError struct{ delay atomic.Pointer[chan struct{}] }

// Status implements apierrors.APIStatus.
func (*slowError) Status() metav1.Status {
	return metav1.Status{Reason: metav1.StatusReasonTooManyRequests, Code: http.StatusTooManyRequests}
}

// Error implements error. If a delay is set, the first call waits until the channel is closed.
func (e *slowError) Error() string {
	if delay := e.delay.Swap(nil); delay != nil {
		<-*delay
	}
	return "too many requests"
}

func TestAnOldStateIsNotReportedAfterANewerOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := kubetest.NewClient(gpuNode("a"), gpuPod("one", "", corev1.PodPending))
		reason := &slowError{}
		var refusing atomic.Bool
		client.PrependWatchReactor("pods", func(clienttesting.Action) (bool, watch.Interface, error) { return refusing.Load(), nil, reason })
		refusing.Store(true)
		r := startReplica(t, client, nil, nop(), nil)
		defer r.stop()
		after(time.Second)
		assert.Regexp(t, `^pods: \w+: too many requests$`, r.host.Last())

		delay := make(chan struct{})
		reason.delay.Store(&delay)
		_, err := client.CoreV1().Nodes().Create(t.Context(), gpuNode("b"), metav1.CreateOptions{})
		require.NoError(t, err)
		after(time.Second)
		require.Nil(t, reason.delay.Load(), "because of the new node, the receiver reads the states")
		refusing.Store(false)
		after(2 * time.Minute)
		require.Equal(t, kube.Synced, r.cache.State(kube.Pods).Phase)
		close(delay)
		after(time.Second)
		assert.Equal(t, "StatusOK", r.host.Last())
	})
}

func TestServerWithoutDRAIsNotAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := kubetest.NewClient(gpuNode("a"))
		client.Resources = nil
		r := startReplica(t, client, nil, nop(), nil)
		defer r.stop()
		after(time.Second)
		names := r.emitted()
		assert.Contains(t, names, signal.K8sGPUAllocatable.Name)
		assert.NotContains(t, names, signal.K8sResourceClaimCount.Name)
		assert.Empty(t, r.host.Last())
	})
}

// If the receiver is not permitted to read DeviceTaintRules, the receiver cannot know which devices
// are available. If the API server does not serve DeviceTaintRules, no rules exist.
func TestDevicesAreCountedAsAvailableOnlyIfTheirTaintsAreKnown(t *testing.T) {
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: resourcev1.ResourceSliceSpec{
		Driver: "gpu.nvidia.com", Pool: resourcev1.ResourcePool{Name: "a", ResourceSliceCount: 1}, Devices: []resourcev1.Device{{Name: "gpu-0"}},
	}}
	for name, tt := range map[string]struct {
		served, forbidden, counted bool
	}{
		"readable":   {served: true, counted: true},
		"forbidden":  {served: true, forbidden: true},
		"not served": {counted: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := kubetest.NewClient(gpuNode("a"), slice)
				if !tt.served {
					served := client.Resources[0]
					served.APIResources = slices.DeleteFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Name == "devicetaintrules" })
				}
				forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "devicetaintrules"}, "", errors.New("no RBAC policy matched"))
				refuse(client, "devicetaintrules", forbidden).Store(tt.forbidden)
				r := startReplica(t, client, func(cfg *Config) {
					cfg.Metrics = componenthelper.Metrics{signal.K8sResourceSlicePoolDevices.Name: {Enabled: new(true)}}
				}, nop(), nil)
				defer r.stop()
				after(time.Second)
				names := r.emitted()
				assert.Contains(t, names, signal.K8sResourceSliceDevice.Name)
				assert.Equal(t, tt.counted, slices.Contains(names, signal.K8sResourceSlicePoolDevices.Name))
				assert.Equal(t, tt.forbidden, strings.Contains(r.host.Last(), "devicetaintrules: forbidden"))
			})
		})
	}
}

// If the objects of a kind are still loading after one interval, only the points that depend on
// this kind are omitted.
func TestMissingKindIsReportedAndDelaysDependentPoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := kubetest.NewClient(gpuNode("a"), gpuPod("one", "a", corev1.PodRunning))
		refusing := refuse(client, "resourceclaims", apierrors.NewInternalError(errors.New("etcd is slow")))
		refusing.Store(true)
		r := startReplica(t, client, nil, nop(), nil)
		defer r.stop()
		after(29 * time.Second)
		assert.Empty(t, r.emittedPoints(), "some kinds are not known yet")
		after(2 * time.Second)
		names := r.emitted()
		assert.Contains(t, names, signal.K8sGPUPods.Name, "the points of the known kinds are emitted after the interval")
		assert.NotContains(t, names, signal.K8sResourceClaimCount.Name)
		assert.Regexp(t, "^resourceclaims: syncing: .*etcd is slow", r.host.Last())
		refusing.Store(false)
		after(time.Minute)
		assert.Contains(t, r.emittedPoints(), runningLine+"1")
		assert.Equal(t, "StatusOK", r.host.Last())
	})
}

func TestStartFailsOutsideACluster(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	cfg.LeaderElection.Namespace = "monitoring"
	r, err := newReceiver(nop(), cfg, consumertest.NewNop())
	require.NoError(t, err)
	require.ErrorContains(t, r.Start(t.Context(), componenttest.NewNopHost()), `the only data source, is unknown: auth_type is "serviceAccount"`)
	require.NoError(t, r.Shutdown(t.Context()))
}

func TestAKubeconfigThatCannotBeReadFailsAtStart(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	cfg.Kubernetes = kube.Config{AuthType: kube.AuthKubeConfig, KubeConfig: "/no/such/file"}
	r, err := newReceiver(nop(), cfg, consumertest.NewNop())
	require.NoError(t, err)
	require.ErrorContains(t, r.Start(t.Context(), componenttest.NewNopHost()), "/no/such/file")
	require.NoError(t, r.Shutdown(t.Context()))
}

func TestLargeClusterIsSentInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := kubetest.NewClient()
		for i := range 2000 { // six points each
			require.NoError(t, client.Tracker().Add(gpuNode("node-"+string(rune('a'+i/26/26%26))+string(rune('a'+i/26%26))+string(rune('a'+i%26)))))
		}
		r := startReplica(t, client, nil, nop(), nil)
		defer r.stop()
		after(time.Second)
		batches := r.sink.AllMetrics()
		require.Len(t, batches, 2)
		total := 0
		for _, md := range batches {
			assert.LessOrEqual(t, md.DataPointCount(), maxBatch)
			total += md.DataPointCount()
		}
		assert.Greater(t, total, 12_000)
		allocatable := 0
		for _, line := range r.emittedPoints() {
			if strings.Contains(line, "k8s.gpu.allocatable {resource=nvidia.com/gpu, state=schedulable} = 8") {
				allocatable++
			}
		}
		assert.Equal(t, 2000, allocatable)
	})
}

func TestRefusedBatchIsCountedAndTheNextIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		telemetry := componenttest.NewTelemetry()
		defer func() { require.NoError(t, telemetry.Shutdown(context.WithoutCancel(t.Context()))) }()
		calls := 0
		next, err := consumer.NewMetrics(func(context.Context, pmetric.Metrics) error {
			if calls++; calls == 1 {
				return errors.New("full")
			}
			return nil
		})
		require.NoError(t, err)
		r := startReplica(t, kubetest.NewClient(gpuNode("a")), nil, metadatatest.NewSettings(telemetry), next)
		defer r.stop()
		after(31 * time.Second)
		assert.Equal(t, 2, calls)
		refused, err := telemetry.GetMetric("otelcol_receiver_refused_metric_points")
		require.NoError(t, err)
		assert.Positive(t, refused.Data.(metricdata.Sum[int64]).DataPoints[0].Value)
	})
}

func TestShutdownIsSafeWithoutStartAndTwice(t *testing.T) {
	r, err := newReceiver(nop(), createDefaultConfig().(*Config), consumertest.NewNop())
	require.NoError(t, err)
	require.NoError(t, r.Shutdown(t.Context()))
	require.NoError(t, r.Shutdown(t.Context()))

	synctest.Test(t, func(t *testing.T) {
		r := startReplica(t, kubetest.NewClient(), nil, nop(), nil)
		r.stop()
		r.stop()
	})
}

func TestShutdownReturnsWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		next, err := consumer.NewMetrics(func(context.Context, pmetric.Metrics) error {
			<-release // ignores the context
			return nil
		})
		require.NoError(t, err)
		r := startReplica(t, kubetest.NewClient(gpuNode("a")), nil, nop(), next)
		after(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, r.Shutdown(ctx), context.DeadlineExceeded)
		close(release)
		r.stop()
	})
}

// elected enables leader election.
func elected(cfg *Config) { cfg.LeaderElection.Enabled = true }

func TestOneReplicaEmitsAndAnotherTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := kubetest.NewClient(gpuNode("a"), gpuPod("one", "a", corev1.PodRunning))
		telemetry := componenttest.NewTelemetry()
		defer func() { require.NoError(t, telemetry.Shutdown(context.WithoutCancel(t.Context()))) }()
		first := startReplica(t, client, elected, nop(), nil)
		after(time.Second)
		second := startReplica(t, client, elected, metadatatest.NewSettings(telemetry), nil)
		defer second.stop()
		after(5 * time.Minute)
		assert.Len(t, first.sink.AllMetrics(), 11, "one immediately and one every 30 s")
		assert.Empty(t, second.emittedPoints())
		metadatatest.AssertEqualReceiverGpuClusterLeader(t, telemetry, []metricdata.DataPoint[int64]{{Value: 0}}, metricdatatest.IgnoreTimestamp())

		first.stop()
		first.sink.Reset()
		after(5 * time.Second)
		assert.Contains(t, second.emittedPoints(), runningLine+"1", "the lease was released, so the other replica does not wait until it expires")
		metadatatest.AssertEqualReceiverGpuClusterLeader(t, telemetry, []metricdata.DataPoint[int64]{{Value: 1}}, metricdatatest.IgnoreTimestamp())
		after(time.Minute)
		assert.Empty(t, first.emittedPoints())
	})
}

func TestReplicaWithoutRenewalStopsBeforeAnotherStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := kubetest.NewClient(gpuNode("a"))
		refusing := refuse(client, "leases", apierrors.NewInternalError(errors.New("no quorum")))
		r := startReplica(t, client, func(cfg *Config) {
			elected(cfg)
			cfg.CollectionInterval = time.Second
		}, nop(), nil)
		defer r.stop()
		after(time.Minute)
		assert.NotEmpty(t, r.emittedPoints())
		refusing.Store(true)
		after(15 * time.Second) // the lease has expired, so another replica can take over
		r.emittedPoints()
		after(time.Minute)
		assert.Empty(t, r.emittedPoints())
		assert.Contains(t, r.host.Last(), "no quorum")
		refusing.Store(false)
		after(5 * time.Second)
		assert.NotEmpty(t, r.emittedPoints())
		assert.Equal(t, "StatusOK", r.host.Last())
	})
}

// For each attempt to renew its lease, the leader sends two kinds of requests. In this test, both
// requests fail with the same error.
func TestUnavailableAPIServerIsLoggedOnceByTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := kubetest.NewClient(gpuNode("a"))
		var away atomic.Bool
		client.PrependReactor("*", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
			return away.Load(), nil, &url.Error{Op: action.GetVerb(), URL: "https://10.0.0.1:6443/apis", Err: syscall.ECONNREFUSED}
		})
		r := startReplica(t, client, elected, nop(), nil)
		defer r.stop()
		after(time.Minute)
		before := len(r.host.Events())
		away.Store(true)
		after(5 * time.Minute)
		require.Len(t, r.host.Events(), before+1)
		assert.Contains(t, r.host.Last(), "lease monitoring/otelcol-gpu-cluster: ")
		assert.Contains(t, r.host.Last(), "connection refused")
	})
}

func TestForbiddenLeaseIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := kubetest.NewClient(gpuNode("a"))
		refuse(client, "leases", apierrors.NewForbidden(schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}, "otelcol-gpu-cluster", errors.New("no RBAC policy matched"))).Store(true)
		r := startReplica(t, client, elected, nop(), nil)
		defer r.stop()
		after(5 * time.Minute)
		assert.Empty(t, r.emittedPoints())
		require.Len(t, r.host.Events(), 1)
		assert.Contains(t, r.host.Events()[0].Err().Error(), "lease monitoring/otelcol-gpu-cluster")
	})
}

func TestTheValuesOfSelfMetricsAreDocumented(t *testing.T) {
	var names []string
	for _, k := range kinds {
		names = append(names, k.String())
	}
	assert.ElementsMatch(t, enumtest.Documented(t, "kind"), names)
	assert.ElementsMatch(t, enumtest.Documented(t, "state"), enumtest.Names(kube.Off, kube.Absent+1))
}
