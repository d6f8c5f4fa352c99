package cluster

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/config/configtls"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/extension/extensiontest"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	admission "github.com/otelcol-gpu/otelcol-gpu/extension/gpushareadmissionextension"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/certtest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/controlplane"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/processtest"
)

// chartManifests is the path of rendered chart manifests, which contain the webhook configurations.
const chartManifests = "../charts/testdata/webhooks_complete_and_validate_pods_that_share_gpus/manifests.yaml"

// webhooks consists of a running admission extension and the API server that calls the extension.
type webhooks struct {
	t         *testing.T
	plane     *controlplane.Plane
	namespace string
	endpoint  string
	ca        *certtest.Authority
	dir       string // directory of the certificate
	telemetry *componenttest.Telemetry
	stop      func()
}

// startWebhooks starts an API server and the admission extension without registering the
// extension's webhooks.
func startWebhooks(t *testing.T, change ...func(*admission.Config)) *webhooks {
	t.Helper()
	plane := controlplane.Start(t)
	w := &webhooks{
		t: t, plane: plane, namespace: plane.Namespace(t), endpoint: processtest.FreeAddress(t),
		ca: certtest.NewAuthority(t), dir: t.TempDir(), telemetry: componenttest.NewTelemetry(),
	}
	cert, key := w.ca.Write(t, w.dir)
	factory := admission.NewFactory()
	cfg := factory.CreateDefaultConfig().(*admission.Config)
	cfg.HTTP.NetAddr.Endpoint = w.endpoint
	cfg.HTTP.TLS = configoptional.Some(configtls.ServerConfig{Config: configtls.Config{
		CertFile: cert, KeyFile: key, ReloadInterval: time.Nanosecond,
	}})
	for _, c := range change {
		c(cfg)
	}
	require.NoError(t, confmap.Validate(cfg))
	settings := extensiontest.NewNopSettings(factory.Type())
	settings.TelemetrySettings = w.telemetry.NewTelemetrySettings()
	extension, err := factory.Create(t.Context(), settings, cfg)
	require.NoError(t, err)
	require.NoError(t, extension.Start(t.Context(), componenttest.NewNopHost()))
	ended := false
	w.stop = func() {
		if ended {
			return
		}
		ended = true
		// The API server keeps its connections open, so limit how long the shutdown waits for them.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Second)
		defer cancel()
		_ = extension.Shutdown(ctx)
		require.NoError(t, w.telemetry.Shutdown(context.WithoutCancel(t.Context())))
	}
	t.Cleanup(w.stop)
	return w
}

// configurations returns the chart's two webhook configurations, modified to call the extension.
func (w *webhooks) configurations(policy string) []*unstructured.Unstructured {
	w.t.Helper()
	content, err := os.ReadFile(chartManifests)
	require.NoError(w.t, err)
	objects, err := controlplane.Decode(string(content))
	require.NoError(w.t, err)
	var found []*unstructured.Unstructured
	for _, obj := range objects {
		if !strings.HasSuffix(obj.GetKind(), "WebhookConfiguration") {
			continue
		}
		webhook := obj.Object["webhooks"].([]any)[0].(map[string]any)
		path := webhook["clientConfig"].(map[string]any)["service"].(map[string]any)["path"].(string)
		webhook["clientConfig"] = map[string]any{
			"url": "https://" + w.endpoint + path, "caBundle": base64.StdEncoding.EncodeToString(w.ca.PEM),
		}
		webhook["failurePolicy"] = policy
		found = append(found, obj)
	}
	require.Len(w.t, found, 2)
	return found
}

// register makes the API server call the webhooks until the test ends. register returns after the
// webhooks have been called for the first time.
func (w *webhooks) register(policy string) {
	w.t.Helper()
	w.t.Cleanup(func() {
		w.eventually("still calls the removed webhooks", func() bool {
			pod, err := w.try(sharePod("probe", "gpu=50"))
			return err == nil && requested(pod) == "gpu=50"
		})
	})
	w.apply(policy)
	w.eventually("does not call the mutating webhook", func() bool {
		pod, err := w.try(sharePod("probe", "gpu=50"))
		return err == nil && requested(pod) == "gpu-core=50 gpu-memory-ratio=50 gpu.shared=1"
	})
	w.eventually("does not call the validating webhook", func() bool {
		answered := w.answered()
		_, err := w.try(sharePod("probe", "gpu-core=50"))
		return w.answered() >= answered+2 && (err == nil || strings.Contains(err.Error(), "GPU share rules: "))
	})
}

// apply creates or updates the two webhook configurations in the API server.
func (w *webhooks) apply(policy string) {
	w.t.Helper()
	for _, obj := range w.configurations(policy) {
		text, err := obj.MarshalJSON() // JSON is valid YAML
		require.NoError(w.t, err)
		w.plane.Apply(w.t, string(text))
	}
}

// eventually waits until the done function returns true. Webhook configurations take effect after a
// delay, because the API server receives them through a watch.
func (w *webhooks) eventually(otherwise string, done func() bool) {
	w.t.Helper()
	require.Eventually(w.t, done, patience, poll, "the API server %s", otherwise)
}

// answered returns the number of requests that the webhooks have responded to.
func (w *webhooks) answered() int64 {
	w.t.Helper()
	m, err := w.telemetry.GetMetric("otelcol_extension_gpu_share_admission_requests")
	if err != nil {
		return 0 // no requests so far
	}
	var n int64
	for _, point := range m.Data.(metricdata.Sum[int64]).DataPoints {
		n += point.Value
	}
	return n
}

// try creates a pod in a dry run, so the pod is not stored.
func (w *webhooks) try(pod *corev1.Pod) (*corev1.Pod, error) {
	return w.plane.Admin().CoreV1().Pods(w.namespace).Create(context.WithoutCancel(w.t.Context()), pod,
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

// create creates a pod in the test's namespace.
func (w *webhooks) create(pod *corev1.Pod) (*corev1.Pod, error) {
	return w.plane.Admin().CoreV1().Pods(w.namespace).Create(w.t.Context(), pod, metav1.CreateOptions{})
}

// shareContainer returns a container with the given limits, such as "gpu-memory=4Gi gpu.shared=1
// nvidia.com/gpu=1". Resource names without a domain are in the domain koordinator.sh.
func shareContainer(name, limits string) corev1.Container {
	c := corev1.Container{Name: name, Image: "example.com/trainer:1"}
	for limit := range strings.FieldsSeq(limits) {
		if c.Resources.Limits == nil {
			c.Resources.Limits = corev1.ResourceList{}
		}
		resourceName, quantity, _ := strings.Cut(limit, "=")
		if !strings.Contains(resourceName, "/") {
			resourceName = "koordinator.sh/" + resourceName
		}
		c.Resources.Limits[corev1.ResourceName(resourceName)] = resource.MustParse(quantity)
	}
	return c
}

// sharePod returns a pod with one container that has the given limits.
func sharePod(name, limits string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: name + "-"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{shareContainer("main", limits)}},
	}
}

// requested returns the requests of a pod's first container, sorted by name, in the format that
// shareContainer accepts. If the container's limits differ from its requests, requested returns
// both.
func requested(pod *corev1.Pod) string { return containerRequests(&pod.Spec.Containers[0]) }

func containerRequests(c *corev1.Container) string {
	list := func(resources corev1.ResourceList) string {
		var texts []string
		for _, name := range []corev1.ResourceName{
			"koordinator.sh/gpu", "koordinator.sh/gpu-core", "koordinator.sh/gpu-memory", "koordinator.sh/gpu-memory-ratio",
			"koordinator.sh/gpu.shared", "dcu.com/gpu", "nvidia.com/gpu", "nvidia.com/mig-1g.10gb",
		} {
			if q, ok := resources[name]; ok {
				texts = append(texts, strings.TrimPrefix(string(name), "koordinator.sh/")+"="+q.String())
			}
		}
		return strings.Join(texts, " ")
	}
	requests, limits := list(c.Resources.Requests), list(c.Resources.Limits)
	if requests != limits {
		return fmt.Sprintf("requests %s, limits %s", requests, limits)
	}
	return requests
}

// denied asserts that the validating webhook rejected a pod because of the given rule.
func denied(t assert.TestingT, err error, rule string) {
	if assert.Error(t, err) {
		assert.True(t, apierrors.IsForbidden(err), "%v", err)
		assert.Contains(t, err.Error(), `admission webhook "validate.gpu-share-admission.otelcol-gpu" denied the request: GPU share rules: `)
		assert.Contains(t, err.Error(), rule+": ")
	}
}

// The test cases are from the tables, principles, webhook rules, stories, and examples of the
// proposal.
func TestStoredPodsFollowTheProposal(t *testing.T) {
	w := startWebhooks(t)
	w.register("Fail")
	for name, c := range map[string]struct{ limits, stored, rule string }{
		"vendor API: nvidia.com/gpu":                              {"nvidia.com/gpu=2", "nvidia.com/gpu=2", ""},
		"vendor API: dcu.com/gpu":                                 {"dcu.com/gpu=1", "dcu.com/gpu=1", ""},
		"share API: memory":                                       {"gpu-memory=4Gi gpu.shared=1", "gpu-memory=4Gi gpu.shared=1", ""},
		"share API: ratio":                                        {"gpu-memory-ratio=50 gpu.shared=1", "gpu-memory-ratio=50 gpu.shared=1", ""},
		"share API: core is not required":                         {"gpu-core=50 gpu-memory=4Gi gpu.shared=1", "gpu-core=50 gpu-memory=4Gi gpu.shared=1", ""},
		"share API: at least 1 gpu.shared":                        {"gpu-memory=4Gi gpu.shared=0", "", "shared_zero"},
		"principle: memory must be declared":                      {"gpu.shared=1", "", "shared_without_memory"},
		"principle: not both memory resources":                    {"gpu-memory=4Gi gpu-memory-ratio=50 gpu.shared=1", "", "memory_with_ratio"},
		"principle: not core alone":                               {"gpu-core=50", "", "core_without_memory"},
		"principle: not core alone with gpu.shared":               {"gpu-core=50 gpu.shared=1", "", "core_without_memory"},
		"koordinator.sh/gpu: half of a device":                    {"gpu=50", "gpu-core=50 gpu-memory-ratio=50 gpu.shared=1", ""},
		"koordinator.sh/gpu: a device":                            {"gpu=100", "gpu-core=100 gpu-memory-ratio=100 gpu.shared=1", ""},
		"koordinator.sh/gpu: two devices":                         {"gpu=200", "gpu-core=200 gpu-memory-ratio=200 gpu.shared=2", ""},
		"koordinator.sh/gpu: one and a half":                      {"gpu=150", "", "gpu_not_multiple_of_100"},
		"mutating rule 1: ratio 100":                              {"gpu-memory-ratio=100", "gpu-memory-ratio=100 gpu.shared=1", ""},
		"mutating rule 1: ratio 300":                              {"gpu-memory-ratio=300", "gpu-memory-ratio=300 gpu.shared=3", ""},
		"mutating rule 2: ratio 50":                               {"gpu-memory-ratio=50", "gpu-memory-ratio=50 gpu.shared=1", ""},
		"mutating rule 2: ratio 150 of one device":                {"gpu-memory-ratio=150", "", "ratio_over_device"},
		"mutating: memory in bytes":                               {"gpu-memory=4Gi", "gpu-memory=4Gi gpu.shared=1", ""},
		"mutating: a declared gpu.shared":                         {"gpu-memory-ratio=100 gpu.shared=2", "gpu-memory-ratio=100 gpu.shared=2", ""},
		"validating rule 1: vendor and share":                     {"nvidia.com/gpu=1 gpu-memory=4Gi gpu.shared=1", "", "vendor_with_share"},
		"validating rule 1: MIG and share":                        {"nvidia.com/mig-1g.10gb=1 gpu-memory-ratio=50", "", "vendor_with_share"},
		"validating rule 2: memory and ratio":                     {"gpu-memory=4Gi gpu-memory-ratio=50", "", "memory_with_ratio"},
		"validating rule 3: core without memory":                  {"gpu-core=100", "", "core_without_memory"},
		"story 1: a vendor's device":                              {"nvidia.com/gpu=1", "nvidia.com/gpu=1", ""},
		"story 2: a part of memory, core shared":                  {"gpu-memory=4Gi", "gpu-memory=4Gi gpu.shared=1", ""},
		"story 2: a part of core, all of the memory":              {"gpu-core=50 gpu-memory-ratio=100", "gpu-core=50 gpu-memory-ratio=100 gpu.shared=1", ""},
		"story 2: a part of memory and core":                      {"gpu-core=50 gpu-memory=4Gi", "gpu-core=50 gpu-memory=4Gi gpu.shared=1", ""},
		"story 2: all of eight devices, shared":                   {"gpu-memory-ratio=800", "gpu-memory-ratio=800 gpu.shared=8", ""},
		"example: halves of two devices":                          {"gpu-memory=4Gi gpu-core=100 gpu.shared=2", "gpu-core=100 gpu-memory=4Gi gpu.shared=2", ""},
		"Koordinator: core without a ratio decides":               {"gpu-memory=64Gi gpu-core=200", "gpu-core=200 gpu-memory=64Gi gpu.shared=2", ""},
		"Koordinator: gpu and gpu.shared":                         {"gpu=100 gpu.shared=1", "", "gpu_with_shared"},
		"Koordinator: core that is not a multiple of gpu.shared":  {"gpu-core=101 gpu-memory-ratio=100 gpu.shared=2", "", "core_not_multiple_of_shared"},
		"Koordinator: ratio that is not a multiple of gpu.shared": {"gpu-memory-ratio=101 gpu.shared=2", "", "ratio_not_multiple_of_shared"},
		"Koordinator: gpu zero":                                   {"gpu=0", "", "gpu_zero"},
		"scheduler: more core than a device has":                  {"gpu-core=101 gpu-memory=64Gi gpu.shared=1", "", "core_over_device"},
	} {
		t.Run(name, func(t *testing.T) {
			pod, err := w.create(sharePod("pod", c.limits))
			if c.rule != "" {
				denied(t, err, c.rule)
				assert.Contains(t, err.Error(), `container "main": spec.containers[0].resources.requests[`)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.stored, requested(pod))
		})
	}
}

// Rule 4 of the proposal requires gpu.shared. A pod can break rule 4 only if no webhook mutates the
// pod.
func TestWithoutTheMutatingWebhookGPUSharedMustBeDeclared(t *testing.T) {
	w := startWebhooks(t)
	w.register("Fail")
	name := w.configurations("Fail")[0].GetName()
	require.NoError(t, w.plane.Admin().AdmissionregistrationV1().MutatingWebhookConfigurations().Delete(t.Context(), name, metav1.DeleteOptions{}))
	w.eventually("still calls the mutating webhook", func() bool {
		_, err := w.try(sharePod("pod", "gpu-memory=4Gi"))
		return err != nil
	})
	for _, limits := range []string{"gpu-memory=4Gi", "gpu-memory-ratio=50"} {
		_, err := w.try(sharePod("pod", limits))
		denied(t, err, "memory_without_shared")
		assert.Contains(t, err.Error(), "[koordinator.sh/gpu.shared] is missing: must be at least 1")
	}
}

func TestInitContainersAndSidecarsAreCompletedAndChecked(t *testing.T) {
	w := startWebhooks(t)
	w.register("Fail")
	always := corev1.ContainerRestartPolicyAlways
	pod := sharePod("pod", "gpu-memory=4Gi")
	pod.Spec.InitContainers = []corev1.Container{shareContainer("init", "gpu-memory=8Gi"), shareContainer("sidecar", "gpu-memory=1Gi")}
	pod.Spec.InitContainers[1].RestartPolicy = &always
	stored, err := w.create(pod)
	require.NoError(t, err)
	assert.Equal(t, "gpu-memory=4Gi gpu.shared=1", requested(stored))
	assert.Equal(t, "gpu-memory=8Gi gpu.shared=1", containerRequests(&stored.Spec.InitContainers[0]))
	assert.Equal(t, "gpu-memory=1Gi gpu.shared=1", containerRequests(&stored.Spec.InitContainers[1]))

	pod.Spec.InitContainers[1] = shareContainer("sidecar", "gpu-core=50")
	_, err = w.create(pod)
	denied(t, err, "core_without_memory")
	assert.Contains(t, err.Error(), `container "sidecar": spec.initContainers[1].resources.requests[koordinator.sh/gpu-core] is 50: `)
}

// A pod's labels can be updated even if the stored pod already breaks a rule. The webhooks reject
// an update only if the update adds a violation.
func TestARunningPodFromBeforeTheWebhooksCanBeUpdated(t *testing.T) {
	w := startWebhooks(t)
	pod := sharePod("old", "gpu-core=50")
	pod.Finalizers = []string{"example.com/tracking"}
	pod.Spec.NodeName = node
	pod, err := w.create(pod)
	require.NoError(t, err)
	pods := w.plane.Admin().CoreV1().Pods(w.namespace)
	pod.Status.Phase = corev1.PodRunning
	_, err = pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
	require.NoError(t, err)

	w.register("Fail")
	patch := func(text string) (*corev1.Pod, error) {
		return pods.Patch(t.Context(), pod.Name, types.MergePatchType, []byte(text), metav1.PatchOptions{})
	}
	before := w.answered()
	_, err = patch(`{"metadata":{"labels":{"team":"a"},"finalizers":null}}`)
	require.NoError(t, err)
	assert.Equal(t, before, w.answered(), "the API server does not send updates of labels")

	updated, err := patch(`{"spec":{"containers":[{"name":"main","image":"example.com/trainer:2","resources":{"limits":{"koordinator.sh/gpu-core":"50"},"requests":{"koordinator.sh/gpu-core":"50"}}}]}}`)
	require.NoError(t, err)
	assert.Equal(t, "example.com/trainer:2", updated.Spec.Containers[0].Image)
	assert.Equal(t, before+1, w.answered(), "the validating webhook judges an update of the spec")
	assert.Equal(t, "gpu-core=50", requested(updated), "a stored pod is not mutated")

	_, err = w.create(sharePod("new", "gpu-core=50"))
	denied(t, err, "core_without_memory")
}

func TestADryRunIsAnsweredAndStoresNothing(t *testing.T) {
	w := startWebhooks(t)
	w.register("Fail")
	pod, err := w.try(sharePod("dry", "gpu=200"))
	require.NoError(t, err)
	assert.Equal(t, "gpu-core=200 gpu-memory-ratio=200 gpu.shared=2", requested(pod))
	_, err = w.try(sharePod("dry", "gpu-core=50"))
	denied(t, err, "core_without_memory")
	list, err := w.plane.Admin().CoreV1().Pods(w.namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	assert.Empty(t, list.Items)
}
