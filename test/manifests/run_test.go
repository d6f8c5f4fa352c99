package manifests

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/controlplane"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/kubelettest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/processtest"
)

const gpu = "GPU-11111111-2222-3333-4444-555555555555"

// exposition is an exporter's response for a GPU without a known holder.
const exposition = `# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="` + gpu + `",device="nvidia0",modelName="NVIDIA H100 80GB HBM3",Hostname="exporter"} 50
# TYPE DCGM_FI_DEV_FB_USED gauge
DCGM_FI_DEV_FB_USED{gpu="0",UUID="` + gpu + `",device="nvidia0",modelName="NVIDIA H100 80GB HBM3",Hostname="exporter"} 20480
# TYPE DCGM_FI_DEV_FB_FREE gauge
DCGM_FI_DEV_FB_FREE{gpu="0",UUID="` + gpu + `",device="nvidia0",modelName="NVIDIA H100 80GB HBM3",Hostname="exporter"} 61440
`

// With each configuration and only the permissions of its service account, the agent must find the
// exporter's pod and the pod that holds the GPU. The API server must not reject any of the agent's
// requests as forbidden.
func TestTheAgentWorksWithItsPermissions(t *testing.T) {
	collector := processtest.Binary(t, "otelcol-gpu")
	const discovered = "receivers.dcgm.discovery.kubernetes.auth_type=kubeConfig"
	for name, tc := range map[string]struct {
		file, option string // option is an additional manifest to apply
		set          []string
		processors   string // configuration key of the processors; empty if they are stages of the receiver
	}{
		"as installed":        {file: "11-agent-config.yaml", set: []string{discovered}},
		"with claims":         {file: "11-agent-config.yaml", option: "claims-rbac.yaml", set: []string{discovered, "receivers.dcgm.stages.gpu_k8s.claims=true"}},
		"by receiver_creator": {file: "receiver-creator.yaml", set: []string{"extensions.k8s_observer.auth_type=kubeConfig"}, processors: "processors.gpu_synthesizer.stages"},
		"with k8s_attributes": {file: "k8s-attributes.yaml", set: []string{discovered, "processors.k8s_attributes.auth_type=kubeConfig"}},
	} {
		t.Run(name, func(t *testing.T) {
			plane := installed(t)
			needed := authorizationv1.ResourceAttributes{Verb: "watch", Group: "resource.k8s.io", Resource: "resourceslices"}
			if tc.option != "" {
				plane.Apply(t, text(t, filepath.Join(manifestsDir, "options", tc.option)))
				needed.Resource = "resourceclaims"
			}
			waitForGrant(t, plane, agent, needed)
			plane.CreateNode(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})
			workloads := plane.Namespace(t)
			createExporter(t, plane, workloads)
			trainer := createTrainer(t, plane, workloads)
			kubelet := kubelettest.Start(t)
			kubelet.Set(kube.ContainerResources{
				Namespace: workloads, Pod: trainer.Name, Container: "main",
				Devices: []kube.DeviceRef{{Resource: "nvidia.com/gpu", ID: gpu}},
			})

			processors := cmp.Or(tc.processors, "receivers.dcgm.stages")
			backend, refused := processtest.StartBackend(t, nil), forbidden(t, plane)
			running := startCollector(t, collector, plane, agent, tc.file, backend, append(tc.set,
				processors+".gpu_k8s.kubernetes.auth_type=kubeConfig", processors+".gpu_k8s.sources.pod_resources.socket="+kubelet.Socket(),
				processors+".gpu_window.window=2s", processors+".gpu_window.grace=1s"))
			holder := func(resource pcommon.Resource, metric string) bool {
				uid, ok := resource.Attributes().Get(signal.K8sPodUID)
				return ok && uid.Str() == string(trainer.UID) && metric == signal.MemoryUtilizationAvg.Name
			}
			got := waitFor(t, backend, running, "a window of the pod that holds the GPU", holder).Attributes().AsRaw()
			want := map[string]any{
				"host.name": "exporter", "k8s.node.name": node, "k8s.namespace.name": workloads,
				"k8s.pod.name": trainer.Name, "k8s.pod.uid": string(trainer.UID), "k8s.container.name": "main",
				"k8s.deployment.name": "trainer", "k8s.workload.kind": "Deployment", "k8s.workload.name": "trainer",
			}
			assert.Equal(t, want, got)
			stop(t, running)
			assert.Equal(t, refused, forbidden(t, plane), "requests that the API server rejected")
		})
	}
}

func TestTheClusterCollectorWorksWithItsPermissions(t *testing.T) {
	collector := processtest.Binary(t, "otelcol-gpu")
	plane := installed(t)
	limits := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("2")}
	plane.CreateNode(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}, Status: corev1.NodeStatus{Capacity: limits}})
	waiting := pod(plane.Namespace(t), "waiting")
	waiting.Spec.Containers[0].Resources.Limits = limits
	plane.Create(t, waiting)
	plane.Create(t, controlplane.NVIDIAClass())
	plane.Create(t, controlplane.NVIDIASlice(node, gpu))
	for _, needed := range []authorizationv1.ResourceAttributes{
		{Verb: "watch", Group: "resource.k8s.io", Resource: "resourceclaims"},
		{Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Namespace: namespace, Name: cluster},
	} {
		waitForGrant(t, plane, cluster, needed)
	}

	backend, refused := processtest.StartBackend(t, nil), forbidden(t, plane)
	running := startCollector(t, collector, plane, cluster, "21-cluster-config.yaml", backend, []string{
		"receivers.gpu_cluster.kubernetes.auth_type=kubeConfig", "receivers.gpu_cluster.collection_interval=1s",
	})
	for _, wanted := range []*signal.Metric{signal.K8sGPURequested, signal.K8sGPUAllocatable, signal.K8sResourceSliceDevices} {
		waitFor(t, backend, running, wanted.Name, func(_ pcommon.Resource, metric string) bool { return metric == wanted.Name })
	}
	lease, err := plane.Admin().CoordinationV1().Leases(namespace).Get(t.Context(), cluster, metav1.GetOptions{})
	require.NoError(t, err)
	assert.NotEmpty(t, *lease.Spec.HolderIdentity)
	stop(t, running)
	assert.Equal(t, refused, forbidden(t, plane), "requests that the API server rejected")
}

func TestForbiddenCallsAreCounted(t *testing.T) {
	plane := installed(t)
	before := forbidden(t, plane)
	_, err := clientFor(t, plane.ServiceAccountKubeConfig(t, namespace, agent)).CoreV1().Secrets(namespace).List(t.Context(), metav1.ListOptions{})
	require.Error(t, err)
	assert.Greater(t, forbidden(t, plane), before)
}

func pod(in, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/workload"}}},
	}
}

// run creates a pod and sets the status that the pod would have after the kubelet has started it.
func run(t *testing.T, plane *controlplane.Plane, p *corev1.Pod, ip string) {
	t.Helper()
	p.Spec.NodeName = node
	plane.Create(t, p)
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}}
	for _, container := range p.Spec.Containers {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: container.Name, Image: container.Image, Ready: true, ContainerID: "containerd://" + p.Name,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
		})
	}
	_, err := plane.Admin().CoreV1().Pods(p.Namespace).UpdateStatus(t.Context(), p, metav1.UpdateOptions{})
	require.NoError(t, err)
}

// createExporter serves the metrics of a GPU and creates an exporter pod with the server's address.
func createExporter(t *testing.T, plane *controlplane.Plane, in string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, exposition) }))
	t.Cleanup(server.Close)
	at, err := url.Parse(server.URL)
	require.NoError(t, err)
	address, err := netip.ParseAddrPort(at.Host)
	require.NoError(t, err)
	exporter := pod(in, "nvidia-dcgm-exporter-x")
	exporter.Labels = map[string]string{"app": "nvidia-dcgm-exporter"}
	exporter.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "metrics", ContainerPort: int32(address.Port())}}
	run(t, plane, exporter, address.Addr().String())
}

// createTrainer creates a pod that belongs to a Deployment.
func createTrainer(t *testing.T, plane *controlplane.Plane, in string) *corev1.Pod {
	t.Helper()
	labels := map[string]string{"pod-template-hash": "5d4f8c9b7"}
	owner := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: "trainer-5d4f8c9b7", Labels: labels},
		Spec: appsv1.ReplicaSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod(in, "").Spec},
		},
	}
	plane.Create(t, owner)
	trainer := pod(in, owner.Name+"-abcde")
	trainer.Labels = labels
	trainer.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
	run(t, plane, trainer, "10.1.2.3")
	return trainer
}

// waitForGrant waits until the API server grants the needed permission, because a new binding takes
// effect after a short delay.
func waitForGrant(t *testing.T, plane *controlplane.Plane, account string, needed authorizationv1.ResourceAttributes) {
	t.Helper()
	client := clientFor(t, plane.ServiceAccountKubeConfig(t, namespace, account))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(context.WithoutCancel(t.Context()),
			&authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &needed}}, metav1.CreateOptions{})
		if assert.NoError(c, err) {
			assert.True(c, review.Status.Allowed)
		}
	}, processtest.Patience, 50*time.Millisecond)
}

// forbidden returns the number of requests that the API server has rejected because of missing
// permissions.
func forbidden(t *testing.T, plane *controlplane.Plane) float64 {
	t.Helper()
	content, err := plane.Admin().Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	require.NoError(t, err)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(content))
	require.NoError(t, err)
	require.Contains(t, families, "authorization_attempts_total")
	total := 0.0
	for _, series := range families["authorization_attempts_total"].GetMetric() {
		for _, label := range series.GetLabel() {
			// If RBAC does not allow a request, the value of the result label is "no-opinion"
			// instead of "denied".
			if label.GetName() == "result" && label.GetValue() != "allowed" {
				total += series.GetCounter().GetValue()
			}
		}
	}
	return total
}

// startCollector starts the collector with a configuration from the manifests and the credentials
// of the given service account.
func startCollector(t *testing.T, binary string, plane *controlplane.Plane, account, file string, backend *processtest.Backend, set []string) *processtest.Process {
	t.Helper()
	var text string
	for _, config := range configs(t) {
		if config.file == file {
			text = strings.ReplaceAll(config.text, "/var/lib/otelcol-gpu", t.TempDir())
		}
	}
	// Replace text, because --set can change neither lists nor receiver_creator's templates. Use
	// arbitrary ports, so that this test can run more than once at the same time on one machine.
	text = strings.NewReplacer("collection_interval: 15s", "collection_interval: 1s", "timeout: 10s", "timeout: 1s",
		":13133", ":0", "port: 8888", "port: 0").Replace(text)
	path := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))

	args := []string{"--config", path}
	for _, s := range set {
		args = append(args, "--set", s)
	}
	cmd := exec.Command(binary, args...)
	cmd.Env = environment(backend.Listener.Addr().String(), map[string]string{
		clientcmd.RecommendedConfigPathEnvVar: plane.ServiceAccountKubeConfig(t, namespace, account),
	})
	return processtest.Start(t, cmd)
}

// stop stops the collector the way the kubelet does. The collector must exit cleanly and must not
// log any problems.
func stop(t *testing.T, c *processtest.Process) {
	t.Helper()
	c.Stop(t)
	for line := range strings.Lines(c.Output.String()) {
		assert.NotRegexp(t, `"level":"(warn|error)"`, line)
	}
}

// waitFor waits for a point for which the wanted function returns true, and returns the point's
// Resource.
func waitFor(t *testing.T, backend *processtest.Backend, c *processtest.Process, what string, wanted func(pcommon.Resource, string) bool) pcommon.Resource {
	t.Helper()
	found := pcommon.NewResource()
	backend.Until(t, c, what, func(md pmetric.Metrics) bool {
		for p := range points.All(md) {
			if wanted(p.Resource, p.Metric.Name()) {
				found = p.Resource
				return true
			}
		}
		return false
	})
	return found
}
