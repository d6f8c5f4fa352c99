package charts

import (
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/processtest"
)

// sharedGPU contains the samples of a GPU that two pods share.
const sharedGPU = `DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1",device="nvidia0",Hostname="n1"} 50
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1",device="nvidia0",Hostname="n1",namespace="ml",pod="a",container="main"} 50
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1",device="nvidia0",Hostname="n1",namespace="ml",pod="b",container="main"} 50
`

// startAgent renders the chart and runs the agent's configuration on this machine, with one-second
// windows.
func startAgent(t *testing.T, set ...string) *processtest.Process {
	t.Helper()
	exporter := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, sharedGPU)
	}))
	t.Cleanup(exporter.Close)
	set = append(set,
		`dcgm={"endpoints":["`+exporter.URL+`/metrics"],"collection_interval":"250ms","timeout":"250ms"}`,
		`gpu_k8s.sources={"pod_resources":{"enabled":false},"dra":{"enabled":false}}`,
		`gpu_k8s.kubernetes.auth_type="none"`,
		`gpu_window.window="1s"`, `gpu_window.grace="1s"`)
	config := configMaps(t, decode(t, render(t, "", set...)))["agent"]
	config = strings.ReplaceAll(config, "/var/lib/otelcol-gpu", t.TempDir())
	for _, port := range []string{"13133", "8888"} {
		config = strings.ReplaceAll(config, port, processtest.Port(t, processtest.FreeAddress(t)))
	}
	file := filepath.Join(t.TempDir(), "agent.yaml")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	cmd := exec.Command(processtest.Binary(t, "otelcol-gpu"), "--config", file)
	cmd.Env = []string{"HOME=" + t.TempDir(), "POD_IP=127.0.0.1", "NODE_NAME=n1"}
	return processtest.Start(t, cmd)
}

// A GPU that two pods share has three series: one for the device and one for each holder.
func TestPrometheusScrapesASeriesForEachHolderAndTheDevice(t *testing.T) {
	address := processtest.FreeAddress(t)
	_, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	agent := startAgent(t, "prometheus.enabled=true", "prometheus.port="+port)
	var found []string
	processtest.Until(t, "the windows", func() bool {
		found = nil
		for line := range strings.Lines(processtest.Get(t, "http://"+address+"/metrics")) {
			if strings.HasPrefix(line, "gpu_utilization_avg_ratio{") {
				found = append(found, line)
			}
		}
		return len(found) >= 3 // the exporter adds a batch's Resources one at a time
	}, agent)
	agent.Stop(t)
	holders := map[string]int{}
	for _, line := range found {
		assert.Contains(t, line, `k8s_node_name="n1"`)
		_, pod, _ := strings.Cut(line, `k8s_pod_name="`)
		pod, _, _ = strings.Cut(pod, `"`)
		holders[pod]++
	}
	assert.Equal(t, map[string]int{"": 1, "a": 1, "b": 1}, holders)
}

// With gpu_window.flat_attributes, the attributes that describe the location and the holder are
// also set on each point. A backend needs flat attributes if the only Resource attributes that it
// uses are those for job and instance. The result does not depend on the path in the backend's URL.
func TestPrometheusIsSentASeriesForEachHolderAndTheDevice(t *testing.T) {
	for name, tc := range map[string]struct {
		set  []string
		want map[string]bool
	}{
		"flat attributes": {[]string{"gpu_window.flat_attributes=true"}, map[string]bool{"n1/<nil>": true, "n1/a": true, "n1/b": true}},
		"the default":     {nil, map[string]bool{"<nil>/<nil>": true}},
	} {
		t.Run(name, func(t *testing.T) {
			backend := processtest.StartBackend(t, nil)
			agent := startAgent(t, append(tc.set, `backend.endpoint="`+backend.URL+`/api/v1/otlp"`)...)
			got := map[string]bool{}
			backend.Until(t, agent, "windows", func(md pmetric.Metrics) bool {
				for _, rm := range md.ResourceMetrics().All() {
					for _, sm := range rm.ScopeMetrics().All() {
						for _, m := range sm.Metrics().All() {
							if m.Name() != "gpu.utilization.avg" {
								continue
							}
							for _, point := range m.Gauge().DataPoints().All() {
								labels := point.Attributes().AsRaw()
								got[fmt.Sprint(labels["k8s.node.name"], "/", labels["k8s.pod.name"])] = true
								assert.Equal(t, len(tc.want) == 1, point.StartTimestamp() != 0, "a start timestamp would become a sample")
							}
						}
					}
				}
				return len(got) >= len(tc.want)
			})
			agent.Stop(t)
			assert.Equal(t, tc.want, got)
		})
	}
}

// Nothing listens on the backend's address. The agent must log the message that the chart's notes
// explain.
func TestAnUnreachableBackendIsLoggedInTheWordsOfTheNotes(t *testing.T) {
	notes, err := os.ReadFile(filepath.Join(chartDir, "templates", "NOTES.txt"))
	require.NoError(t, err)
	agent := startAgent(t, `backend.endpoint="http://`+processtest.FreeAddress(t)+`"`)
	for _, words := range []string{"Exporting failed", "connection refused"} {
		assert.Contains(t, string(notes), words)
		processtest.Until(t, words, func() bool { return strings.Contains(agent.Output.String(), words) }, agent)
	}
	agent.Stop(t)
}

// The chart must install the same rules and dashboards that test/dashboards tests.
func TestRulesAndDashboardsAreThoseOfTheExamples(t *testing.T) {
	objects := decode(t, render(t, "", "prometheus.enabled=true",
		`monitoring.prometheusRule={"enabled":true,"labels":{"release":"prometheus"}}`,
		`monitoring.dashboards={"enabled":true}`))
	rules, dashboards := map[string]any{}, map[string]string{}
	for _, obj := range objects {
		switch obj.GetKind() {
		case "PrometheusRule":
			assert.Equal(t, "prometheus", obj.GetLabels()["release"])
			spec, _, err := unstructured.NestedMap(obj.Object, "spec")
			require.NoError(t, err)
			rules[strings.TrimPrefix(obj.GetName(), release+"-")] = spec
		case "ConfigMap":
			if obj.GetLabels()["grafana_dashboard"] == "1" {
				data, _, err := unstructured.NestedStringMap(obj.Object, "data")
				require.NoError(t, err)
				maps.Copy(dashboards, data)
			}
		}
	}
	for _, name := range []string{"alerts", "collector-alerts"} {
		content, err := os.ReadFile(filepath.Join(root, "examples", "prometheus", name+".yaml"))
		require.NoError(t, err)
		assert.Equal(t, at(t, string(content), "groups"), rules[name].(map[string]any)["groups"], name)
	}
	files, err := filepath.Glob(filepath.Join(root, "examples", "grafana", "*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	assert.Len(t, dashboards, len(files))
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.JSONEq(t, string(content), dashboards[filepath.Base(file)])
	}
}
