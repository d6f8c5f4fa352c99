package charts

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// The chart rejects a misspelled value with a one-line error that suggests the correct name.
func TestAMisspeltValueIsRefusedWithTheOneThatIsMeant(t *testing.T) {
	for set, want := range map[string]string{
		`gpu_k8s.clams=true`:         "gpu_k8s.clams is not a value of this chart: did you mean gpu_k8s.claims?",
		`gpu_k8s.cliams=true`:        "gpu_k8s.cliams is not a value of this chart: did you mean gpu_k8s.claims?",
		`gpu_k8s.claimss=true`:       "gpu_k8s.claimss is not a value of this chart: did you mean gpu_k8s.claims?",
		`gpu_k8s.claibs=true`:        "gpu_k8s.claibs is not a value of this chart: did you mean gpu_k8s.claims?",
		`gpuWindow.window="10s"`:     "gpuWindow is not a value of this chart: did you mean gpu_window?",
		`gpu_window.maxGap="10s"`:    "gpu_window.maxGap is not a value of this chart: did you mean gpu_window.max_gap?",
		`gpu_k8s.power.idle.wats=60`: "gpu_k8s.power.idle.wats is not a value of this chart: did you mean gpu_k8s.power.idle.watts?",
		`backend={"endpoint":"b:1","protocol":"grpc","balancer_nam":"x"}`:     "backend.balancer_nam is not a value of this chart: did you mean backend.balancer_name?",
		`gpu_findings={"enabled":true,"spining":{}}`:                          "gpu_findings.spining is not a value of this chart: did you mean gpu_findings.spinning?",
		`agent.gpuNodeLabels=[{"key":"a","operator":"Exists","vlues":["b"]}]`: "agent.gpuNodeLabels[0].vlues is not a value of this chart: did you mean agent.gpuNodeLabels[0].values?",
		`image.name="x"`: "image.name is not a value of this chart: image has digest, pullPolicy, registry, repository, tag",
	} {
		refused(t, set, want)
	}
}

// The chart rejects names that values had in earlier releases, and suggests the current names.
func TestAFormerNameIsRefusedWithTheNameOfToday(t *testing.T) {
	for set, want := range map[string]string{
		`attribution.podResources=false`:             "attribution.podResources is no longer a value of this chart: use gpu_k8s.sources.pod_resources.enabled",
		`attribution.settings={"jobs":true}`:         "attribution.settings is no longer a value of this chart: use gpu_k8s, without settings",
		`usage={"enabled":true}`:                     "usage.enabled is no longer a value of this chart: use gpu_k8s.usage: {} switches it on, null off",
		`usage.prices.configMap="prices"`:            "usage.prices is no longer a value of this chart: use agent.prices",
		`window.settings.window="10s"`:               "window.settings is no longer a value of this chart: use gpu_window",
		`dcgm.settings.timeout="5s"`:                 "dcgm.settings is no longer a value of this chart: use dcgm, without settings",
		`backend.promoteResourceAttributes="always"`: "backend.promoteResourceAttributes is no longer a value of this chart: use gpu_window.flat_attributes, true or false",
		`events.kubernetes=true`:                     "events.kubernetes is no longer a value of this chart: use gpu_events.kubernetes_events: {auth_type: serviceAccount} switches it on",
		`gpuShareAdmission.settings.enforce=false`:   "gpuShareAdmission.settings is no longer a value of this chart: use gpu_share_admission",
		`gpuShareAdmission.replicas=3`:               "gpuShareAdmission is no longer a value of this chart: use admission",
		`watchdog={"enabled":true,"dryRun":false}`:   "watchdog.dryRun is no longer a value of this chart: use gpu_watchdog.dry_run",
		`gpu_events={"enabled":true,"findings":{}}`:  "gpu_events.findings is no longer a value of this chart: use gpu_findings, which a receiver runs beside gpu_events",
	} {
		refused(t, set, want)
	}
}

// The refused function checks that the chart rejects a value with an error line that ends with the
// given text.
func refused(t *testing.T, set, want string) {
	t.Helper()
	output, err := helm(t, renderArgs("", []string{set})...)
	require.Error(t, err, set)
	var lines []string
	for line := range strings.Lines(output) {
		if strings.Contains(line, "of this chart") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	if assert.Len(t, lines, 1, "%s: %s", set, output) {
		assert.True(t, strings.HasSuffix(lines[0], want), "%s: %s", set, lines[0])
	}
}

// In the chart's values, a component's options are set in the section with the component's name, as
// in the collector's own configuration.
func TestTheOptionsOfAComponentAreMergedOverTheCharts(t *testing.T) {
	stage := func(path ...string) []string { return append([]string{"receivers", "dcgm", "stages"}, path...) }
	for name, tc := range map[string]struct {
		set  string
		path []string
		want any
	}{
		"an option in addition to the chart's options": {`gpu_synthesizer={"max_devices":50}`, stage("gpu_synthesizer"), map[string]any{"cluster_name": "", "storage": "file_storage", "max_devices": 50}},
		"false replaces":                               {`gpu_k8s.sources.dra.enabled=false`, stage("gpu_k8s", "sources", "dra", "enabled"), false},
		"zero replaces":                                {`gpu_synthesizer.max_devices=0`, stage("gpu_synthesizer", "max_devices"), 0},
		"null removes the chart's":                     {`gpu_synthesizer={"storage":null}`, stage("gpu_synthesizer"), map[string]any{"cluster_name": "", "max_devices": 2000}},
		"null removes a default":                       {`gpu_window.max_gap=null`, stage("gpu_window", "max_gap"), nil},
		"null removes a section":                       {`gpu_k8s.power=null`, stage("gpu_k8s"), map[string]any{"claims": false, "sources": map[string]any{"pod_resources": map[string]any{"enabled": true}, "dra": map[string]any{"enabled": true}}}},
		"a list replaces":                              {`prometheus.resource_constant_labels.included=["k8s.*"]`, []string{"exporters", "prometheus", "resource_constant_labels", "included"}, []any{"k8s.*"}},
		"the exporter to the backend":                  {`backend={"endpoint":"http://b","timeout":"3s","retry_on_failure":{"max_elapsed_time":"0s"}}`, []string{"exporters", "otlp_http", "retry_on_failure", "max_elapsed_time"}, "0s"},
		"the chart's own keys are not the component's": {`dcgm={"start_jitter":"0s"}`, []string{"receivers", "dcgm", "enabled"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			text := configMaps(t, decode(t, render(t, "", tc.set)))["agent"]
			assert.Equal(t, tc.want, at(t, text, tc.path...))
		})
	}
}

// The simulator's configuration must not contain a price list, because only agents mount the price
// list.
func TestTheSimulatorNeedsNoPriceList(t *testing.T) {
	configs := configMaps(t, decode(t, render(t, "", "simulator.enabled=true", "gpu_k8s.usage={}", `agent.prices.configMap="prices"`)))
	usage := func(component string) any {
		return at(t, configs[component], "receivers", "dcgm", "stages", "gpu_k8s", "usage")
	}
	assert.Equal(t, map[string]any{"prices": map[string]any{"file": "/etc/otelcol-gpu-prices/prices.yaml"}}, usage("agent"))
	assert.Equal(t, map[string]any{}, usage("simulator"))
}

// In a component's section, the chart's own keys must not have the name of one of the component's
// options.
func TestTheChartsOwnKeysAreNoOptionsOfComponents(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(chartDir, "values.schema.json"))
	require.NoError(t, err)
	var schema struct {
		Properties map[string]struct {
			Properties map[string]any
			AllOf      []any
			Then       any
		}
		Definitions map[string]struct{ Properties map[string]any }
	}
	require.NoError(t, json.Unmarshal(content, &schema))
	checked := 0
	for name, section := range schema.Properties {
		options := schema.Definitions[name].Properties
		if name == "backend" {
			options = schema.Definitions["otlp_http"].Properties
		}
		for key := range section.Properties {
			if options != nil && key != "endpoint" && key != "headers" {
				checked++
				assert.NotContains(t, options, key, "%s.%s", name, key)
			}
		}
	}
	assert.Positive(t, checked)
}

// kubectl port-forward connects to the pod's loopback address, so users can reach the page without
// a certificate or additional settings.
func TestThePageNeedsNoTLSForAPortForward(t *testing.T) {
	objects := decode(t, render(t, ""))
	configs := configMaps(t, objects)
	assert.Equal(t, map[string]any{"endpoint": "localhost:9411", "retention": "2h"}, at(t, configs["view"], "exporters", "gpu_view"))
	ports := podTemplates(t, objects)["view"].Spec.Containers[0].Ports
	names := map[string]int32{}
	for _, port := range ports {
		names[port.Name] = port.ContainerPort
	}
	assert.EqualValues(t, 9411, names["page"])
	assert.Equal(t, map[string]any{"insecure": true}, at(t, configs["agent"], "exporters", "otlp_grpc/view", "tls"), "networkPolicy admits only this release's pods")
}

func TestTheNotesNameTheSettingForABackendThatFlattens(t *testing.T) {
	notes := func(set ...string) string {
		args := []string{"install", release, chartDir, "--namespace", namespace, "--dry-run=client", "--set-json", `backend.endpoint="http://backend"`}
		for _, s := range set {
			args = append(args, "--set-json", s)
		}
		output, err := helm(t, args...)
		require.NoError(t, err, output)
		return output
	}
	const hint = "set gpu_window.flat_attributes to true"
	assert.Contains(t, notes(), hint)
	assert.NotContains(t, notes("gpu_window.flat_attributes=true"), hint)
}

func TestTheNotesOfADefaultInstallAreShort(t *testing.T) {
	output, err := helm(t, "install", release, chartDir, "--namespace", namespace, "--dry-run=client")
	require.NoError(t, err, output)
	_, notes, found := strings.Cut(output, "\nNOTES:\n")
	require.True(t, found, output)
	assert.LessOrEqual(t, strings.Count(strings.TrimSpace(notes), "\n")+1, 25, notes)
	for _, want := range []string{
		fmt.Sprintf("nodes with one of the %d labels of agent.gpuNodeLabels, such as nvidia.com/gpu.present", gpuNodeLabels(t)),
		"kubectl -n otelcol-gpu get daemonset otelcol-gpu-agent",
		"kubectl get pods -A -l 'app in (nvidia-dcgm-exporter,nvidia-dcgm-exporter-dra)'",
		"kubectl -n otelcol-gpu rollout status daemonset/otelcol-gpu-agent",
		"kubectl -n otelcol-gpu logs daemonset/otelcol-gpu-agent",
		"kubectl -n otelcol-gpu port-forward deployment/otelcol-gpu-view 9411",
	} {
		assert.Contains(t, notes, want)
	}
}

// The notes must count the same exporters that the receiver discovers.
func TestTheNotesCountWhatTheReceiverSelects(t *testing.T) {
	output, err := helm(t, "install", release, chartDir, "--namespace", namespace, "--dry-run=client", "--set-json", `dcgm.discovery.selectors=["app=mine","team=gpu"]`)
	require.NoError(t, err, output)
	assert.Contains(t, output, "kubectl get pods -A -l 'app=mine'\n  kubectl get pods -A -l 'team=gpu'\n")
	assert.NotContains(t, output, "nvidia-dcgm-exporter")
}

// gpuNodeLabels returns the number of labels in the default value of agent.gpuNodeLabels.
func gpuNodeLabels(t *testing.T) int {
	t.Helper()
	values, err := os.ReadFile(filepath.Join(chartDir, "values.yaml"))
	require.NoError(t, err)
	var defaults struct {
		Agent struct {
			Labels []any `yaml:"gpuNodeLabels"`
		}
	}
	require.NoError(t, yaml.Unmarshal(values, &defaults))
	require.NotEmpty(t, defaults.Agent.Labels)
	return len(defaults.Agent.Labels)
}
