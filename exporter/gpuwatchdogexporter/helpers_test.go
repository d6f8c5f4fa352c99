package gpuwatchdogexporter

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuwatchdogexporter/internal/cluster"
	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuwatchdogexporter/internal/metadatatest"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/kubetest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/statustest"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

// The api type is a fake API server with pods.
type api struct {
	*fake.Clientset
	mu      sync.Mutex
	denied  map[string]bool // Missing permissions, such as "create pods/eviction" or "get pods in ai".
	roles   bool            // Whether permissions are granted per namespace instead of cluster-wide.
	evicted []policyv1.Eviction
	refusal error            // The error that evictions return.
	failing map[string]error // Errors that requests return, keyed by verb and resource, such as "get pods" or "* leases".
}

func newAPI(pods ...*corev1.Pod) *api {
	a := &api{Clientset: fake.NewClientset(), denied: map[string]bool{}, failing: map[string]error{}}
	for _, p := range pods {
		if err := a.Tracker().Add(p); err != nil {
			panic(err)
		}
	}
	kubetest.VersionLeases(a.Clientset)
	a.PrependReactor("create", "selfsubjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview).DeepCopy()
		r := review.Spec.ResourceAttributes
		a.mu.Lock()
		defer a.mu.Unlock()
		permission := strings.TrimSuffix(r.Verb+" "+r.Resource+"/"+r.Subresource, "/")
		review.Status.Allowed = !a.denied[permission] && !a.denied[permission+" in "+r.Namespace]
		if r.Namespace == "" { // a Role never grants a permission in all namespaces
			review.Status.Allowed = len(a.denied) == 0 && !a.roles
		}
		return true, review, nil
	})
	a.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		resource := action.GetResource().Resource
		err := cmp.Or(a.failing[action.GetVerb()+" "+resource], a.failing["* "+resource])
		return err != nil, nil, err
	})
	return a
}

func (a *api) evict(_ context.Context, e *policyv1.Eviction) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.denied["create pods/eviction"] || a.denied["create pods/eviction in "+e.Namespace] {
		return apierrors.NewForbidden(corev1.Resource("pods"), e.Name, errors.New("no role"))
	}
	a.evicted = append(a.evicted, *e)
	return a.refusal
}

func (a *api) set(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
}

// The evictions method returns the names of the pods for which an eviction was requested.
func (a *api) evictions() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var names []string
	for _, e := range a.evicted {
		names = append(names, e.Name)
	}
	return names
}

// The events method returns the reasons and messages of the Events that refer to a pod.
func (a *api) events(t *testing.T, pod string) []string {
	t.Helper()
	all, err := a.CoreV1().Events("ai").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	var texts []string
	for _, e := range all.Items {
		if e.InvolvedObject.Name == pod {
			require.Equal(t, types.UID("uid-"+pod), e.InvolvedObject.UID)
			texts = append(texts, e.Reason+": "+e.Message)
		}
	}
	return texts
}

// runningPod returns a pod that started at the given time and belongs to a Deployment.
func runningPod(name string, started time.Time) *corev1.Pod {
	yes, since := true, metav1.NewTime(started)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ai", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"pod-template-hash": "5d4f"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: name + "-5d4f", Controller: &yes}},
		},
		Spec:   corev1.PodSpec{NodeName: "gpu-1"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &since},
	}
}

// A guard is a watchdog that uses a fake API server.
type guard struct {
	*watchdog
	t         *testing.T
	host      *statustest.Host
	api       *api
	telemetry *componenttest.Telemetry
	logs      *observer.ObservedLogs
	offset    atomic.Int64 // added to the guard's clock
}

func enforce(cfg *Config) {
	cfg.DryRun = false
	cfg.Namespaces = []string{"ai"}
}

func newConfig(change ...func(*Config)) *Config {
	cfg := createDefaultConfig().(*Config)
	cfg.Namespaces = []string{"ai"}
	cfg.LeaderElection.Namespace = "monitoring"
	cfg.LeaderElection.Enabled, cfg.SharedRecord.Enabled = false, false
	cfg.SharedRecord.Namespace = "monitoring"
	cfg.Budgets.Sources = append(cfg.Budgets.Sources, "koordinator") // the source of the budgets in [card]
	for _, c := range change {
		c(cfg)
	}
	return cfg
}

func startGuard(t *testing.T, a *api, on component.Host, change ...func(*Config)) *guard {
	t.Helper()
	g := &guard{t: t, host: statustest.Around(on), api: a, telemetry: componenttest.NewTelemetry()}
	cfg := newConfig(change...)
	require.NoError(t, cfg.Validate())
	set := metadatatest.NewSettings(g.telemetry)
	core, logs := observer.New(zap.InfoLevel)
	set.Logger, g.logs = zap.New(core), logs
	var err error
	g.watchdog, err = newWatchdog(set, cfg)
	require.NoError(t, err)
	g.newCache = func(o kube.Options, set component.TelemetrySettings) (*kube.Cache, error) {
		return kube.NewCache(a.Clientset, o, set), nil
	}
	g.newCluster = func(client kubernetes.Interface, o cluster.Options) *cluster.Cluster {
		c := cluster.New(client, o)
		c.Evict = a.evict
		return c
	}
	g.clock = func() time.Time { return time.Now().Add(time.Duration(g.offset.Load())) }
	require.NoError(t, g.start(t.Context(), g.host))
	return g
}

func (g *guard) stop() {
	g.t.Helper()
	ctx := context.WithoutCancel(g.t.Context())
	require.NoError(g.t, g.shutdown(ctx))
	require.NoError(g.t, g.telemetry.Shutdown(ctx))
}

// The counted method returns the number of evaluations, keyed by reason.
func (g *guard) counted() map[string]int64 {
	g.t.Helper()
	counts := map[string]int64{}
	m, err := g.telemetry.GetMetric("otelcol_gpu_watchdog_evaluations")
	if err != nil {
		return counts
	}
	for _, dp := range m.Data.(metricdata.Sum[int64]).DataPoints {
		reason, _ := dp.Attributes.Value(attribute.Key("reason"))
		counts[reason.AsString()] = dp.Value
	}
	return counts
}

// The heartbeat method returns the time of the last complete evaluation, or zero if there was none.
func (g *guard) heartbeat() time.Time {
	m, err := g.telemetry.GetMetric("otelcol_gpu_watchdog_last_success")
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(int64(m.Data.(metricdata.Gauge[float64]).DataPoints[0].Value * 1000))
}

// A card describes the telemetry of a device with 15360 MiB of memory. Sizes are in MiB.
type card struct {
	free        int64
	node        string // An empty name means gpu-1.
	namespace   string // An empty name means ai.
	processes   int    // Number of processes per pod.
	source      string // Source of the budgets. An empty source means koordinator.
	attribution string
	used        map[string]int64 // usage by pod
	budget      map[string]int64
}

func (c card) metrics(at time.Time) pmetric.Metrics {
	md := pmetric.NewMetrics()
	resource := func(pod string) pmetric.MetricSlice {
		rm := md.ResourceMetrics().AppendEmpty()
		attributes := rm.Resource().Attributes()
		node := cmp.Or(c.node, "gpu-1")
		attributes.PutStr(signal.HostName, node)
		attributes.PutStr(signal.K8sNodeName, node)
		if pod != "" {
			attributes.PutStr(signal.K8sNamespaceName, cmp.Or(c.namespace, "ai"))
			attributes.PutStr(signal.K8sPodName, pod)
			attributes.PutStr(signal.K8sPodUID, "uid-"+pod)
			attributes.PutStr(signal.K8sContainerName, "main")
		}
		return rm.ScopeMetrics().AppendEmpty().Metrics()
	}
	add := func(ms pmetric.MetricSlice, of *signal.Metric, value int64, attributes ...string) {
		m := ms.AppendEmpty()
		m.SetName(of.Name)
		dp := m.SetEmptyGauge().DataPoints().AppendEmpty()
		dp.SetTimestamp(pcommon.NewTimestampFromTime(at))
		dp.SetIntValue(value)
		dp.Attributes().PutStr(signal.HardwareID, "GPU-0")
		for i := 0; i < len(attributes); i += 2 {
			dp.Attributes().PutStr(attributes[i], attributes[i+1])
		}
	}
	board := resource("")
	add(board, signal.HwGPUMemoryLimit, 15360*mib)
	add(board, signal.HwGPUMemoryUsage, (15360-256-c.free)*mib)
	add(board, signal.GPUMemoryHeadroom, c.free*mib)
	state := c.attribution
	if state == "" {
		state = "valid"
	}
	states := []string{"valid", "partial", "invalid"}
	if !slices.Contains(states, state) {
		states = append(states, state)
	}
	for _, s := range states {
		value := int64(0)
		if s == state {
			value = 1
		}
		add(board, signal.GPUMemoryAttributionState, value, signal.State, s, signal.Reason, "of "+s)
	}
	for _, pod := range slices.Sorted(maps.Keys(c.used)) {
		ms := resource(pod)
		add(ms, signal.HwGPUMemoryUsage, 1) // a copy of the device series on the Resource of the holder
		add(ms, signal.K8sContainerGPUMemoryUsage, c.used[pod]*mib)
		if b, ok := c.budget[pod]; ok {
			add(ms, signal.K8sContainerGPUMemoryBudget, b*mib, signal.BudgetSource, cmp.Or(c.source, "koordinator"))
		}
		for pid := range c.processes {
			add(ms, signal.ProcessGPUMemoryUsage, mib, signal.ProcessPID, strconv.Itoa(pid))
		}
	}
	return md
}

// The pressed card describes a device with little free memory, on which the pod "a" is far over its
// budget and the pod "b" is within its budget.
var pressed = card{free: 900, used: map[string]int64{"a": 9000, "b": 4000}, budget: map[string]int64{"a": 3000, "b": 4500}}

// The relaxed card describes a device with enough free memory and the same pods as in the pressed
// card.
var relaxed = card{free: 8000, used: map[string]int64{"a": 2000, "b": 4000}, budget: map[string]int64{"a": 3000, "b": 4500}}

// sendEachInterval advances the fake clock by the given duration and sends a sample every ten
// seconds.
func sendEachInterval(d time.Duration, c card, guards ...*guard) {
	for range int(d / (10 * time.Second)) {
		for _, g := range guards {
			if err := g.consume(g.t.Context(), c.metrics(g.clock())); err != nil {
				panic(err)
			}
		}
		sleep(10 * time.Second)
	}
}

// The sleep function advances the fake clock and waits until all goroutines are blocked.
func sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
