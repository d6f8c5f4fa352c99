package charts

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/controlplane"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/notruntest"
)

var update = flag.Bool("update", false, "rewrite the rendered manifests of the golden directories")

const (
	// These paths are relative to this package's directory.
	root     = "../.."
	chartDir = root + "/charts/otelcol-gpu"

	release   = "otelcol-gpu"
	namespace = "otelcol-gpu"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(controlplane.Main(m)) }

// variants returns the paths of the golden directories.
func variants(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob("testdata/*/values.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, found)
	var dirs []string
	for _, file := range found {
		dirs = append(dirs, filepath.Dir(file))
	}
	return dirs
}

// helm runs the helm command and returns its output. If helm is not available, the test is skipped.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	path := os.Getenv("OTELCOL_GPU_HELM")
	if path == "" {
		notruntest.Skip(t, "the chart: OTELCOL_GPU_HELM is not set; `make check` builds helm and runs this test")
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	home := t.TempDir()
	cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
	var output, problems strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &problems
	if err := cmd.Run(); err != nil {
		return output.String() + problems.String(), err
	}
	// Discard standard error: if the command succeeds, helm's only output to standard error is a
	// warning about the chart's symbolic links.
	return output.String(), nil
}

// render renders the chart with values from a file, individual values, or both, and returns the
// manifests.
func render(t *testing.T, values string, set ...string) string {
	t.Helper()
	output, err := helm(t, renderArgs(values, set)...)
	require.NoError(t, err, "%s", output)
	return output
}

func renderArgs(values string, set []string) []string {
	args := []string{"template", release, chartDir, "--namespace", namespace}
	if values != "" {
		args = append(args, "--values", values)
	}
	for _, s := range set {
		args = append(args, "--set-json", s)
	}
	return args
}

func renderVariant(t *testing.T, dir string) string {
	t.Helper()
	return render(t, filepath.Join(dir, "values.yaml"))
}

// decode parses rendered manifests and returns their objects.
func decode(t *testing.T, manifests string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := controlplane.Decode(manifests)
	require.NoError(t, err)
	require.NotEmpty(t, objects)
	return objects
}

// podTemplates returns the pod templates in manifests, keyed by component.
func podTemplates(t *testing.T, objects []*unstructured.Unstructured) map[string]corev1.PodTemplateSpec {
	t.Helper()
	found := map[string]corev1.PodTemplateSpec{}
	for _, obj := range objects {
		content, ok, err := unstructured.NestedMap(obj.Object, "spec", "template")
		require.NoError(t, err)
		if !ok {
			continue
		}
		var template corev1.PodTemplateSpec
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(content, &template))
		found[template.Labels["app.kubernetes.io/component"]] = template
	}
	return found
}

// configMaps returns the collector configurations in manifests, keyed by component. ConfigMaps that
// contain no collector configuration are ignored.
func configMaps(t *testing.T, objects []*unstructured.Unstructured) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, obj := range objects {
		if component := obj.GetLabels()["app.kubernetes.io/component"]; obj.GetKind() == "ConfigMap" && component != "dashboards" && component != "prices" {
			data, _, err := unstructured.NestedStringMap(obj.Object, "data")
			require.NoError(t, err)
			require.Len(t, data, 1)
			for key, text := range data {
				found[strings.TrimSuffix(key, ".yaml")] = text
			}
		}
	}
	return found
}

// The at function returns the value at the given path in a YAML document, or nil if the path does
// not exist.
func at(t *testing.T, text string, path ...string) any {
	t.Helper()
	var value any
	require.NoError(t, yaml.Unmarshal([]byte(text), &value))
	for _, key := range path {
		m, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = m[key]
	}
	return value
}

func TestTheChartRendersToTheseManifests(t *testing.T) {
	for _, dir := range variants(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			got := renderVariant(t, dir)
			file := filepath.Join(dir, "manifests.yaml")
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			assert.Equal(t, string(want), got, "go test ./test/charts -update rewrites it")
		})
	}
}

func TestTheChartIsInOrder(t *testing.T) {
	for _, dir := range variants(t) {
		output, err := helm(t, "lint", "--strict", chartDir, "--values", filepath.Join(dir, "values.yaml"))
		assert.NoError(t, err, "%s: %s", dir, output)
	}
}

func TestTheUsersConfigurationIsMergedLast(t *testing.T) {
	for name, tc := range map[string]struct {
		config string // agent.config
		path   []string
		want   any
	}{
		"maps are merged":   {`{"receivers":{"dcgm":{"stages":{"gpu_k8s":{}}}}}`, []string{"receivers", "dcgm", "stages", "gpu_window", "window"}, "60s"},
		"a value replaces":  {`{"receivers":{"dcgm":{"stages":{"gpu_window":{"window":"30s"}}}}}`, []string{"receivers", "dcgm", "stages", "gpu_window", "window"}, "30s"},
		"false replaces":    {`{"receivers":{"dcgm":{"stages":{"gpu_k8s":{"sources":{"dra":{"enabled":false}}}}}}}`, []string{"receivers", "dcgm", "stages", "gpu_k8s", "sources", "dra", "enabled"}, false},
		"zero replaces":     {`{"receivers":{"dcgm":{"stages":{"gpu_synthesizer":{"max_devices":0}}}}}`, []string{"receivers", "dcgm", "stages", "gpu_synthesizer", "max_devices"}, 0},
		"empty replaces":    {`{"exporters":{"otlp_http":{"endpoint":""}}}`, []string{"exporters", "otlp_http", "endpoint"}, ""},
		"null removes":      {`{"exporters":{"otlp_http":{"retry_on_failure":null}}}`, []string{"exporters", "otlp_http", "retry_on_failure"}, nil},
		"a list replaces":   {`{"service":{"pipelines":{"metrics":{"exporters":[]}}}}`, []string{"service", "pipelines", "metrics", "exporters"}, []any{}},
		"what is new stays": {`{"exporters":{"debug":{"verbosity":"basic"}}}`, []string{"exporters", "debug", "verbosity"}, "basic"},
	} {
		t.Run(name, func(t *testing.T) {
			text := configMaps(t, decode(t, render(t, "", `backend.endpoint="http://backend"`, "agent.config="+tc.config)))["agent"]
			assert.Equal(t, tc.want, at(t, text, tc.path...))
		})
	}
}

// A digest already identifies a specific image, so no suffix such as -nvml is added to the image
// name.
func TestTheImageIsNamedByRegistryRepositoryTagAndDigest(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0a", 32)
	for set, want := range map[string]string{
		`{}`:                          "otelcol-gpu:0.1.0-nvml",
		`{"tag":"1.2"}`:               "otelcol-gpu:1.2-nvml",
		`{"tag":"1.2@sha256:0a1b2"}`:  "otelcol-gpu:1.2@sha256:0a1b2",
		`{"registry":"ghcr.io"}`:      "ghcr.io/otelcol-gpu:0.1.0-nvml",
		`{"digest":"` + digest + `"}`: "otelcol-gpu@" + digest,
		`{"registry":"ghcr.io","repository":"gpu/otelcol-gpu","tag":"1.2","digest":"` + digest + `"}`: "ghcr.io/gpu/otelcol-gpu@" + digest,
	} {
		objects := decode(t, render(t, "", `backend.endpoint="http://backend"`, "nvml.enabled=true", "image="+set))
		assert.Equal(t, want, podTemplates(t, objects)["agent"].Spec.Containers[0].Image)
	}
}

// A gateway for 2,000 GPUs with seven instances each holds about 280,000 series. At 300 bytes per
// series, 280,000 series fit within the gateway's memory limit, but they exceed gpu_window's
// default for max_series.
func TestAGatewayAcceptsTheSeriesOfManyNodes(t *testing.T) {
	for settings, want := range map[string]int{`{}`: 1_000_000, `{"max_series":50}`: 50} {
		text := configMaps(t, decode(t, render(t, "", `backend.endpoint="http://backend"`, "gateway.enabled=true", "tls.insecure=true",
			"gpu_window="+settings)))["gateway"]
		assert.Equal(t, want, at(t, text, "processors", "gpu_window", "max_series"))
	}
}

// A gateway uses all of the user's settings, including those with the value false. A null value
// removes a setting.
func TestWindowSettingsAlsoApplyToGateways(t *testing.T) {
	text := configMaps(t, decode(t, render(t, "", `backend.endpoint="http://prometheus:9090/api/v1/otlp"`, "gateway.enabled=true", "tls.insecure=true",
		`gpu_window={"flat_attributes":true,"storage":null,"max_series":null,"tier":false,"grace":"9s"}`)))["gateway"]
	window, ok := at(t, text, "processors", "gpu_window").(map[string]any)
	require.True(t, ok)
	assert.Equal(t, map[string]any{
		"window": "60s", "max_gap": "50s", "grace": "60s", "tier": false,
		"start_timestamp": false, "flat_attributes": true,
	}, window, "the grace is gateway.grace")
}

// Gateway replicas that are about to be removed keep running but no longer receive samples.
func TestDrainingGatewaysGetNoSamples(t *testing.T) {
	objects := decode(t, render(t, "", `backend.endpoint="http://backend"`, "gateway.enabled=true", "tls.insecure=true", "gateway.replicas=3", "gateway.draining=2"))
	assert.Equal(t, []any{"otelcol-gpu-gateway-0.otelcol-gpu-gateway.otelcol-gpu.svc:4317"},
		at(t, configMaps(t, objects)["agent"], "exporters", "load_balancing", "resolver", "static", "hostnames"))
	for _, o := range objects {
		if o.GetKind() == "StatefulSet" {
			assert.EqualValues(t, 3, o.Object["spec"].(map[string]any)["replicas"])
		}
	}
}

// If a sending queue had more than one consumer, the oldest batch might be sent last after an
// outage.
func TestEverySenderKeepsTheOrder(t *testing.T) {
	for _, dir := range variants(t) {
		for name, text := range configMaps(t, decode(t, render(t, filepath.Join(dir, "values.yaml")))) {
			exporters, _ := at(t, text, "exporters").(map[string]any)
			for id, exporter := range exporters {
				of := exporter
				switch typ, _, _ := strings.Cut(id, "/"); typ {
				case "load_balancing":
					of = exporter.(map[string]any)["protocol"].(map[string]any)["otlp"]
				case "otlp_http", "otlp_grpc":
				default:
					continue
				}
				queue, _ := of.(map[string]any)["sending_queue"].(map[string]any)
				assert.EqualValues(t, 1, queue["num_consumers"], "%s: %s of %s", dir, id, name)
			}
		}
	}
}

// The API server does not reject references to nonexistent volumes, service accounts, or
// environment variables, so this test checks them.
func TestEveryReferenceOfAPodExists(t *testing.T) {
	for _, dir := range variants(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			objects := decode(t, renderVariant(t, dir))
			exists := func(kind, name string) bool {
				return slices.ContainsFunc(objects, func(obj *unstructured.Unstructured) bool {
					return obj.GetKind() == kind && obj.GetName() == name
				})
			}
			configs := configMaps(t, objects)
			for component, template := range podTemplates(t, objects) {
				spec := template.Spec
				container := spec.Containers[0]
				if spec.ServiceAccountName != "" {
					assert.True(t, exists("ServiceAccount", spec.ServiceAccountName), "%s: account %s", component, spec.ServiceAccountName)
				}
				assert.Equal(t, []string{"--config=/etc/otelcol-gpu/" + component + ".yaml"}, container.Args)
				assert.True(t, slices.ContainsFunc(spec.Volumes, func(volume corev1.Volume) bool {
					return volume.ConfigMap != nil && exists("ConfigMap", volume.ConfigMap.Name)
				}), component)
				if len(container.EnvFrom) == 0 {
					for _, name := range variables(configs[component]) {
						assert.True(t, slices.ContainsFunc(container.Env, func(env corev1.EnvVar) bool { return env.Name == name }),
							"%s uses %s", component, name)
					}
				}
			}
		})
	}
}

func TestEveryValueIsDescribed(t *testing.T) {
	var values map[string]any
	content, err := os.ReadFile(filepath.Join(chartDir, "values.yaml"))
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(content, &values))
	readme, err := os.ReadFile(filepath.Join(chartDir, "README.md"))
	require.NoError(t, err)

	for section, value := range values {
		keys, ok := value.(map[string]any)
		if !ok {
			assert.Contains(t, string(readme), "`"+section+"`")
			continue
		}
		for key := range keys {
			name := section + "." + key
			names := []string{name, name + ".*", "<collector>." + key}
			if strings.HasPrefix(section, "gpu_") || section == "dcgm" || section == "nvml" {
				names = append(names, section) // the options of this section are described in the component's README
			}
			described := slices.ContainsFunc(names, func(name string) bool {
				return strings.Contains(string(readme), "`"+name+"`")
			})
			assert.True(t, described, "README.md does not describe %s", name)
		}
	}
}
