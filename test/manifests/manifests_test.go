package manifests

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.yaml.in/yaml/v3"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/controlplane"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/processtest"
)

const (
	// manifestsDir is the path of the manifests, relative to this package.
	manifestsDir = "../../examples/kubernetes"
	namespace    = "otelcol-gpu"
	agent        = "otelcol-gpu-agent"
	cluster      = "otelcol-gpu-cluster"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(controlplane.Main(m)) }

// files returns the paths of the manifests in manifestsDir that match a pattern, in the order in
// which kubectl applies them.
func files(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(manifestsDir, pattern))
	require.NoError(t, err)
	require.NotEmpty(t, found)
	return found
}

func text(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(content)
}

// installed starts a control plane and applies the manifests that every installation needs.
func installed(t *testing.T) *controlplane.Plane {
	t.Helper()
	plane := controlplane.Start(t)
	for _, file := range files(t, "*.yaml") {
		plane.Apply(t, text(t, file))
	}
	return plane
}

// object returns the manifest with the given kind and name, decoded as type T.
func object[T any](t *testing.T, kind, name string) *T {
	t.Helper()
	for _, file := range files(t, "*.yaml") {
		objects, err := controlplane.Decode(text(t, file))
		require.NoError(t, err)
		for _, found := range objects {
			if found.GetKind() == kind && found.GetName() == name {
				typed := new(T)
				require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, typed))
				return typed
			}
		}
	}
	require.FailNow(t, "no such manifest", "%s %s", kind, name)
	return nil
}

// podTemplates returns the pod templates in the manifests, keyed by the owner's name.
func podTemplates(t *testing.T) map[string]corev1.PodTemplateSpec {
	t.Helper()
	return map[string]corev1.PodTemplateSpec{
		agent:   object[appsv1.DaemonSet](t, "DaemonSet", agent).Spec.Template,
		cluster: object[appsv1.Deployment](t, "Deployment", cluster).Spec.Template,
	}
}

// config is a collector configuration in a ConfigMap.
type config struct {
	file, configMap, key, text string
}

func configs(t *testing.T) []config {
	t.Helper()
	var found []config
	for _, file := range slices.Concat(files(t, "*.yaml"), files(t, "options/*.yaml")) {
		objects, err := controlplane.Decode(text(t, file))
		require.NoError(t, err)
		for _, obj := range objects {
			if obj.GetKind() != "ConfigMap" {
				continue
			}
			data, _, err := unstructured.NestedStringMap(obj.Object, "data")
			require.NoError(t, err)
			for key, content := range data {
				found = append(found, config{filepath.Base(file), obj.GetName(), key, content})
			}
		}
	}
	require.NotEmpty(t, found)
	return found
}

func TestTheAPIServerAcceptsEveryManifest(t *testing.T) {
	plane := installed(t)
	for _, file := range files(t, "options/*.yaml") {
		plane.Apply(t, text(t, file))
	}
}

// The API server does not reject references to nonexistent volumes, service accounts, or
// environment variables, so this test checks them.
func TestEveryReferenceOfAPodExists(t *testing.T) {
	for name, template := range podTemplates(t) {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, template.Spec.ServiceAccountName,
				object[corev1.ServiceAccount](t, "ServiceAccount", name).Name)
			container := template.Spec.Containers[0]

			set := map[string]bool{}
			for _, variable := range container.Env {
				set[variable.Name] = true
			}
			for _, config := range configs(t) {
				if config.configMap != name {
					continue
				}
				assert.Equal(t, []string{"--config=/etc/otelcol-gpu/" + config.key}, container.Args)
				for _, used := range regexp.MustCompile(`\$\{env:(\w+)`).FindAllStringSubmatch(config.text, -1) {
					assert.True(t, set[used[1]], "%s uses %s", config.file, used[1])
				}
			}
			assert.True(t, slices.ContainsFunc(template.Spec.Volumes, func(volume corev1.Volume) bool {
				return volume.ConfigMap != nil && volume.ConfigMap.Name == name
			}))
		})
	}
}

func TestThePodsRequestOnlyWhatTheyNeed(t *testing.T) {
	plane := controlplane.Start(t)
	restricted := plane.Namespace(t)
	plane.Apply(t, `
apiVersion: v1
kind: Namespace
metadata:
  name: `+restricted+`
  labels: {pod-security.kubernetes.io/enforce: restricted}
`)
	create := func(name string) error {
		template := podTemplates(t)[name]
		template.Spec.ServiceAccountName = ""
		_, err := plane.Admin().CoreV1().Pods(restricted).Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       template.Spec,
		}, metav1.CreateOptions{})
		return err
	}
	assert.NoError(t, create(cluster), "it meets the strictest standard")
	// The agent violates the restricted Pod Security level, because it mounts two host directories
	// and runs as root.
	err := create(agent)
	require.Error(t, err)
	_, violations, _ := strings.Cut(err.Error(), `violates PodSecurity "restricted:latest": `)
	assert.Equal(t, `restricted volume types (volumes "state", "pod-resources" use restricted volume type "hostPath"), `+
		`runAsNonRoot != true (pod or container "otelcol-gpu" must set securityContext.runAsNonRoot=true), `+
		`runAsUser=0 (pod must not set runAsUser=0)`, violations)

	for name, template := range podTemplates(t) {
		for _, container := range template.Spec.Containers {
			assert.True(t, *container.SecurityContext.ReadOnlyRootFilesystem, name)
			assert.NotEmpty(t, container.Resources.Requests, name)
			assert.NotEmpty(t, container.Resources.Limits, name)
			assert.NotNil(t, container.LivenessProbe, name)
			assert.NotNil(t, container.ReadinessProbe, name)
			for _, mount := range container.VolumeMounts {
				assert.Equal(t, mount.Name != "state", mount.ReadOnly, "%s: %s", name, mount.Name)
			}
		}
	}
}

func TestEveryConfigurationIsValid(t *testing.T) {
	collector := processtest.Binary(t, "otelcol-gpu")
	for _, config := range configs(t) {
		t.Run(config.file, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), config.key)
			// In the cluster, the state directory is a host directory. The configuration is valid
			// only if the state directory exists.
			state := strings.ReplaceAll(config.text, "/var/lib/otelcol-gpu", t.TempDir())
			require.NoError(t, os.WriteFile(file, []byte(state), 0o600))
			cmd := exec.CommandContext(t.Context(), collector, "validate", "--config", file)
			cmd.Env = environment("127.0.0.1:1", nil)
			output, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", output)
		})
	}
}

// If a sending queue had more than one consumer, the oldest batch might be sent last after an
// outage, and Prometheus might reject that batch.
func TestEverySenderKeepsTheOrder(t *testing.T) {
	for _, config := range configs(t) {
		var parsed struct {
			Exporters map[string]struct {
				SendingQueue struct {
					NumConsumers int `yaml:"num_consumers"`
				} `yaml:"sending_queue"`
			}
		}
		require.NoError(t, yaml.Unmarshal([]byte(config.text), &parsed), config.file)
		for id, exporter := range parsed.Exporters {
			if strings.HasPrefix(id, "otlp_") {
				assert.Equal(t, 1, exporter.SendingQueue.NumConsumers, "%s of %s", id, config.file)
			}
		}
	}
}

// environment returns the environment variables that a pod in the manifests would have, with the
// given backend address.
func environment(backend string, more map[string]string) []string {
	env := []string{
		"HOME=" + os.Getenv("HOME"), "NODE_NAME=" + node, "POD_IP=127.0.0.1", "POD_NAMESPACE=" + namespace,
		"CLUSTER_NAME=", "OTLP_ENDPOINT=http://" + backend,
	}
	for name, value := range more {
		env = append(env, fmt.Sprintf("%s=%s", name, value))
	}
	return env
}
