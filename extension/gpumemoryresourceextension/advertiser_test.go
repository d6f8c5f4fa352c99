package gpumemoryresourceextension

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/otelcol-gpu/otelcol-gpu/extension/gpumemoryresourceextension/internal/metadatatest"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/enumtest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/statustest"
)

const gpumem = "example.com/gpumem"

// gpuNode returns a node with four GPUs, each with 15360 MiB of memory.
func gpuNode(name string, advertised ...string) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{presentLabel: "true", memoryLabel: "15360", countLabel: "4"}},
		Status:     corev1.NodeStatus{Capacity: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("4")}},
	}
	for _, amount := range advertised {
		node.Status.Capacity[gpumem] = resource.MustParse(amount)
	}
	return node
}

func newConfig(change ...func(*Config)) *Config {
	cfg := createDefaultConfig().(*Config)
	cfg.Resource = gpumem
	for _, c := range change {
		c(cfg)
	}
	return cfg
}

// An extension that has been started with a fake API server.
type running struct {
	*advertiser
	t         *testing.T
	client    *fake.Clientset
	host      *statustest.Host
	telemetry *componenttest.Telemetry
}

func start(t *testing.T, client *fake.Clientset, change ...func(*Config)) *running {
	t.Helper()
	r := &running{t: t, client: client, host: statustest.NewHost(), telemetry: componenttest.NewTelemetry()}
	cfg := newConfig(change...)
	require.NoError(t, cfg.Validate())
	var err error
	r.advertiser, err = newAdvertiser(metadatatest.NewSettings(r.telemetry), cfg)
	require.NoError(t, err)
	r.newCache = func(o kube.Options, set component.TelemetrySettings) (*kube.Cache, error) {
		return kube.NewCache(client, o, set), nil
	}
	require.NoError(t, r.Start(t.Context(), r.host))
	pass(time.Second)
	return r
}

func (r *running) end() {
	ctx := context.WithoutCancel(r.t.Context())
	require.NoError(r.t, r.Shutdown(ctx))
	require.NoError(r.t, r.telemetry.Shutdown(ctx))
}

// Returns the amount of the memory resource that a node advertises, or "" if there is none.
func (r *running) advertised(name string) string {
	r.t.Helper()
	return r.capacity(name, gpumem)
}

func (r *running) capacity(name string, of corev1.ResourceName) string {
	r.t.Helper()
	node, err := r.client.CoreV1().Nodes().Get(r.t.Context(), name, metav1.GetOptions{})
	require.NoError(r.t, err)
	if amount, ok := node.Status.Capacity[of]; ok {
		return amount.String()
	}
	return ""
}

func (r *running) patches() int {
	n := 0
	for _, a := range r.client.Actions() {
		if a.Matches("patch", "nodes") && a.GetSubresource() == "status" {
			n++
		}
	}
	return n
}

// Returns the number of nodes in each state.
func (r *running) counted() map[string]int64 {
	m, err := r.telemetry.GetMetric("otelcol_extension_gpu_memory_resource_nodes")
	require.NoError(r.t, err)
	counts := map[string]int64{}
	for _, dp := range m.Data.(metricdata.Gauge[int64]).DataPoints {
		state, _ := dp.Attributes.Value(attribute.Key("state"))
		counts[state.AsString()] = dp.Value
	}
	return counts
}

// Advances the fake clock of the synctest bubble by d.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestAdvertisedMemory(t *testing.T) {
	label := func(key, value string) func(*corev1.Node) { return func(n *corev1.Node) { n.Labels[key] = value } }
	for name, tc := range map[string]struct {
		node   func(*corev1.Node)
		change func(*Config)
		want   string
		state  string
	}{
		"memory of the GPUs minus the reserve of each": {nil, nil, "57344", "as_wanted"},
		"in bytes":              {nil, func(c *Config) { c.Unit = unitBytes }, "60129542144", "as_wanted"},
		"the configured amount": {nil, func(c *Config) { c.Amount = 14000 << 20 }, "14k", "as_wanted"},
		"nothing if the GPUs are smaller than the reserve":     {label(memoryLabel, "512"), nil, "0", "as_wanted"},
		"nothing if the size of the GPUs is unknown":           {label(memoryLabel, ""), nil, "", "unknown"},
		"nothing if the number of GPUs is unknown":             {label(countLabel, "many"), nil, "", "unknown"},
		"the configured amount regardless of labels":           {label(memoryLabel, ""), func(c *Config) { c.Amount = 8 << 30 }, "8192", "as_wanted"},
		"the configured amount per GPU":                        {nil, func(c *Config) { c.AmountPerGPU = 14000 << 20 }, "56k", "as_wanted"},
		"the configured amount per GPU regardless of the size": {label(memoryLabel, ""), func(c *Config) { c.AmountPerGPU = 1 << 30 }, "4096", "as_wanted"},
		"nothing per GPU if the number is unknown":             {label(countLabel, ""), func(c *Config) { c.AmountPerGPU = 1 << 30 }, "", "unknown"},
		"nothing for an implausible amount of memory":          {label(countLabel, "1000000"), func(c *Config) { c.AmountPerGPU = 1 << 50 }, "", "unknown"},
		"nothing without GPUs":                                 {label(presentLabel, "false"), nil, "", ""},
		"the correct amount instead of another": {
			func(n *corev1.Node) { n.Status.Capacity[gpumem] = resource.MustParse("1") }, nil, "57344", "as_wanted",
		},
		"nothing if the resource is to be removed": {
			func(n *corev1.Node) { n.Status.Capacity[gpumem] = resource.MustParse("57344") }, func(c *Config) { c.Remove = true }, "", "as_wanted",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				node := gpuNode("gpu-1")
				if tc.node != nil {
					tc.node(node)
				}
				var changes []func(*Config)
				if tc.change != nil {
					changes = append(changes, tc.change)
				}
				r := start(t, fake.NewClientset(node), changes...)
				defer r.end()
				assert.Equal(t, tc.want, r.advertised("gpu-1"))
				for state, n := range r.counted() {
					assert.Equal(t, state == tc.state, n == 1, state)
				}
			})
		})
	}
}

// Enables the koordinator.sh/gpu.shared resource with default settings.
func share(c *Config) { c.Shared.GetOrInsertDefault() }

func TestAdvertisedShares(t *testing.T) {
	for name, tc := range map[string]struct {
		labels         map[string]string
		change         func(*Config)
		shared, memory string
		state          string
	}{
		"100 per GPU":                      {nil, share, "400", "57344", "as_wanted"},
		"the proposal's eight GPUs":        {map[string]string{countLabel: "8"}, share, "800", "114688", "as_wanted"},
		"another number":                   {nil, func(c *Config) { share(c); c.Shared.Get().PerGPU = 10 }, "40", "57344", "as_wanted"},
		"alone":                            {nil, func(c *Config) { share(c); c.Resource = "" }, "400", "", "as_wanted"},
		"only the share, for any size":     {map[string]string{memoryLabel: ""}, func(c *Config) { share(c); c.Resource = "" }, "400", "", "as_wanted"},
		"with unknown memory":              {map[string]string{memoryLabel: ""}, share, "400", "", "unknown"},
		"nothing if the number is unknown": {map[string]string{countLabel: ""}, share, "", "", "unknown"},
		"with a configured amount":         {map[string]string{countLabel: ""}, func(c *Config) { share(c); c.Amount = 1 << 30 }, "", "1024", "unknown"},
		"nothing without the section":      {nil, func(*Config) {}, "", "57344", "as_wanted"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				node := gpuNode("gpu-1")
				maps.Copy(node.Labels, tc.labels)
				r := start(t, fake.NewClientset(node), tc.change)
				defer r.end()
				assert.Equal(t, tc.shared, r.capacity("gpu-1", sharedResource))
				assert.Equal(t, tc.memory, r.advertised("gpu-1"))
				assert.EqualValues(t, 1, r.counted()[tc.state])
				assert.LessOrEqual(t, r.patches(), 1, "one request for all resources")
				pass(time.Hour)
				assert.LessOrEqual(t, r.patches(), 1)
			})
		})
	}
}

func TestBothResourcesAreRestoredTogetherAndRemovedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(gpuNode("gpu-1"))
		r := start(t, client, share)
		_, err := r.client.CoreV1().Nodes().UpdateStatus(t.Context(), gpuNode("gpu-1"), metav1.UpdateOptions{})
		require.NoError(t, err)
		pass(2 * patchGap)
		assert.Equal(t, "400", r.capacity("gpu-1", sharedResource))
		assert.Equal(t, "57344", r.advertised("gpu-1"))
		r.end()

		remover := start(t, client, share, func(c *Config) { c.Remove = true })
		defer remover.end()
		pass(patchGap)
		assert.Empty(t, remover.capacity("gpu-1", sharedResource))
		assert.Empty(t, remover.advertised("gpu-1"))
		assert.EqualValues(t, 1, remover.counted()["as_wanted"])
	})
}

func TestAConfiguredNodeIsNotPatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, fake.NewClientset(gpuNode("gpu-1", "57344")))
		defer r.end()
		pass(time.Hour)
		assert.Zero(t, r.patches())
		remover := start(t, fake.NewClientset(gpuNode("gpu-1")), func(c *Config) { c.Remove = true })
		defer remover.end()
		pass(time.Hour)
		assert.Zero(t, remover.patches())
	})
}

func TestANodeThatRegistersAgainIsPatchedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, fake.NewClientset(gpuNode("gpu-1")))
		defer r.end()
		require.Equal(t, "57344", r.advertised("gpu-1"))
		pass(time.Hour)
		_, err := r.client.CoreV1().Nodes().UpdateStatus(t.Context(), gpuNode("gpu-1"), metav1.UpdateOptions{})
		require.NoError(t, err)
		pass(time.Second)
		assert.Equal(t, "57344", r.advertised("gpu-1"))
		_, err = r.client.CoreV1().Nodes().Create(t.Context(), gpuNode("gpu-2"), metav1.CreateOptions{})
		require.NoError(t, err)
		pass(time.Second)
		assert.Equal(t, "57344", r.advertised("gpu-2"))
		assert.Equal(t, 3, r.patches())
	})
}

// If two extensions set different amounts, the extensions must not send requests continuously.
func TestANodeThatAnotherClientChangesIsNotPatchedContinuously(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(gpuNode("gpu-1"))
		one := start(t, client)
		defer one.end()
		other := start(t, client, func(c *Config) { c.Amount = 1 << 30 })
		defer other.end()
		pass(time.Minute)
		assert.LessOrEqual(t, one.patches(), 16)
	})
}

func TestARejectedPatchIsReportedAndRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		refused := true
		client := fake.NewClientset(gpuNode("gpu-1"))
		client.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			mu.Lock()
			defer mu.Unlock()
			return refused, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "nodes/status"}, "gpu-1", errors.New("no RBAC policy matched"))
		})
		r := start(t, client)
		defer r.end()
		assert.Contains(t, r.host.Last(), "node gpu-1: ")
		assert.EqualValues(t, 1, r.counted()["not_yet"])
		node := gpuNode("gpu-1")
		node.Labels["nvidia.com/driver"] = "600"
		_, err := client.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{})
		require.NoError(t, err)
		pass(time.Minute)
		assert.Len(t, r.host.Events(), 1, "reported once, and not cleared before the next request")
		mu.Lock()
		refused = false
		mu.Unlock()
		pass(patchGap)
		assert.Equal(t, "57344", r.advertised("gpu-1"))
		assert.Equal(t, "StatusOK", r.host.Last())
		assert.EqualValues(t, 1, r.counted()["as_wanted"])
	})
}

// In this test, a node was deleted, but the watch has not yet reported the deletion.
func TestADeletedNodeIsNeitherAProblemNorCountedAsChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(gpuNode("gpu-1"))
		client.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewNotFound(corev1.Resource("nodes"), "gpu-1")
		})
		r := start(t, client)
		defer r.end()
		assert.Empty(t, r.host.Events())
		assert.Equal(t, 1, r.patches())
		metadatatest.AssertEqualExtensionGpuMemoryResourcePatches(t, r.telemetry, []metricdata.DataPoint[int64]{
			{Value: 1, Attributes: attribute.NewSet(attribute.String("outcome", "error"))},
		}, metricdatatest.IgnoreTimestamp())
	})
}

// The collector and the control plane may start at the same time, for example after a power failure.
func TestAnUnavailableAPIServerIsReportedUntilItResponds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var unavailable atomic.Bool
		unavailable.Store(true)
		client := fake.NewClientset(gpuNode("gpu-1"))
		client.PrependReactor("*", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			return unavailable.Load(), nil, errors.New("connection refused")
		})
		r := start(t, client)
		defer r.end()
		assert.Regexp(t, "^nodes: syncing: .*connection refused$", r.host.Last())
		pass(10 * time.Minute)
		assert.Len(t, r.host.Events(), 1, "reported once")

		unavailable.Store(false)
		pass(time.Minute + time.Second)
		assert.Equal(t, "57344", r.advertised("gpu-1"))
		assert.Equal(t, "StatusOK", r.host.Last())
	})
}

func TestALostAPIServerIsReportedUntilItResponds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var unavailable atomic.Bool
		client := fake.NewClientset(gpuNode("gpu-1"))
		watches := make(chan *watch.RaceFreeFakeWatcher, 10)
		client.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			return unavailable.Load(), nil, errors.New("connection refused")
		})
		client.PrependWatchReactor("nodes", func(clienttesting.Action) (bool, watch.Interface, error) {
			if unavailable.Load() {
				return true, nil, errors.New("connection refused")
			}
			w := watch.NewRaceFreeFake()
			watches <- w
			return true, w, nil
		})
		r := start(t, client)
		defer r.end()
		require.Empty(t, r.host.Events())

		unavailable.Store(true)
		(<-watches).Stop()
		pass(2 * time.Minute)
		assert.Regexp(t, "^nodes: stale: .*connection refused$", r.host.Last())

		unavailable.Store(false)
		pass(time.Minute + time.Second)
		assert.Equal(t, "StatusOK", r.host.Last())
	})
}

func TestOutsideAClusterTheStatusHasTheReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		telemetry := componenttest.NewTelemetry()
		a, err := newAdvertiser(metadatatest.NewSettings(telemetry), newConfig())
		require.NoError(t, err)
		h := statustest.NewHost()
		require.NoError(t, a.Start(t.Context(), h))
		pass(time.Second)
		assert.Contains(t, h.Last(), "nodes: off")
		require.NoError(t, a.Shutdown(t.Context()))
		require.NoError(t, a.Shutdown(t.Context()))
		require.NoError(t, telemetry.Shutdown(t.Context()))
	})
}

func TestAKubeconfigThatCannotBeReadFailsAtStart(t *testing.T) {
	a, err := newAdvertiser(metadatatest.NewSettings(componenttest.NewTelemetry()), newConfig(func(c *Config) {
		c.Kubernetes = kube.Config{AuthType: kube.AuthKubeConfig, KubeConfig: "/no/such/file"}
	}))
	require.NoError(t, err)
	require.ErrorContains(t, a.Start(t.Context(), componenttest.NewNopHost()), "/no/such/file")
	require.NoError(t, a.Shutdown(t.Context()))
}

func TestErrorsHaveTheFieldItsValueAndTheAllowedValues(t *testing.T) {
	require.NoError(t, confmap.Validate(newConfig()))
	require.NoError(t, confmap.Validate(newConfig(share, func(c *Config) { c.Resource = "" })))
	for want, change := range map[string]func(*Config){
		`resource is "": must be a name with your own domain`: func(c *Config) { c.Resource = "" },
		`resource is "gpumem": must be a name`:                func(c *Config) { c.Resource = "gpumem" },
		`resource is "kubernetes.io/gpumem": must`:            func(c *Config) { c.Resource = "kubernetes.io/gpumem" },
		`resource is "x.kubernetes.io/gpumem": must`:          func(c *Config) { c.Resource = "x.kubernetes.io/gpumem" },
		`resource is "example.com/a b": must`:                 func(c *Config) { c.Resource = "example.com/a b" },
		// The first resource belongs to the device plugin, and no pod can request the second
		// resource.
		`resource is "nvidia.com/gpu": must be a name with your own domain`:     func(c *Config) { c.Resource = "nvidia.com/gpu" },
		`resource is "requests.example.com/gpumem": must`:                       func(c *Config) { c.Resource = "requests.example.com/gpumem" },
		`unit is "GiB": must be MiB or bytes`:                                   func(c *Config) { c.Unit = "GiB" },
		"amount is 14000: must be 0, or 1Mi to 1Pi":                             func(c *Config) { c.Amount = 14000 },
		"amount is -1: must be 0, or 1Mi to 1Pi":                                func(c *Config) { c.Amount = -1 },
		"amount_per_gpu is 1: must be 0, or 1Mi to 1Pi":                         func(c *Config) { c.AmountPerGPU = 1 },
		"amount is 1Gi and amount_per_gpu is 1Gi: one of them":                  func(c *Config) { c.Amount, c.AmountPerGPU = 1<<30, 1<<30 },
		"shared::per_gpu is 0: must be between 1 and 10000":                     func(c *Config) { share(c); c.Shared.Get().PerGPU = 0 },
		`resource is "gpumem": must be a name with your own domain`:             func(c *Config) { share(c); c.Resource = "gpumem" },
		"reserve is -1: must be 0, or 1Mi to 1Pi":                               func(c *Config) { c.Reserve = -1 },
		"reserve is 1: must be 0, or 1Mi to 1Pi":                                func(c *Config) { c.Reserve = 1 },
		`kubernetes::auth_type is "none": must be serviceAccount or kubeConfig`: func(c *Config) { c.Kubernetes.AuthType = kube.AuthNone },
	} {
		require.ErrorContains(t, confmap.Validate(newConfig(change)), want)
	}
	for _, text := range []string{"lots", "1e30", "-1Gi"} {
		err := confmap.NewFromStringMap(map[string]any{"amount": text}).Unmarshal(createDefaultConfig())
		require.ErrorContains(t, err, `"`+text+`" is not an amount of memory`)
	}
}

func TestEveryStateOfANodeIsDocumented(t *testing.T) {
	assert.ElementsMatch(t, enumtest.Documented(t, "state"), stateNames)
}
