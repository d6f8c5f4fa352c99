package dashboards

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.yaml.in/yaml/v3"

	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/processtest"
)

// settings contains the parts of a configuration file that differ between backends.
type settings struct {
	Exporters map[string]struct {
		Headers map[string]string
	}
	Extensions map[string]any
	Service    struct {
		Pipelines map[string]struct{ Processors []string }
	}
}

func backends(t *testing.T) map[string]settings {
	t.Helper()
	files, err := filepath.Glob(examplesDir + "/backends/*.yaml")
	require.NoError(t, err)
	require.Len(t, files, 10)
	all := map[string]settings{}
	for _, file := range files {
		all[file] = load(t, file)
	}
	return all
}

func load(t *testing.T, file string) settings {
	t.Helper()
	var s settings
	require.NoError(t, yaml.Unmarshal(read(t, file), &s), file)
	return s
}

func TestBackendFilesAreValidWithTheAgentFile(t *testing.T) {
	collector := processtest.Binary(t, "otelcol-gpu")
	for file := range backends(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), collector, "validate", "--config", examplesDir+"/agent.yaml", "--config", file)
			cmd.Env = processtest.Environment(nil)
			output, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", output)
		})
	}
}

// All of the agent's processors run inside the receiver. If agent.yaml listed processors in the
// pipeline, a backend's file could replace that list.
func TestTheAgentsPipelineHasNoProcessorsThatABackendCouldLose(t *testing.T) {
	assert.Empty(t, load(t, examplesDir+"/agent.yaml").Service.Pipelines["metrics"].Processors)
}

func TestSecretsComeFromTheEnvironment(t *testing.T) {
	secret := regexp.MustCompile(`(?i)key|token|team|authorization|password`)
	for file, s := range backends(t) {
		for _, exporter := range s.Exporters {
			for name, value := range exporter.Headers {
				if secret.MatchString(name) {
					assert.Regexp(t, `\$\{env:[A-Z_]+\}$`, value, "%s %s", file, name)
				}
			}
		}
		walk(s.Extensions, func(key, value string) {
			assert.Contains(t, value, "${env:", "%s %s", file, key)
		})
	}
}

// TestDatadogGetsDifferences runs the example for Datadog, which rejects cumulative counters. In
// the test, a sink replaces Datadog.
func TestDatadogGetsDifferences(t *testing.T) {
	var headers atomic.Pointer[http.Header]
	backend := processtest.StartBackend(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		headers.Store(&r.Header)
	}))
	exporter := processtest.FreeAddress(t)
	processtest.StartSimulator(t, exporter)
	agent := start(t, map[string]string{
		"DCGM_ENDPOINT": "http://" + exporter + "/metrics", "STORAGE_DIR": t.TempDir(), "HEALTH_ENDPOINT": processtest.FreeAddress(t), "DD_API_KEY": "a-key",
	}, "otelcol-gpu", "--config", examplesDir+"/agent.yaml", "--config", examplesDir+"/backends/datadog.yaml",
		"--set", "receivers.dcgm.collection_interval=1s", "--set", "receivers.dcgm.timeout=1s",
		"--set", "receivers.dcgm.stages.gpu_window.window=2s", "--set", "receivers.dcgm.stages.gpu_window.grace=1s",
		"--set", "exporters.otlp_http.endpoint="+backend.URL, "--set", "service.telemetry.metrics={level: none}")

	backend.Until(t, agent, "deltas and windows", func(md pmetric.Metrics) bool {
		return headers.Load() != nil && has(md, signal.HwEnergy.Name) && has(md, signal.UtilizationAvg.Name)
	})
	assert.Empty(t, cumulative(backend.All()), "Datadog rejects cumulative counters")
	assert.Equal(t, "a-key", headers.Load().Get("dd-api-key"))
	assert.JSONEq(t, `{"resource_attributes_as_tags": true}`, headers.Load().Get("dd-otel-metric-config"))
}

// The has function reports whether md contains a point of the metric with the given name.
func has(md pmetric.Metrics, name string) bool {
	for p := range points.All(md) {
		if p.Metric.Name() == name {
			return true
		}
	}
	return false
}

// cumulative returns the names of counters that do not have delta temporality.
func cumulative(md pmetric.Metrics) []string {
	var names []string
	for p := range points.All(md) {
		m := p.Metric
		if m.Type() == pmetric.MetricTypeSum && m.Sum().IsMonotonic() &&
			m.Sum().AggregationTemporality() != pmetric.AggregationTemporalityDelta && !slices.Contains(names, m.Name()) {
			names = append(names, m.Name())
		}
	}
	return names
}
