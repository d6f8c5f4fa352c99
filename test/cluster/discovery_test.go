package cluster

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/collector/receiver/receivertest"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/dcgmreceiver"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/controlplane"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/notruntest"
)

// exporter serves the metrics of one GPU on a local address.
func exporter(t *testing.T, address, uuid string) *url.URL {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		notruntest.Skip(t, fmt.Sprintf("an exporter at %s: this host has no such address: %v", address, err))
	}
	body := fmt.Sprintf("DCGM_FI_DEV_POWER_USAGE{gpu=\"0\",UUID=%q,Hostname=\"a-pod-name\"} 100\n", uuid)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }))
	require.NoError(t, server.Listener.Close())
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	require.NoError(t, err)
	return u
}

// run creates an exporter pod and sets the pod's IP address, as the kubelet would.
func run(t *testing.T, plane *controlplane.Plane, namespace, name, node string, labels map[string]string, at *url.URL) {
	t.Helper()
	address := netip.MustParseAddrPort(at.Host)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{
			Name: "exporter", Image: "example.com/exporter:1",
			Ports: []corev1.ContainerPort{{Name: "metrics", ContainerPort: int32(address.Port())}},
		}}},
	}
	plane.Create(t, pod)
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: address.Addr().String(), PodIPs: []corev1.PodIP{{IP: address.Addr().String()}},
	}
	_, err := plane.Admin().CoreV1().Pods(namespace).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
	require.NoError(t, err)
}

// pipeline starts the dcgm receiver and gpu_synthesizer, and returns a channel that delivers every
// batch that gpu_synthesizer sends.
func pipeline(t *testing.T, discovery map[string]any) <-chan pmetric.Metrics {
	t.Helper()
	batches, stop := make(chan pmetric.Metrics), make(chan struct{})
	end, err := consumer.NewMetrics(func(_ context.Context, md pmetric.Metrics) error {
		select {
		case batches <- md:
		case <-stop:
		}
		return nil
	})
	require.NoError(t, err)
	synthesizers := gpusynthesizerprocessor.NewFactory()
	synthesizer, err := synthesizers.CreateMetrics(t.Context(), processortest.NewNopSettings(synthesizers.Type()), synthesizers.CreateDefaultConfig(), end)
	require.NoError(t, err)
	require.NoError(t, synthesizer.Start(t.Context(), componenttest.NewNopHost()))

	receivers := dcgmreceiver.NewFactory()
	cfg := receivers.CreateDefaultConfig()
	conf := confmap.NewFromStringMap(map[string]any{"collection_interval": "50ms", "start_jitter": "0s", "discovery": discovery})
	require.NoError(t, conf.Unmarshal(cfg))
	require.NoError(t, confmap.Validate(cfg))
	receiver, err := receivers.CreateMetrics(t.Context(), receivertest.NewNopSettings(receivers.Type()), cfg, synthesizer)
	require.NoError(t, err)
	require.NoError(t, receiver.Start(t.Context(), componenttest.NewNopHost()))
	t.Cleanup(func() {
		close(stop)
		require.NoError(t, receiver.Shutdown(context.Background()))
		require.NoError(t, synthesizer.Shutdown(context.Background()))
	})
	return batches
}

// devicesReach waits until each device in the want map has been received from the expected node.
// The test fails if one of these devices is received from another node. The test also fails if any
// device in the never parameter is received.
func devicesReach(t *testing.T, batches <-chan pmetric.Metrics, want map[string]string, never ...string) {
	t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	seen := map[string]bool{}
	for len(seen) < len(want) {
		select {
		case md := <-batches:
			for uuid, node := range devices(md) {
				require.NotContains(t, never, uuid)
				if place, wanted := want[uuid]; wanted {
					require.Equal(t, place, node, uuid)
					seen[uuid] = true
				}
			}
		case <-timeout.C:
			require.FailNow(t, "not all devices were received", "seen %v of %v", seen, want)
		}
	}
}

// The devices function maps each device in a batch to the device's node.
func devices(md pmetric.Metrics) map[string]string {
	found := map[string]string{}
	for _, rm := range md.ResourceMetrics().All() {
		node, _ := rm.Resource().Attributes().Get(signal.K8sNodeName)
		for _, sm := range rm.ScopeMetrics().All() {
			for _, m := range sm.Metrics().All() {
				if m.Name() == signal.HwPower.Name {
					id, _ := m.Gauge().DataPoints().At(0).Attributes().Get(signal.HardwareID)
					found[id.Str()] = node.Str()
				}
			}
		}
	}
	return found
}

// downAt waits until a scrape of the given URL fails.
func downAt(t *testing.T, batches <-chan pmetric.Metrics, text string) {
	t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		select {
		case md := <-batches:
			for _, rm := range md.ResourceMetrics().All() {
				for _, m := range rm.ScopeMetrics().At(0).Metrics().All() {
					if m.Name() != signal.GPUExporterUp.Name {
						continue
					}
					point := m.Gauge().DataPoints().At(0)
					if u, _ := point.Attributes().Get(signal.URLFull); u.Str() == text && point.IntValue() == 0 {
						return
					}
				}
			}
		case <-timeout.C:
			require.FailNow(t, "no failed scrape", text)
		}
	}
}

var (
	byOperator = map[string]string{"app": "nvidia-dcgm-exporter"}
	byChart    = map[string]string{"app.kubernetes.io/name": "dcgm-exporter"}
)

func TestAnAgentFollowsTheExporterOfItsNode(t *testing.T) {
	plane := controlplane.Start(t)
	namespace := plane.Namespace(t)
	local, next, other := exporter(t, "127.0.0.1", "GPU-local"), exporter(t, "127.0.0.1", "GPU-next"), exporter(t, "127.0.0.1", "GPU-other")
	run(t, plane, namespace, "a-workload", "node-1", map[string]string{"app": "train"}, other)
	run(t, plane, namespace, "on-another-node", "node-2", byOperator, other)

	// Grant the permissions that the README documents.
	plane.Create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "agent"}})
	plane.Create(t, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "discoverytest"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list", "watch"}}},
	})
	plane.Create(t, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "discoverytest"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "discoverytest"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "agent"}},
	})
	const nowhere = "http://localhost:1/metrics"
	batches := pipeline(t, map[string]any{
		"node_name": "node-1", "port": 1,
		"kubernetes": map[string]any{"auth_type": "kubeConfig", "kubeconfig": plane.ServiceAccountKubeConfig(t, namespace, "agent")},
	})
	downAt(t, batches, nowhere)

	run(t, plane, namespace, "exporter", "node-1", byOperator, local)
	devicesReach(t, batches, map[string]string{"GPU-local": "node-1"}, "GPU-other")

	remove(t, plane, namespace, "exporter")
	downAt(t, batches, nowhere)

	run(t, plane, namespace, "exporter", "node-1", byChart, next)
	devicesReach(t, batches, map[string]string{"GPU-next": "node-1"}, "GPU-other")
}

func TestAnExporterMayHaveAnIPv6Address(t *testing.T) {
	plane := controlplane.Start(t)
	namespace := plane.Namespace(t)
	run(t, plane, namespace, "exporter", "node-1", byOperator, exporter(t, "::1", "GPU-v6"))
	batches := pipeline(t, map[string]any{
		"node_name": "node-1", "kubernetes": map[string]any{"auth_type": "kubeConfig", "kubeconfig": plane.KubeConfig(t)},
	})
	devicesReach(t, batches, map[string]string{"GPU-v6": "node-1"})
}

func TestACentralCollectorFollowsTheExportersOfANamespace(t *testing.T) {
	plane := controlplane.Start(t)
	namespace, elsewhere := plane.Namespace(t), plane.Namespace(t)
	first, second, third := exporter(t, "127.0.0.1", "GPU-1"), exporter(t, "127.0.0.1", "GPU-2"), exporter(t, "127.0.0.1", "GPU-3")
	run(t, plane, namespace, "exporter-1", "node-1", byOperator, first)
	run(t, plane, namespace, "exporter-2", "node-2", byChart, second)
	run(t, plane, elsewhere, "exporter-3", "node-3", byOperator, third)
	batches := pipeline(t, map[string]any{
		"scope": "cluster", "namespace": namespace,
		"kubernetes": map[string]any{"auth_type": "kubeConfig", "kubeconfig": plane.KubeConfig(t)},
	})
	devicesReach(t, batches, map[string]string{"GPU-1": "node-1", "GPU-2": "node-2"}, "GPU-3")
	run(t, plane, namespace, "exporter-4", "node-4", byOperator, third)
	devicesReach(t, batches, map[string]string{"GPU-1": "node-1", "GPU-2": "node-2", "GPU-3": "node-4"})
}

func remove(t *testing.T, plane *controlplane.Plane, namespace, name string) {
	t.Helper()
	require.NoError(t, plane.Admin().CoreV1().Pods(namespace).Delete(t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
}
