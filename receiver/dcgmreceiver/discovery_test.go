package dcgmreceiver

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/dcgmreceiver/internal/metadatatest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/kubetest"
)

const ownNode = "gpu-node-7"

// exporterPod returns a running exporter pod.
func exporterPod(name, node, ip string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "gpu-operator", Name: name, Labels: map[string]string{"app": "nvidia-dcgm-exporter"}},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{
			{Name: "sidecar", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}},
			{Name: "exporter", Ports: []corev1.ContainerPort{{Name: "metrics", ContainerPort: 9401}}},
		}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip},
	}
}

// The discovering function returns a receiver that finds pods through a fake Kubernetes client. If
// client is nil, there is no API server.
func discovering(t *testing.T, client *fake.Clientset, change func(*DiscoveryConfig)) *fixture {
	t.Helper()
	f := newFixture(t, nil, func(cfg *Config) {
		cfg.StartJitter = new(time.Duration)
		d := newDefaultDiscoveryConfig()
		d.NodeName = ownNode
		if change != nil {
			change(&d)
		}
		cfg.Discovery = configoptional.Some(d)
	})
	f.discovery.acquire = func(o kube.Options, set component.TelemetrySettings) (*kube.Cache, error) {
		if client == nil {
			return kube.NewCache(nil, o, set), nil
		}
		return kube.NewCache(client, o, set), nil
	}
	return f
}

// lastUps returns the exporters in the batches since the given time, keyed by URL. The value for
// each exporter contains the node and the last value of gpu.exporter.up.
func lastUps(t *testing.T, f *fixture, since time.Time) map[string]exporterState {
	t.Helper()
	states := map[string]exporterState{}
	for _, md := range f.sink.AllMetrics() {
		if timestamp(md).Before(since) {
			continue
		}
		value, url := exporterUpOf(t, md)
		if ended(md) {
			delete(states, url)
			continue
		}
		node, _ := md.ResourceMetrics().At(0).Resource().Attributes().Get(signal.K8sNodeName)
		states[url] = exporterState{value == 1, node.Str()}
	}
	return states
}

// The ended function reports whether a batch ends the series of gpu.exporter.up.
func ended(md pmetric.Metrics) bool {
	for _, point := range points(md) {
		return point.Flags().NoRecordedValue()
	}
	return false
}

// The ends function returns the sorted URLs of the exporters whose series of gpu.exporter.up have
// ended.
func ends(t *testing.T, f *fixture) []string {
	t.Helper()
	var urls []string
	for _, md := range f.sink.AllMetrics() {
		if ended(md) {
			assert.Equal(t, 1, md.DataPointCount())
			_, url := exporterUpOf(t, md)
			urls = append(urls, url)
		}
	}
	return urls
}

type exporterState struct {
	up   bool
	node string
}

// settle waits in a synctest bubble until each endpoint has been scraped twice, but returns before
// a third scrape is possible. The returned time is the earliest possible time of the first scrape.
// The actual first scrape may happen later, because the receiver waits for the cache.
func settle() time.Time {
	since := time.Now()
	<-time.After(2*defaultCollectionInterval - time.Second)
	synctest.Wait()
	return since
}

// discoveryMessages returns the log messages about discovery.
func discoveryMessages(f *fixture) []string {
	return slices.DeleteFunc(messages(f.logs), func(m string) bool {
		return m == "info: Kubernetes objects are current" || m == "warn: Scraping the exporter fails" || m == "warn: Kubernetes objects cannot be read"
	})
}

func TestTheExporterOfTheNodeIsFoundAndItsResourcesHaveTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n network
		n.listen(t, "10.0.0.7:9401", serve(goodBody))
		f := discovering(t, kubetest.NewClient(exporterPod("exporter", ownNode, "10.0.0.7")), nil)
		f.start(t, &n)
		settle()
		require.NoError(t, f.Shutdown(t.Context()))
		require.Len(t, f.sink.AllMetrics(), 2)
		for _, md := range f.sink.AllMetrics() {
			value, url := exporterUpOf(t, md)
			assert.EqualValues(t, 1, value)
			assert.Equal(t, "http://10.0.0.7:9401/metrics", url)
			assert.Equal(t, 2, md.ResourceMetrics().Len())
			assert.Equal(t, []string{ownNode, ownNode}, nodes(md))
		}
		assert.Equal(t, []string{"info: Exporters found among the pods"}, discoveryMessages(f))
	})
}

// An agent uses a single watch for all pods on its node, and shares this watch with the agent's
// other components.
func TestAgentUsesOneWatchForAllSelectors(t *testing.T) {
	for scope, want := range map[string]int{scopeNode: 1, scopeCluster: 6} {
		t.Run(scope, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n network
				n.listen(t, "10.0.0.7:9401", serve(goodBody))
				client := kubetest.NewClient(exporterPod("exporter", ownNode, "10.0.0.7"))
				f := discovering(t, client, func(cfg *DiscoveryConfig) {
					cfg.Scope = scope
					cfg.Selectors = []string{"app=nvidia-dcgm-exporter", "app=b"}
					cfg.Others = []OtherExporter{{Selector: "app=c", Port: 1}, {Selector: "app=d", Port: 1}, {Selector: "app=e", Port: 1}, {Selector: "app=f", Port: 1}}
				})
				var options []kube.Options
				acquire := f.discovery.acquire
				f.discovery.acquire = func(o kube.Options, set component.TelemetrySettings) (*kube.Cache, error) {
					options = append(options, o)
					return acquire(o, set)
				}
				f.start(t, &n)
				settle()
				require.NoError(t, f.Shutdown(t.Context()))
				require.NotEmpty(t, f.sink.AllMetrics())
				watches := 0
				for _, action := range client.Actions() {
					if action.GetVerb() == "watch" {
						watches++
					}
				}
				assert.Equal(t, want, watches)
				if scope == scopeNode { // gpu_k8s uses the same options, so it shares this watch
					assert.Equal(t, []kube.Options{{Config: kube.NewDefaultConfig(), NodeName: ownNode}}, options)
				}
			})
		})
	}
}

func nodes(md pmetric.Metrics) []string {
	var names []string
	for _, rm := range md.ResourceMetrics().All() {
		node, _ := rm.Resource().Attributes().Get(signal.K8sNodeName)
		names = append(names, node.Str())
	}
	return names
}

func TestExporterPods(t *testing.T) {
	pod := func(name string, change func(*corev1.Pod)) *corev1.Pod {
		p := exporterPod(name, ownNode, "10.0.0.7")
		if change != nil {
			change(p)
		}
		return p
	}
	at := func(second int) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.CreationTimestamp = metav1.Unix(int64(second), 0) }
	}
	for name, test := range map[string]struct {
		found [][]*corev1.Pod
		want  []string
	}{
		"none":                                  {nil, nil},
		"a running pod with an IP":              {[][]*corev1.Pod{{pod("a", nil)}}, []string{"a"}},
		"not a pending pod":                     {[][]*corev1.Pod{{pod("a", func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending })}}, nil},
		"not a pod that has ended":              {[][]*corev1.Pod{{pod("a", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })}}, nil},
		"not a pod without an IP":               {[][]*corev1.Pod{{pod("a", func(p *corev1.Pod) { p.Status.PodIP = "" })}}, nil},
		"not a pod that is being deleted":       {[][]*corev1.Pod{{pod("a", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} })}}, nil},
		"the older of two pods":                 {[][]*corev1.Pod{{pod("a", at(2)), pod("b", at(1))}}, []string{"b"}},
		"the first of two pods of the same age": {[][]*corev1.Pod{{pod("b", at(1)), pod("a", at(1))}}, []string{"a"}},
		"the first selector has precedence":     {[][]*corev1.Pod{{pod("a", at(2))}, {pod("b", at(1))}}, []string{"a"}},
		"the second selector if the first one matches no pod": {
			[][]*corev1.Pod{{pod("a", func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending })}, {pod("b", nil)}},
			[]string{"b"},
		},
		"one pod per node": {
			[][]*corev1.Pod{
				{pod("a", nil), pod("b", func(p *corev1.Pod) { p.Spec.NodeName = "x" })},
				{pod("c", nil), pod("d", func(p *corev1.Pod) { p.Spec.NodeName = "y" })},
			},
			[]string{"a", "b", "d"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, p := range exporters(test.found) {
				got = append(got, p.Name)
			}
			assert.Equal(t, test.want, got)
		})
	}
}

func TestExportersOfAllVendorsOnANodeAreScraped(t *testing.T) {
	// The other function returns a pod that runs another vendor's exporter. If the port argument is
	// 0, the pod declares no port.
	other := func(name, label, value, ip string, port int32) *corev1.Pod {
		p := exporterPod(name, ownNode, ip)
		p.Labels = map[string]string{label: value}
		p.Spec.Containers = []corev1.Container{{Name: "exporter"}, {Name: "sidecar"}}
		if port != 0 {
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: port}}
		}
		return p
	}
	inHostNetwork := func(p *corev1.Pod) *corev1.Pod {
		p.Spec.HostNetwork = true
		return p
	}
	synctest.Test(t, func(t *testing.T) {
		own := time.Now().Add(-3 * time.Second)
		f := discovering(t, kubetest.NewClient(
			exporterPod("dcgm", ownNode, "10.0.0.1"),
			other("another-metrics-exporter", "app.kubernetes.io/name", "metrics-exporter", "10.0.0.2", 8080),
			other("default-metrics-exporter", "app.kubernetes.io/name", "metrics-exporter", "10.0.0.3", 5000),
			inHostNetwork(other("tpu-device-plugin-x", "k8s-app", "tpu-device-plugin", "10.0.0.4", 0)),
			other("neuron-monitor-x", "app", "neuron-monitor", "10.0.0.5", 8000),
			other("neuron-monitor-y", "app", "neuron-monitor", "10.0.0.6", 0),
			other("npu-exporter-x", "app", "npu-exporter", "10.0.0.7", 8082),
		), nil)
		body := fmt.Sprintf("npu_chip_info_power{id=\"0\"} 70 %d\n", own.UnixMilli())
		var n network
		for _, address := range []string{"10.0.0.1:9401", "10.0.0.2:8080", "10.0.0.2:5000", "10.0.0.3:5000", "10.0.0.4:2112", "10.0.0.5:8000", "10.0.0.6:8000", "10.0.0.7:8082"} {
			n.listen(t, address, serve(body))
		}
		f.start(t, &n)
		settle()
		require.NoError(t, f.Shutdown(t.Context()))
		scraped := map[string]bool{} // the value is true if the receiver uses the exporter's timestamps
		for _, md := range f.sink.AllMetrics() {
			_, url := exporterUpOf(t, md)
			for m, point := range points(md) {
				if m.Name() == "npu_chip_info_power" {
					scraped[url] = point.Timestamp().AsTime().Equal(own.Truncate(time.Millisecond))
				}
			}
		}
		assert.Equal(t, map[string]bool{
			"http://10.0.0.1:9401/metrics": false, "http://10.0.0.3:5000/metrics": false, "http://10.0.0.4:2112/metrics": false,
			"http://10.0.0.5:8000/metrics": false, "http://10.0.0.7:8082/metrics": true,
		}, scraped)
	})
}

func TestURLOfAnExporter(t *testing.T) {
	for want, change := range map[string]func(*corev1.Pod, *DiscoveryConfig){
		"http://10.0.0.7:9401/metrics": func(*corev1.Pod, *DiscoveryConfig) {},
		"http://10.0.0.7:9400/metrics": func(p *corev1.Pod, _ *DiscoveryConfig) { p.Spec.Containers = nil },
		"http://10.0.0.7:8080/metrics": func(_ *corev1.Pod, d *DiscoveryConfig) { d.PortName = "http" },
		"http://10.0.0.7:9500/metrics": func(_ *corev1.Pod, d *DiscoveryConfig) { d.PortName, d.Port = "other", 9500 },
		"http://10.0.0.7:9600/metrics": func(p *corev1.Pod, d *DiscoveryConfig) { // an empty port name matches no port
			p.Spec.Containers[0].Ports[0].Name, d.PortName, d.Port = "", "", 9600
		},
		"https://10.0.0.7:9401/metrics": func(_ *corev1.Pod, d *DiscoveryConfig) { d.Scheme = "https" },
		"http://[fd00::7]:9401/metrics": func(p *corev1.Pod, _ *DiscoveryConfig) { p.Status.PodIP = "fd00::7" },
		"https://[fd00::7]:9400/metrics": func(p *corev1.Pod, d *DiscoveryConfig) {
			p.Status.PodIP, p.Spec.Containers, d.Scheme = "fd00::7", nil, "https"
		},
	} {
		p, d := exporterPod("exporter", ownNode, "10.0.0.7"), newDefaultDiscoveryConfig()
		change(p, &d)
		u := d.urlOf(p.Status.PodIP, d.portOf(p))
		assert.Equal(t, want, u.String())
		_, err := parseEndpoint(u.String())
		require.NoError(t, err)
	}
}

func TestPodChangesAreAppliedWithoutARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n network
		n.listen(t, "10.0.0.7:9401", serve(goodBody))
		n.listen(t, "10.0.0.8:9401", serve(goodBody))
		client := kubetest.NewClient()
		pods := client.CoreV1().Pods("gpu-operator")
		f := discovering(t, client, nil)
		f.start(t, &n)
		assert.Equal(t, map[string]exporterState{"http://localhost:9400/metrics": {false, ownNode}}, lastUps(t, f, settle()))

		starting := exporterPod("first", ownNode, "")
		starting.Status.Phase = corev1.PodPending
		_, err := pods.Create(t.Context(), starting, metav1.CreateOptions{})
		require.NoError(t, err)
		assert.Equal(t, map[string]exporterState{"http://localhost:9400/metrics": {false, ownNode}}, lastUps(t, f, settle()))

		running := exporterPod("first", ownNode, "10.0.0.7")
		running.ResourceVersion = "2"
		_, err = pods.Update(t.Context(), running, metav1.UpdateOptions{})
		require.NoError(t, err)
		<-time.After(time.Second)
		assert.Equal(t, map[string]exporterState{"http://10.0.0.7:9401/metrics": {true, ownNode}}, lastUps(t, f, settle()))

		// Replace the exporter's pod with a pod that has a different address.
		_, err = pods.Create(t.Context(), exporterPod("second", ownNode, "10.0.0.8"), metav1.CreateOptions{})
		require.NoError(t, err)
		require.NoError(t, pods.Delete(t.Context(), "first", metav1.DeleteOptions{}))
		<-time.After(time.Second)
		assert.Equal(t, map[string]exporterState{"http://10.0.0.8:9401/metrics": {true, ownNode}}, lastUps(t, f, settle()))

		require.NoError(t, pods.Delete(t.Context(), "second", metav1.DeleteOptions{}))
		<-time.After(time.Second)
		assert.Equal(t, map[string]exporterState{"http://localhost:9400/metrics": {false, ownNode}}, lastUps(t, f, settle()))
		require.NoError(t, f.Shutdown(t.Context()))
		assert.Equal(t, []string{
			"info: No exporter found among the pods. Scraping the fallback.",
			"info: Exporters found among the pods",
			"info: Exporters found among the pods",
			"info: No exporter found among the pods. Scraping the fallback.",
		}, discoveryMessages(f))
		assert.Equal(t, []string{
			"http://localhost:9400/metrics", "http://10.0.0.7:9401/metrics", "http://10.0.0.8:9401/metrics",
		}, ends(t, f), "only the replaced exporter has an end, and shutdown adds none")
	})
}

func TestRemovedExporterNoLongerAffectsTheStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n network
		n.listen(t, "10.0.0.8:9401", serve(goodBody))
		client := kubetest.NewClient(exporterPod("first", ownNode, "10.0.0.7"))
		f := discovering(t, client, nil)
		f.start(t, &n)
		settle()
		assert.Equal(t, []componentstatus.Status{componentstatus.StatusRecoverableError}, f.host.Statuses())
		pods := client.CoreV1().Pods("gpu-operator")
		_, err := pods.Create(t.Context(), exporterPod("second", ownNode, "10.0.0.8"), metav1.CreateOptions{})
		require.NoError(t, err)
		require.NoError(t, pods.Delete(t.Context(), "first", metav1.DeleteOptions{}))
		settle()
		assert.Equal(t, []componentstatus.Status{componentstatus.StatusRecoverableError, componentstatus.StatusOK}, f.host.Statuses())
		require.NoError(t, f.Shutdown(t.Context()))
		assert.Len(t, f.host.Statuses(), 2, "shutdown is not a recovery")
	})
}

func TestLocalhostIsScrapedIfTheAPIServerDoesNotRespond(t *testing.T) {
	refused := func(err error) *fake.Clientset {
		client := kubetest.NewClient(exporterPod("exporter", ownNode, "10.0.0.7"))
		client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
		return client
	}
	for name, test := range map[string]struct {
		client *fake.Clientset
		change func(*DiscoveryConfig)
		after  time.Duration // the time of the first scrape
		node   string
		reason string
	}{
		"without an API server": {node: ownNode},
		"an API server that cannot be reached": {
			client: refused(errors.New("connection refused")), after: discoveryTimeout, node: ownNode, reason: "connection refused",
		},
		"it forbids": {
			client: refused(apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no RBAC policy matched"))),
			node:   ownNode, reason: "no RBAC policy matched",
		},
		"the agent's node is unknown": {
			client: kubetest.NewClient(), change: func(d *DiscoveryConfig) { d.NodeName = "" }, reason: errNoNodeName.Error(),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(componenthelper.NodeNameEnv, "")
			synctest.Test(t, func(t *testing.T) {
				var n network
				n.listen(t, "localhost:9400", serve(goodBody))
				f := discovering(t, test.client, test.change)
				start := time.Now()
				f.start(t, &n)
				states := lastUps(t, f, settle())
				require.NoError(t, f.Shutdown(t.Context()))
				assert.Equal(t, map[string]exporterState{"http://localhost:9400/metrics": {true, test.node}}, states)
				assert.WithinDuration(t, start.Add(test.after), timestamp(f.sink.AllMetrics()[0]), time.Second)
				lines := f.logs.FilterMessage("No exporter found among the pods. Scraping the fallback.").All()
				require.Len(t, lines, 1)
				assert.Equal(t, []any{"http://localhost:9400/metrics"}, lines[0].ContextMap()["fallback"])
				if test.reason == "" {
					assert.NotContains(t, lines[0].ContextMap(), "error")
				} else {
					assert.Contains(t, lines[0].ContextMap()["error"], test.reason)
				}
			})
		})
	}
}

func TestServiceIsScrapedIfLocalhostDoesNotRespond(t *testing.T) {
	const local, service = "http://localhost:9400/metrics", "http://exporter.gpu-operator:9400/metrics"
	synctest.Test(t, func(t *testing.T) {
		var localWorks, serviceWorks atomic.Bool
		behind := func(works *atomic.Bool) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				if !works.Load() {
					w.WriteHeader(http.StatusServiceUnavailable)
					return
				}
				serve(goodBody)(w, r)
			}
		}
		var n network
		n.listen(t, "localhost:9400", behind(&localWorks))
		n.listen(t, "exporter.gpu-operator:9400", behind(&serviceWorks))
		f := discovering(t, nil, func(d *DiscoveryConfig) { d.Fallback = "http://exporter.gpu-operator:9400" })
		f.start(t, &n)
		for _, step := range []struct {
			local, service bool
			want           map[string]exporterState
			status         componentstatus.Status
		}{
			{false, false, map[string]exporterState{service: {false, ""}}, componentstatus.StatusRecoverableError},
			{false, true, map[string]exporterState{service: {true, ""}}, componentstatus.StatusOK},
			{false, false, map[string]exporterState{service: {false, ""}}, componentstatus.StatusRecoverableError},
			{true, false, map[string]exporterState{local: {true, ownNode}}, componentstatus.StatusOK},
			{true, true, map[string]exporterState{local: {true, ownNode}}, componentstatus.StatusOK},
		} {
			localWorks.Store(step.local)
			serviceWorks.Store(step.service)
			<-time.After(time.Second)
			assert.Equal(t, step.want, lastUps(t, f, settle()))
			statuses := f.host.Statuses()
			assert.Equal(t, step.status, statuses[len(statuses)-1])
		}
		require.NoError(t, f.Shutdown(t.Context()))
		assert.Equal(t, []string{service}, ends(t, f))
	})
}

func TestPagesOfTheProgramAreReleasedAfterScrapes(t *testing.T) {
	for name, create := range map[string]func(t *testing.T) *fixture{
		"of a configured endpoint": func(t *testing.T) *fixture {
			t.Helper()
			return newFixture(t, []string{"http://10.0.0.9:9401"}, func(cfg *Config) { cfg.StartJitter = new(time.Duration) })
		},
		"of a discovered exporter": func(t *testing.T) *fixture {
			t.Helper()
			return discovering(t, kubetest.NewClient(exporterPod("dcgm-exporter-x", ownNode, "10.0.0.9")), nil)
		},
		"of an exporter that does not respond": func(t *testing.T) *fixture {
			t.Helper()
			return discovering(t, nil, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n network
				n.listen(t, "10.0.0.9:9401", serve(goodBody))
				f := create(t)
				var releases []time.Time
				f.releasePages = func(now time.Time) { releases = append(releases, now.UTC()) }
				f.start(t, &n)
				settle()
				require.NoError(t, f.Shutdown(t.Context()))
				var scrapes []time.Time
				for _, md := range f.sink.AllMetrics() {
					scrapes = append(scrapes, timestamp(md))
				}
				require.Len(t, scrapes, 2)
				assert.Equal(t, scrapes, releases)
			})
		})
	}
}

func TestCentralCollectorScrapesAllNodesAndSetsTheirNames(t *testing.T) {
	cluster := func(d *DiscoveryConfig) { d.Scope, d.NodeName = scopeCluster, "" }
	synctest.Test(t, func(t *testing.T) {
		var n network
		n.listen(t, "10.0.0.7:9401", serve(goodBody))
		n.listen(t, "[fd00::8]:9401", serve(goodBody))
		f := discovering(t, kubetest.NewClient(exporterPod("a", "node-7", "10.0.0.7"), exporterPod("b", "node-8", "fd00::8")), cluster)
		f.start(t, &n)
		states := lastUps(t, f, settle())
		require.NoError(t, f.Shutdown(t.Context()))
		assert.Equal(t, map[string]exporterState{
			"http://10.0.0.7:9401/metrics":  {true, "node-7"},
			"http://[fd00::8]:9401/metrics": {true, "node-8"},
		}, states)
	})
	t.Run("localhost is not scraped", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var n network
			n.listen(t, "localhost:9400", serve(goodBody))
			f := discovering(t, kubetest.NewClient(), cluster)
			f.start(t, &n)
			settle()
			require.NoError(t, f.Shutdown(t.Context()))
			assert.Empty(t, f.sink.AllMetrics())
			assert.Equal(t, []string{"info: No exporter found among the pods. Nothing is scraped."}, discoveryMessages(f))
			assert.Empty(t, f.host.Events(), "a cluster without exporters is not a problem")
		})
	})
	t.Run("a list of pods that cannot be read is reported while nothing is scraped", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var unavailable atomic.Bool
			unavailable.Store(true)
			client := kubetest.NewClient(exporterPod("a", "node-7", "10.0.0.7"))
			client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				return unavailable.Load(), nil, errors.New("connection refused")
			})
			var n network
			n.listen(t, "10.0.0.7:9401", serve(goodBody))
			f := discovering(t, client, cluster)
			f.start(t, &n)
			time.Sleep(discoveryTimeout + time.Minute) // in the synctest bubble
			synctest.Wait()
			assert.Regexp(t, "^discovery: pods: syncing: .*connection refused$", f.host.Last())
			unavailable.Store(false)
			time.Sleep(2 * time.Minute) // in the synctest bubble
			synctest.Wait()
			assert.Equal(t, "StatusOK", f.host.Last())
			require.NoError(t, f.Shutdown(t.Context()))
		})
	})
	t.Run("the fallback may be a service", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var n network
			n.listen(t, "exporter:9400", serve(goodBody))
			f := discovering(t, kubetest.NewClient(), func(d *DiscoveryConfig) { cluster(d); d.Fallback = "http://exporter:9400" })
			f.start(t, &n)
			states := lastUps(t, f, settle())
			require.NoError(t, f.Shutdown(t.Context()))
			assert.Equal(t, map[string]exporterState{"http://exporter:9400/metrics": {true, ""}}, states)
		})
	})
}

func TestSelfMetricsOfDiscovery(t *testing.T) {
	by := func(key, value string) attribute.Set { return attribute.NewSet(attribute.String(key, value)) }
	ignore := metricdatatest.IgnoreTimestamp()
	state := func(t *testing.T, f *fixture, phase kube.Phase) {
		t.Helper()
		var want []metricdata.DataPoint[int64]
		for p := kube.Off; p <= kube.Absent; p++ {
			point := metricdata.DataPoint[int64]{Attributes: by("state", p.String())}
			if p == phase {
				point.Value = 1
			}
			want = append(want, point)
		}
		metadatatest.AssertEqualReceiverDcgmDiscoveryState(t, f.telemetry, want, ignore)
	}
	endpoints := func(t *testing.T, f *fixture, want map[string]int64) {
		t.Helper()
		var points []metricdata.DataPoint[int64]
		for _, origin := range slices.Sorted(maps.Keys(want)) {
			points = append(points, metricdata.DataPoint[int64]{Attributes: by("origin", origin), Value: want[origin]})
		}
		metadatatest.AssertEqualReceiverDcgmEndpoints(t, f.telemetry, points, ignore)
	}
	synctest.Test(t, func(t *testing.T) {
		var n network
		n.listen(t, "10.0.0.7:9401", serve(goodBody))
		client := kubetest.NewClient(exporterPod("exporter", ownNode, "10.0.0.7"))
		f := discovering(t, client, nil)
		f.start(t, &n)
		settle()
		state(t, f, kube.Synced)
		endpoints(t, f, map[string]int64{"pod": 1, "fallback": 0})
		metadatatest.AssertEqualReceiverDcgmSeriesCacheSize(t, f.telemetry, []metricdata.DataPoint[int64]{{Value: 2}}, ignore)
		require.NoError(t, client.CoreV1().Pods("gpu-operator").Delete(t.Context(), "exporter", metav1.DeleteOptions{}))
		settle()
		endpoints(t, f, map[string]int64{"pod": 0, "fallback": 1})
		require.NoError(t, f.Shutdown(t.Context()))
	})
	t.Run("without an API server", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var n network
			f := discovering(t, nil, nil)
			f.start(t, &n)
			settle()
			state(t, f, kube.Off)
			require.NoError(t, f.Shutdown(t.Context()))
		})
	})
	t.Run("configured endpoints", func(t *testing.T) {
		server := httptest.NewServer(serve(goodBody))
		defer server.Close()
		f := opened(t, []string{server.URL}, nil)
		endpoints(t, f, map[string]int64{"configured": 1})
		_, err := f.telemetry.GetMetric("otelcol_receiver_dcgm_discovery_state")
		require.Error(t, err, "without discovery")
	})
}

func TestUnusableKubeconfigFailsTheStart(t *testing.T) {
	f := newFixture(t, nil, func(cfg *Config) {
		d := newDefaultDiscoveryConfig()
		d.NodeName = ownNode
		d.Kubernetes = kube.Config{AuthType: kube.AuthKubeConfig, KubeConfig: t.TempDir() + "/none"}
		cfg.Discovery = configoptional.Some(d)
	})
	require.ErrorContains(t, f.Start(t.Context(), f.host), "discovery::kubernetes: kubeconfig is ")
	require.NoError(t, f.Shutdown(t.Context()))
	require.NoError(t, f.Shutdown(t.Context()))
}
