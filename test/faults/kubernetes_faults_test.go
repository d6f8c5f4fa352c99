package faults

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/controlplane"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/kubelettest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/processtest"
)

// way is a proxy to an API server. If a fault is set, the fault responds instead of the API server.
type way struct {
	kubeConfig string
	server     *httptest.Server
	proxy      http.Handler // forwards requests to the API server
	fault      atomic.Pointer[http.Handler]
}

func wayTo(t *testing.T, kubeConfig string) *way {
	t.Helper()
	config, err := clientcmd.LoadFromFile(kubeConfig)
	require.NoError(t, err)
	cluster := config.Clusters[config.Contexts[config.CurrentContext].Cluster]
	target, err := url.Parse(cluster.Server)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(cluster.CertificateAuthorityData))
	certificate, err := tls.X509KeyPair(config.AuthInfos[config.Contexts[config.CurrentContext].AuthInfo].ClientCertificateData,
		config.AuthInfos[config.Contexts[config.CurrentContext].AuthInfo].ClientKeyData)
	require.NoError(t, err)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
	}
	w := &way{kubeConfig: filepath.Join(t.TempDir(), "kubeconfig"), proxy: proxy}
	w.server = httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if fault := w.fault.Load(); fault != nil {
			(*fault).ServeHTTP(rw, r)
			return
		}
		proxy.ServeHTTP(rw, r)
	}))
	w.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	w.server.StartTLS()
	t.Cleanup(func() {
		w.server.CloseClientConnections()
		w.server.Close()
		transport.CloseIdleConnections()
	})
	cluster.Server = w.server.URL
	cluster.CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.server.Certificate().Raw})
	require.NoError(t, clientcmd.WriteToFile(*config, w.kubeConfig))
	return w
}

// The breaks method closes all open connections and installs a fault that responds instead of the
// API server. If fault is nil, breaks only removes the current fault.
func (w *way) breaks(fault http.HandlerFunc) {
	if fault == nil {
		w.fault.Store(nil)
		return
	}
	handler := http.Handler(fault)
	w.fault.Store(&handler)
	w.server.CloseClientConnections()
}

var kubernetesFaults = []struct {
	fault, held string
	begin       func(t *testing.T, api *way, kubelet *kubelettest.Kubelet)
	end         func(t *testing.T, api *way, kubelet *kubelettest.Kubelet)
}{
	{
		"API server gone", "the known holders are still reported",
		func(_ *testing.T, api *way, _ *kubelettest.Kubelet) {
			api.breaks(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		},
		func(_ *testing.T, api *way, _ *kubelettest.Kubelet) { api.breaks(nil) },
	},
	{
		"API server accepts requests but does not respond", "the known holders are still reported",
		func(_ *testing.T, api *way, _ *kubelettest.Kubelet) {
			api.breaks(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		},
		func(_ *testing.T, api *way, _ *kubelettest.Kubelet) {
			api.breaks(nil)
			api.server.CloseClientConnections()
		},
	},
	{
		"API server returns 403", "the known holders are still reported",
		func(_ *testing.T, api *way, _ *kubelettest.Kubelet) {
			api.breaks(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "forbidden", http.StatusForbidden) })
		},
		func(_ *testing.T, api *way, _ *kubelettest.Kubelet) { api.breaks(nil) },
	},
	{
		"watches cut", "the known holders are still reported",
		func(_ *testing.T, api *way, _ *kubelettest.Kubelet) { api.server.CloseClientConnections() },
		func(_ *testing.T, api *way, _ *kubelettest.Kubelet) { api.server.CloseClientConnections() },
	},
	{
		"kubelet gone", "the holders that the kubelet last named are still reported",
		func(t *testing.T, _ *way, kubelet *kubelettest.Kubelet) { t.Helper(); kubelet.Stop(t) },
		func(t *testing.T, _ *way, kubelet *kubelettest.Kubelet) { t.Helper(); kubelet.Listen(t) },
	},
	{
		"kubelet does not respond", "the holders that the kubelet last named are still reported",
		func(_ *testing.T, _ *way, kubelet *kubelettest.Kubelet) { kubelet.Hold() },
		func(_ *testing.T, _ *way, kubelet *kubelettest.Kubelet) { kubelet.Release() },
	},
	{
		"kubelet refuses: PermissionDenied", "the holders that the kubelet last named are still reported",
		func(_ *testing.T, _ *way, kubelet *kubelettest.Kubelet) { kubelet.Fail(codes.PermissionDenied, "no") },
		func(*testing.T, *way, *kubelettest.Kubelet) {}, // the fault applies only to one request
	},
}

// If the kubelet or the API server fails, the windows of devices must not change. The windows of
// containers must keep the last known holders and must never name any other holders.
func TestHoldersStayWhileTheirSourcesFail(t *testing.T) {
	t.Parallel()
	processtest.Binary(t, "otelcol-gpu")
	plane := controlplane.Start(t)
	// Group the parallel subtests, so that all of them end before the cluster's objects are
	// removed.
	t.Run("faults", func(t *testing.T) {
		for _, f := range kubernetesFaults {
			t.Run(f.fault, func(t *testing.T) {
				t.Parallel()
				namespace := plane.Namespace(t)
				e := newExporter(t, namespace)
				plane.CreateNode(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: e.node}})
				kubelet := kubelettest.Start(t)
				api := wayTo(t, plane.KubeConfig(t))
				held := func(pods ...string) {
					var resources []kube.ContainerResources
					for gpu, pod := range pods {
						resources = append(resources, kube.ContainerResources{
							Namespace: namespace, Pod: pod, Container: "main",
							Devices: []kube.DeviceRef{{Resource: "nvidia.com/gpu", ID: e.device(gpu)}},
						})
					}
					kubelet.Set(resources...)
				}
				create := func(name string) {
					plane.Create(t, &corev1.Pod{
						ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
						Spec: corev1.PodSpec{
							NodeName: e.node, TerminationGracePeriodSeconds: new(int64),
							Containers: []corev1.Container{{Name: "main", Image: "none"}},
						},
					})
				}
				create("first")
				held("first")
				b := newBackend(t)
				tr := &trial{exporter: e, backend: b}
				tr.agent = startCollector(t, setting{file: "testdata/kubernetes.yaml", env: map[string]string{
					"DCGM_ENDPOINT": e.url(), "OTLP_ENDPOINT": b.url(), "NODE_NAME": e.node,
					"KUBELET_SOCKET": kubelet.Socket(), "KUBE_CONFIG": api.kubeConfig,
				}})
				tr.coveredWindow(t, time.Time{})

				f.begin(t, api, kubelet)
				broke := time.Now()
				pass(t, tr.agent, broke.Add(outage))
				create("second")
				mended := time.Now()
				f.end(t, api, kubelet)
				held("first", "second")
				processtest.Until(t, "the new holder with its UID", func() bool {
					for _, p := range b.all() {
						if p.metric == signal.GPUDeviceHolder.Name && p.pod == "second" && p.uid != "" {
							return true
						}
					}
					return false
				}, tr.agent.Process)
				took := time.Since(mended).Seconds()
				tr.coveredWindow(t, time.Now())
				checkHolders(t, tr, broke, mended)
				tr.finish(t, result{
					group: "Kubernetes", fault: f.fault, recovery: took,
					held: f.held,
				}, tolerance{})
			})
		}
	})
}

// checkHolders checks the windows of containers. The windows of each holder must contain the values
// of the holder's own device. During the fault, the pod "first" must have a window for every window
// of its device.
func checkHolders(t *testing.T, tr *trial, broke, mended time.Time) {
	t.Helper()
	device, holder := map[int64]bool{}, map[int64]bool{}
	for _, p := range tr.backend.all() {
		if p.metric != signal.MemoryUtilizationAvg.Name {
			continue
		}
		switch {
		case p.pod == "" && p.device == tr.exporter.device(0):
			device[p.end.UnixNano()] = true
		case p.pod == "first":
			assert.Equal(t, tr.exporter.device(0), p.device)
			assert.InDelta(t, occupancy(0), p.value, 1e-9)
			holder[p.end.UnixNano()] = true
		case p.pod == "second":
			assert.Equal(t, tr.exporter.device(1), p.device)
			assert.InDelta(t, occupancy(1), p.value, 1e-9)
		default:
			assert.Empty(t, p.pod, "an unknown holder")
		}
	}
	seen := 0
	for end := range device {
		if time.Unix(0, end).After(broke) && time.Unix(0, end).Before(mended) {
			assert.True(t, holder[end], "the holder has no window ending at %s", time.Unix(0, end))
			seen++
		}
	}
	assert.Positive(t, seen, "windows during the fault")
}
