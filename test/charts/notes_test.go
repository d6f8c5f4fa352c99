package charts

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/controlplane"
)

// During an installation, the chart looks up objects in the cluster. If an object is missing, the
// installation fails or the notes list the missing object.
func TestTheNotesListWhatTheClusterLacks(t *testing.T) {
	plane := controlplane.Start(t)
	kubeconfig := plane.KubeConfig(t)
	// install runs helm install as a dry run against the API server and returns the output.
	install := func(set ...string) (string, error) {
		args := []string{"install", release, chartDir, "--namespace", "default", "--dry-run=server", "--kubeconfig", kubeconfig}
		for _, s := range set {
			args = append(args, "--set-json", s)
		}
		return helm(t, args...)
	}
	const backend = `backend.endpoint="http://backend"`
	node := func(name string, labels map[string]string) {
		plane.CreateNode(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})
	}
	node("cpu", map[string]string{"pool": "a"})
	output, err := install(backend)
	require.NoError(t, err, output)
	assert.Contains(t, output, "Agents run on 0 of 1 nodes")
	assert.Contains(t, output, "WARNING: no node matches")

	node("gpu", map[string]string{"cloud.google.com/gke-accelerator": "nvidia-l4", "pool": "b"})
	output, err = install(backend)
	require.NoError(t, err, output)
	assert.Contains(t, output, "Agents run on 1 of 2 nodes")
	assert.NotContains(t, output, "WARNING: no node matches")

	output, err = install(backend, `agent.nodeSelector={"pool":"a"}`)
	require.NoError(t, err, output)
	assert.Contains(t, output, "Agents run on 0 of 2 nodes")

	output, err = install()
	require.NoError(t, err, output)
	assert.Contains(t, output, "kubectl -n default port-forward deployment/otelcol-gpu-view 9411", "the page needs no value")
	assert.Contains(t, output, "Prometheus scrapes the windows at port 9464")

	plane.Create(t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu", Namespace: "default"}, Data: map[string][]byte{"tls.crt": {}, "tls.key": {}},
	})
	output, err = install("view.enabled=true", `tls.secretName="gpu"`)
	require.Error(t, err)
	assert.Contains(t, output, `tls.secretName is "gpu", a Secret without ca.crt: it must have tls.crt, tls.key and ca.crt`)

	// Check for a TLS file that is missing from its Secret, for missing objects that pods would
	// wait for, and for an image without a registry.
	const mounted = `extraVolumeMounts=[{"name":"ca","mountPath":"/etc/backend","readOnly":true}]`
	tls := []string{backend, `extraVolumes=[{"name":"ca","secret":{"secretName":"gpu"}}]`, mounted}
	output, err = install(append(tls, `backend.tls.ca_file="/etc/backend/ca.pem"`)...)
	require.Error(t, err)
	assert.Contains(t, output, `backend.tls.ca_file is "/etc/backend/ca.pem" and the Secret gpu, which is mounted there, has no key ca.pem: use one of its keys: tls.crt, tls.key`)
	output, err = install(append(tls, `backend.tls.ca_file="/etc/backend/tls.crt"`)...)
	require.NoError(t, err, output)
	assert.NotContains(t, output, "Pods wait for it")

	output, err = install(backend, `extraEnvFrom=[{"secretRef":{"name":"backend"}}]`, "gpu_k8s.usage={}", `agent.prices.configMap="prices"`)
	require.NoError(t, err, output)
	assert.Contains(t, output, "namespace default has no Secret backend, which extraEnvFrom names. Pods wait for it")
	assert.Contains(t, output, "namespace default has no ConfigMap prices, which agent.prices.configMap names. Pods wait for it")
	assert.Contains(t, output, "WARNING: image.repository \"otelcol-gpu\" has no registry")

	output, err = install(`backend.endpoint="http://backend:4317"`, `image.repository="registry.example.com/otelcol-gpu"`, `backend.headers={"Authorization":"${env:TOKEN}"}`)
	require.NoError(t, err, output)
	assert.Contains(t, output, "by convention port 4317 is OTLP over gRPC, and backend.protocol is http")
	assert.Contains(t, output, "others on the network can read them")
	assert.NotContains(t, output, "WARNING: image.repository")

	// In earlier versions of the chart, the list of processors contained components that are now
	// stages of the receiver.
	output, err = install(backend, `agent.config.service.pipelines.metrics.processors=["memory_limiter","gpu_synthesizer","gpu_window"]`)
	require.Error(t, err)
	assert.Contains(t, output, `pipeline metrics has "memory_limiter" in its processors, which is not configured: must be one of (none). `+
		"The agent's receiver runs gpu_synthesizer, gpu_k8s and gpu_window: list only processors that run after it")

	output, err = install(backend, "nvml.enabled=true", `cluster.priorityClassName="important"`)
	require.NoError(t, err, output)
	assert.Contains(t, output, "the cluster has no RuntimeClass nvidia, which nvml.runtimeClassName names. Pods wait for it")
	assert.Contains(t, output, "the cluster has no PriorityClass important, which cluster.priorityClassName names. Pods wait for it")
}

// The chart's schema does not check values that are copied into pod specs. The API server rejects
// invalid values.
func TestTheAPIServerRejectsWhatTheSchemaDoesNotCheck(t *testing.T) {
	kubeconfig := controlplane.Start(t).KubeConfig(t)
	for set, want := range map[string]string{
		`agent.tolerations=[{"key":"gpu","opertor":"Exists"}]`:                   ".tolerations[0].opertor: field not declared in schema",
		`agent.podSecurityContext={"runAsUsr":1}`:                                ".securityContext.runAsUsr: field not declared in schema",
		`extraEnv=[{"name":"A","valu":"b"}]`:                                     `.env[name="A"].valu: field not declared in schema`,
		`extraVolumes=[{"name":"ca","secret":{"secretname":"x"}}]`:               `.volumes[name="ca"].secret.secretname: field not declared in schema`,
		`networkPolicy={"enabled":true,"allowIngressFrom":[{"podSelektor":{}}]}`: ".podSelektor: field not declared in schema",
		`additionalLabels={"team":"gpu ops"}`:                                    `metadata.labels: Invalid value: "gpu ops"`,
		`monitoring.podMonitor.enabled=true`:                                     `no matches for kind "PodMonitor"`,
		`gpu_watchdog={"enabled":true,"namespaces":["training"]}`:                `namespaces "training" not found`,
	} {
		output, err := helm(t, "install", release, chartDir, "--namespace", "default", "--kubeconfig", kubeconfig, "--rollback-on-failure",
			"--set-json", `backend.endpoint="http://backend"`, "--set-json", "gpu_k8s.budget={}", "--set-json", set)
		require.Error(t, err, set)
		assert.Contains(t, output, want)
	}
}
