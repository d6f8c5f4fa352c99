package charts

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/processtest"
)

// variables returns the names of the environment variables that a configuration refers to.
func variables(config string) []string {
	var names []string
	for _, match := range regexp.MustCompile(`\$\{env:(\w+)`).FindAllStringSubmatch(config, -1) {
		names = append(names, match[1])
	}
	return names
}

// The test runs the rendered commands of the Helm test's pod with the contents of the mounted
// ConfigMaps.
func TestTheHelmTestPassesOnlyForValidConfigurations(t *testing.T) {
	dir := filepath.Join("testdata", "webhooks_complete_and_validate_pods_that_share_gpus")
	objects := decode(t, renderVariant(t, dir))
	broken := decode(t, renderVariant(t, dir))
	for _, obj := range broken {
		if obj.GetKind() == "ConfigMap" && obj.GetLabels()["app.kubernetes.io/component"] == "admission" {
			require.NoError(t, unstructured.SetNestedField(obj.Object, "extensions: {gpu_share_admission: {}}", "data", "admission.yaml"))
		}
	}
	for _, container := range helmTest(t, objects).Spec.Containers {
		t.Run(container.Name, func(t *testing.T) {
			output, err := runContainer(t, objects, &container)
			require.NoError(t, err, "%s", output)
			output, err = runContainer(t, broken, &container)
			if container.Name != "admission" {
				require.NoError(t, err, "%s", output)
				return
			}
			require.Error(t, err)
			assert.Contains(t, output, "gpu_share_admission: tls is not set")
		})
	}
}

// helmTest returns the manifest of the pod that `helm test` runs.
func helmTest(t *testing.T, objects []*unstructured.Unstructured) *corev1.Pod {
	t.Helper()
	for _, obj := range objects {
		if obj.GetAnnotations()["helm.sh/hook"] == "test" {
			pod := &corev1.Pod{}
			require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, pod))
			return pod
		}
	}
	require.FailNow(t, "there is no Helm test")
	return nil
}

// runContainer runs the command of one of the Helm test's containers. Each volume mount is replaced
// by a directory that contains the volume's ConfigMap data. For other volumes, the directory is
// empty.
func runContainer(t *testing.T, objects []*unstructured.Unstructured, container *corev1.Container) (string, error) {
	t.Helper()
	dirs := map[string]string{}
	var mounts []string
	for _, mount := range container.VolumeMounts {
		dirs[mount.Name] = t.TempDir()
		mounts = append(mounts, mount.MountPath, dirs[mount.Name])
	}
	in := strings.NewReplacer(mounts...)
	for name, text := range configMaps(t, objects) {
		if dir, mounted := dirs[name]; mounted {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name+".yaml"), []byte(in.Replace(text)), 0o600))
		}
	}
	var args []string
	for _, arg := range container.Args {
		args = append(args, in.Replace(arg))
	}
	cmd := exec.CommandContext(t.Context(), processtest.Binary(t, program(t, objects, container.Name)), args...)
	cmd.Env = []string{"HOME=" + t.TempDir()}
	for _, variable := range container.Env {
		cmd.Env = append(cmd.Env, variable.Name+"="+variable.Value)
	}
	output, err := cmd.CombinedOutput()
	return string(output), err
}

// program returns the file name of the program that the given component of the chart runs.
func program(t *testing.T, rendered []*unstructured.Unstructured, component string) string {
	t.Helper()
	container := podTemplates(t, rendered)[component].Spec.Containers[0]
	return filepath.Base(slices.Concat(container.Command, []string{"/otelcol-gpu"})[0])
}

// The chart runs otelcol-gpu-agent if that program contains all configured components, so the
// chart's list of that program's components must be up to date.
func TestTheChartListsTheComponentsOfTheAgentForm(t *testing.T) {
	output, err := exec.CommandContext(t.Context(), processtest.Binary(t, "otelcol-gpu-agent"), "components").Output()
	require.NoError(t, err)
	var components map[string]any
	require.NoError(t, yaml.Unmarshal(output, &components))
	template, err := os.ReadFile(filepath.Join(root, "charts", "otelcol-gpu", "templates", "_config.tpl"))
	require.NoError(t, err)
	for _, kind := range []string{"receivers", "processors", "exporters", "connectors", "extensions"} {
		var names []string
		for _, c := range components[kind].([]any) {
			names = append(names, strconv.Quote(c.(map[string]any)["name"].(string)))
		}
		line := regexp.MustCompile(`"` + kind + `" \(list (.*?)\)`).FindSubmatch(template)
		require.NotNil(t, line, kind)
		assert.ElementsMatch(t, names, strings.Fields(string(line[1])), kind)
	}
}

// The example configurations for other charts must be valid collector configurations.
func TestConfigurationsForOtherChartsAreValid(t *testing.T) {
	for file, path := range map[string][]string{
		"helm/opentelemetry-collector.yaml":    {"alternateConfig"},
		"operator/opentelemetrycollector.yaml": {"spec", "config"},
	} {
		t.Run(file, func(t *testing.T) {
			content, err := os.ReadFile(filepath.Join(root, "examples", file))
			require.NoError(t, err)
			for document := range strings.SplitSeq(string(content), "\n---\n") {
				config := at(t, document, path...)
				if config == nil {
					continue
				}
				text, err := yaml.Marshal(config)
				require.NoError(t, err)
				validate(t, string(text))
				return
			}
			require.FailNow(t, "no configuration")
		})
	}
}

// validate checks a configuration with gpudoctor lint and with the built collector. The collector
// has the environment variables that it would have in a pod.
func validate(t *testing.T, config string) {
	t.Helper()
	validateWith(t, "otelcol-gpu", config)
}

func validateWith(t *testing.T, program, config string) {
	t.Helper()
	assertLintClean(t, config)
	file := filepath.Join(t.TempDir(), "config.yaml")
	// In a pod, the state directory is a volume. The configuration is valid only if the state
	// directory exists.
	config = strings.ReplaceAll(config, "/var/lib/otelcol-gpu", t.TempDir())
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	cmd := exec.CommandContext(t.Context(), processtest.Binary(t, program), "validate", "--config", file)
	cmd.Env = []string{"HOME=" + t.TempDir(), "POD_NAMESPACE=" + namespace}
	for _, name := range variables(config) {
		cmd.Env = append(cmd.Env, name+"=127.0.0.1")
	}
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", output)
}
