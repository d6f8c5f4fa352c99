package pipelinelint_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/otelcol-gpu/otelcol-gpu/internal/pipelinelint"
)

// lint merges the given configurations and returns the findings about the merged configuration.
func lint(t *testing.T, texts ...string) []string {
	t.Helper()
	var files []string
	for _, text := range texts {
		file, err := os.CreateTemp(t.TempDir(), "*.yaml")
		require.NoError(t, err)
		_, err = file.WriteString(text)
		require.NoError(t, err)
		require.NoError(t, file.Close())
		files = append(files, file.Name())
	}
	conf, err := pipelinelint.Read(t.Context(), files...)
	require.NoError(t, err)
	found, err := pipelinelint.Lint(conf)
	require.NoError(t, err)
	var lines []string
	for i := range found {
		lines = append(lines, found[i].String())
	}
	return lines
}

func TestLint(t *testing.T) {
	for name, tt := range map[string]struct {
		given string
		want  []string
	}{
		"the full chain": {`
receivers: {dcgm: {}}
processors: {memory_limiter: {}, gpu_synthesizer: {}, gpu_k8s: {power: {}, budget: {}, usage: {}}, gpu_window: {}, batch: {}, cumulativetodelta: {}}
exporters: {otlp_http: {}, gpu_view: {}}
service: {pipelines: {metrics: {receivers: [dcgm], processors: [memory_limiter, gpu_synthesizer, gpu_k8s, gpu_window, batch, cumulativetodelta], exporters: [otlp_http]}}}`, nil},
		"raw metrics to a gateway, which makes samples": {`
service: {pipelines: {metrics: {receivers: [dcgm], processors: [batch], exporters: [otlp]}}}`, nil},
		"a gateway that gets samples": {`
service: {pipelines: {metrics: {receivers: [otlp], processors: [gpu_window, batch], exporters: [otlp_http, gpu_view]}}}`, nil},
		"stages in the receiver": {`
receivers: {dcgm: {stages: {gpu_window: {storage: file_storage}, gpu_events: {}, gpu_k8s: {}}}}
service: {pipelines: {metrics: {receivers: [dcgm], exporters: [otlp, gpu_view]}, metrics/2: {receivers: [dcgm], exporters: [otlp]}, logs: {receivers: [dcgm], exporters: [otlp]}}}`, nil},
		"a memory limiter behind stages": {`
receivers: {dcgm: {stages: {gpu_window: {}}}}
service: {pipelines: {metrics: {receivers: [dcgm], processors: [memory_limiter], exporters: [otlp]}}}`, []string{
			"pipeline metrics: memory_limiter: memory_limiter is after gpu_window: it rejects windows instead of samples, and rejected windows are lost. Put memory_limiter before gpu_window.",
		}},
		"stages in the synthesizer of a gateway": {`
receivers: {otlp: {}}
processors: {memory_limiter: {}, gpu_synthesizer: {stages: {gpu_window: {window: 30s}, gpu_k8s: {}}}}
service: {pipelines: {metrics: {receivers: [otlp], processors: [memory_limiter, gpu_synthesizer], exporters: [otlp_http, gpu_view]}}}`, nil},
		"a storage of a stage in two pipelines": {`
processors: {gpu_synthesizer: {stages: {gpu_window: {storage: file_storage}}}}
service: {pipelines: {metrics/1: {receivers: [dcgm], processors: [gpu_synthesizer], exporters: [x]}, metrics/2: {receivers: [dcgm], processors: [gpu_synthesizer], exporters: [x]}}}`, []string{
			"pipeline metrics/2: gpu_synthesizer::stages::gpu_window: it has a storage and is also in metrics/1. Each pipeline has its own instance, and only one of them can use the storage, so the collector does not start. Define a second one, such as gpu_window/2.",
		}},
		"a second window behind the stages of the synthesizer": {`
processors: {gpu_synthesizer: {stages: {gpu_window: {}}}, gpu_k8s: {}}
service: {pipelines: {metrics: {receivers: [dcgm], processors: [gpu_synthesizer, gpu_k8s], exporters: [x]}}}`, []string{
			"pipeline metrics: gpu_k8s: gpu_k8s is after gpu_window: the container series from gpu_k8s would have no windows. Put gpu_k8s before gpu_window.",
		}},
		"events in the stages of a receiver without a logs pipeline": {`
receivers: {dcgm: {stages: {gpu_events: {}}}}
service: {pipelines: {metrics: {receivers: [dcgm], exporters: [otlp]}}}`, []string{
			"pipeline metrics: dcgm: stages::gpu_events sends log records, but dcgm is not in a logs pipeline, so the collector does not start. Add dcgm to the receivers of a logs pipeline.",
		}},
		"a page that gets windows and the scheduler's view": {`
service: {pipelines: {metrics: {receivers: [otlp], exporters: [gpu_view]}, metrics/cluster: {receivers: [gpu_cluster], exporters: [gpu_view]}}}`, nil},
		"no synthesizer is needed for NVML": {`
service: {pipelines: {metrics: {receivers: [nvml], processors: [gpu_k8s, gpu_window], exporters: [otlp]}}}`, nil},
		"one processor with a storage in two pipelines": {`
receivers: {dcgm: {}}
processors: {gpu_synthesizer: {storage: file_storage}, gpu_k8s: {}, gpu_window: {storage: file_storage}}
connectors: {forward: {}, gpu_events: {storage: file_storage}}
service:
  pipelines:
    metrics: {receivers: [forward], processors: [gpu_synthesizer, gpu_window], exporters: [otlp]}
    metrics/samples: {receivers: [dcgm], processors: [gpu_synthesizer, gpu_k8s], exporters: [forward, gpu_events]}
    logs: {receivers: [gpu_events], exporters: [otlp]}`, []string{
			"pipeline metrics: gpu_synthesizer: it has a storage and is also in metrics/samples. Each pipeline has its own instance, and only one of them can use the storage, so the collector does not start. Define a second one, such as gpu_synthesizer/2.",
		}},
		"the name of a processor before it was renamed": {`
service: {pipelines: {metrics: {receivers: [dcgm], processors: [cumulativetodelta, gpu_synthesizer], exporters: [otlp]}}}`, []string{
			"pipeline metrics: gpu_synthesizer: gpu_synthesizer is after cumulative_to_delta: gpu_synthesizer reads cumulative counters. Put gpu_synthesizer before cumulative_to_delta.",
		}},
		"window before synthesizer": {`
service: {pipelines: {metrics: {receivers: [dcgm], processors: [gpu_window, gpu_synthesizer], exporters: [otlp]}}}`, []string{
			"pipeline metrics: gpu_synthesizer: gpu_synthesizer is after gpu_window: gpu_window reads the samples that gpu_synthesizer creates. Put gpu_synthesizer before gpu_window.",
		}},
		"batch before synthesizer": {`
service: {pipelines: {metrics/gpu: {receivers: [dcgm], processors: [batch, gpu_synthesizer/a, gpu_window], exporters: [otlp]}}}`, []string{
			"pipeline metrics/gpu: gpu_synthesizer/a: gpu_synthesizer is after batch: gpu_synthesizer combines the rows of one scrape, which batch splits. Put gpu_synthesizer before batch.",
		}},
		"events and windows behind forward": {`
connectors: {forward: {}, gpu_events: {}}
service: {pipelines: {
  metrics: {receivers: [forward], processors: [gpu_window], exporters: [otlp]},
  metrics/events: {receivers: [forward], exporters: [gpu_events]},
  metrics/samples: {receivers: [dcgm], processors: [gpu_synthesizer], exporters: [forward]},
  logs: {receivers: [gpu_events], exporters: [otlp]}}}`, nil},
		"no synthesizer": {`
service: {pipelines: {metrics: {receivers: [dcgm], processors: [gpu_window], exporters: [otlp]}}}`, []string{
			"pipeline metrics: gpu_window: gpu_synthesizer is missing before gpu_window: gpu_window reads the samples that gpu_synthesizer creates. Put gpu_synthesizer before gpu_window.",
		}},
		"no synthesizer behind the prometheus receiver": {`
receivers: {prometheus: {config: {scrape_configs: [{job_name: gpus, scrape_interval: 15s, static_configs: [{targets: ["node:9400"]}]}]}}}
service: {pipelines: {metrics: {receivers: [prometheus], processors: [gpu_window], exporters: [otlp]}}}`, []string{
			"pipeline metrics: gpu_window: gpu_synthesizer is missing before gpu_window: gpu_window reads the samples that gpu_synthesizer creates. Put gpu_synthesizer before gpu_window.",
		}},
		"other exporters behind the prometheus receiver": {`
receivers: {prometheus: {config: {scrape_configs: [{job_name: hami, static_configs: [{targets: ["node:31992"]}]}]}}}
service: {pipelines: {metrics: {receivers: [nvml, prometheus], processors: [gpu_k8s, gpu_window], exporters: [otlp]}}}`, nil},
		"k8s after the window": {`
service: {pipelines: {metrics: {receivers: [dcgm], processors: [gpu_synthesizer, gpu_window, gpu_k8s], exporters: [otlp]}}}`, []string{
			"pipeline metrics: gpu_k8s: gpu_k8s is after gpu_window: the container series from gpu_k8s would have no windows. Put gpu_k8s before gpu_window.",
		}},
		"usage twice": {`
processors: {gpu_k8s: {usage: {}}, gpu_k8s/2: {usage: {}}}
service: {pipelines: {metrics: {receivers: [dcgm], processors: [gpu_synthesizer, gpu_k8s, gpu_k8s/2], exporters: [otlp]}}}`, []string{
			"pipeline metrics: gpu_k8s/2::usage: gpu_k8s/2::usage is after gpu_k8s::usage, which has already counted the time of all GPUs, so it counts nothing. Remove one of the two.",
		}},
		"a processor behind the same stage": {`
receivers: {dcgm: {stages: {gpu_window: {}}}}
service: {pipelines: {metrics: {receivers: [dcgm], processors: [gpu_window], exporters: [otlp]}}}`, []string{
			"note: pipeline metrics: gpu_window: gpu_window is after dcgm::stages::gpu_window, which has already processed the same samples. Unless this is intended, remove one of the two.",
		}},
		"a logs pipeline without events": {`
receivers: {dcgm: {stages: {gpu_window: {}}}}
service: {pipelines: {metrics: {receivers: [dcgm], exporters: [otlp]}, logs: {receivers: [dcgm], exporters: [otlp]}}}`, []string{
			"note: pipeline logs: dcgm: dcgm is in a logs pipeline, but sends no log records. Add gpu_events to its stages.",
		}},
		"events on windows, and into nothing": {`
connectors: {gpu_events: {}}
service: {pipelines: {metrics: {receivers: [dcgm], processors: [gpu_synthesizer, gpu_window], exporters: [gpu_events]}}}`, []string{
			"pipeline metrics: gpu_events: gpu_events is after gpu_window: gpu_events reads samples, and gpu_window sends only one per minute. Give gpu_events a pipeline without gpu_window.",
			"pipeline metrics: gpu_events: gpu_events is the receiver of no pipeline of logs: its records go nowhere, and the collector does not start. Add a pipeline logs with receivers: [gpu_events].",
		}},
		"events on samples": {`
connectors: {gpu_events: {}}
service: {pipelines: {metrics: {receivers: [dcgm], processors: [gpu_synthesizer], exporters: [gpu_events]}, logs: {receivers: [gpu_events], exporters: [otlp]}}}`, nil},
		"deltas before the synthesizer": {`
service: {pipelines: {metrics: {receivers: [dcgm], processors: [cumulative_to_delta, gpu_synthesizer], exporters: [otlp]}}}`, []string{
			"pipeline metrics: gpu_synthesizer: gpu_synthesizer is after cumulative_to_delta: gpu_synthesizer reads cumulative counters. Put gpu_synthesizer before cumulative_to_delta.",
		}},
		"deltas of samples for a gateway": {`
receivers: {dcgm: {stages: {gpu_k8s: {}}}}
service: {pipelines: {metrics: {receivers: [dcgm], processors: [cumulative_to_delta], exporters: [load_balancing]}}}`, []string{
			"pipeline metrics: cumulative_to_delta: gpu_window is missing before cumulative_to_delta: gpu_window reads cumulative counters. Put gpu_window before cumulative_to_delta, or move cumulative_to_delta to the collector that computes the windows.",
		}},
		"an interval above the window": {`
receivers: {dcgm: {collection_interval: 70s}}
service: {pipelines: {metrics: {receivers: [dcgm], processors: [gpu_synthesizer, gpu_window], exporters: [otlp]}}}`, []string{
			"pipeline metrics: gpu_window: window is 1m0s and dcgm is read every 1m10s: windows without a sample are missing. Set it above two intervals, or read more often.",
		}},
		"findings of samples that come too seldom": {`
receivers: {dcgm: {collection_interval: 30s, stages: {gpu_findings: {max_gap: 20s}}}}
service: {pipelines: {metrics: {receivers: [dcgm], exporters: [otlp]}}}`, []string{
			"pipeline metrics: dcgm::stages::gpu_findings: max_gap is 20s and dcgm is read every 30s: no finding is ever reported. Set it above two intervals, or read more often.",
		}},
		"a gap below the interval, by variables": {`
receivers: {dcgm: {collection_interval: "${env:NO_SUCH_VARIABLE:-30s}"}}
processors: {gpu_window: {max_gap: 20s}}
service: {pipelines: {metrics: {receivers: [dcgm], processors: [gpu_synthesizer, gpu_window], exporters: [otlp]}}}`, []string{
			"pipeline metrics: gpu_window: max_gap is 20s and dcgm is read every 30s: no time counts as observed, and gpu.window.coverage is 0. Set it above two intervals, or read more often.",
		}},
		"the prometheus receiver's interval by default": {`
receivers: {prometheus: {config: {scrape_configs: [{job_name: dcgm-exporter}]}}}
processors: {gpu_window: {window: 30s}}
service: {pipelines: {metrics: {receivers: [prometheus], processors: [gpu_synthesizer, gpu_window], exporters: [otlp]}}}`, []string{
			"pipeline metrics: gpu_window: window is 30s and prometheus is read every 1m0s: windows without a sample are missing. Set it above two intervals, or read more often.",
		}},
		"a receiver that is created": {`
receivers: {receiver_creator: {receivers: {dcgm/node: {rule: x, config: {collection_interval: 2m}}}}}
processors: {gpu_window: {max_gap: 5m}}
service: {pipelines: {metrics: {receivers: [receiver_creator], processors: [gpu_synthesizer, gpu_window], exporters: [otlp]}}}`, []string{
			"pipeline metrics: gpu_window: window is 1m0s and receiver_creator is read every 2m0s: windows without a sample are missing. Set it above two intervals, or read more often.",
		}},
		"power and watchdog that get samples too seldom": {`
receivers: {dcgm: {collection_interval: 90s}}
processors: {gpu_k8s: {power: {}, budget: {}}}
service: {pipelines: {metrics: {receivers: [dcgm], processors: [gpu_synthesizer, gpu_k8s], exporters: [gpu_watchdog]}}}`, []string{
			"pipeline metrics: gpu_k8s::power: max_gap is 1m30s and dcgm is read every 1m30s: no energy is counted. Set it above two intervals, or read more often.",
			"pipeline metrics: gpu_watchdog: max_data_age is 1m30s and dcgm is read every 1m30s: all data is too old to act on. Set it above two intervals, or read more often.",
		}},
		"a page without windows": {`
service: {pipelines: {metrics: {receivers: [dcgm], processors: [gpu_synthesizer], exporters: [gpu_view]}}}`, []string{
			"pipeline metrics: gpu_view: gpu_window is missing before gpu_view: gpu_view shows windows. Put gpu_window before gpu_view.",
		}},
		"a watchdog behind windows": {`
processors: {gpu_k8s: {budget: {}}}
service: {pipelines: {metrics: {receivers: [dcgm], processors: [gpu_synthesizer, gpu_k8s, gpu_window], exporters: [gpu_watchdog]}}}`, nil},
		"a watchdog behind windows that are too long": {`
receivers: {dcgm: {stages: {gpu_k8s: {budget: {}}, gpu_window: {window: 2m, grace: 10s}}}}
service: {pipelines: {metrics: {receivers: [dcgm], exporters: [gpu_watchdog]}}}`, []string{
			"pipeline metrics: gpu_watchdog: max_data_age is 1m30s and gpu_window sends samples that are up to 2m26s old: some of them are too old to act on. Set it to 2m26s or more.",
		}},
		"a watchdog behind windows of samples with an unknown interval": {`
processors: {gpu_window: {window: 5m}}
service: {pipelines: {metrics: {receivers: [otlp], processors: [gpu_window], exporters: [gpu_watchdog]}}}`, []string{
			"pipeline metrics: gpu_watchdog: max_data_age is 1m30s and gpu_window sends samples that are up to 5m6s old: some of them are too old to act on. Set it to 5m6s or more.",
		}},
		"a page and events behind increments": {`
service: {pipelines: {metrics: {receivers: [dcgm], processors: [gpu_synthesizer, gpu_window, cumulative_to_delta], exporters: [gpu_view]},
  metrics/2: {receivers: [dcgm], processors: [gpu_synthesizer, cumulative_to_delta], exporters: [gpu_events]}, logs: {receivers: [gpu_events], exporters: [otlp]}}}
connectors: {gpu_events: {}}`, []string{
			"pipeline metrics: gpu_view: gpu_view is after cumulative_to_delta: gpu_view reads cumulative counters. Give gpu_view a pipeline without cumulative_to_delta.",
			"pipeline metrics/2: gpu_events: gpu_events is after cumulative_to_delta: gpu_events reads cumulative counters. Give gpu_events a pipeline without cumulative_to_delta.",
			"pipeline metrics/2: cumulative_to_delta: gpu_window is missing before cumulative_to_delta: gpu_window reads cumulative counters. Put gpu_window before cumulative_to_delta, or move cumulative_to_delta to the collector that computes the windows.",
		}},
		"a watchdog without budgets": {`
service: {pipelines: {metrics: {receivers: [dcgm], processors: [gpu_synthesizer, gpu_k8s], exporters: [gpu_watchdog]}}}`, []string{
			"pipeline metrics: gpu_watchdog: gpu_k8s with the section budget is missing before gpu_watchdog: gpu_watchdog acts on the declared memory that this section adds. Put gpu_k8s with the section budget before gpu_watchdog.",
		}},
		"usage in the stages of a receiver that is read too seldom": {`
receivers: {dcgm: {collection_interval: 2m, stages: {gpu_k8s: {usage: }}}}
service: {pipelines: {metrics: {receivers: [dcgm], exporters: [otlp]}}}`, []string{
			"pipeline metrics: dcgm::stages::gpu_k8s::usage: max_gap is 1m30s and dcgm is read every 2m0s: all time is unobserved. Set it above two intervals, or read more often.",
		}},
		"a branch of samples and one of windows": {`
processors: {gpu_k8s: {budget: {}}}
connectors: {forward: {}}
service: {pipelines: {
  metrics/samples: {receivers: [dcgm], processors: [gpu_synthesizer, gpu_k8s], exporters: [gpu_watchdog, forward]},
  metrics: {receivers: [forward], processors: [gpu_window], exporters: [otlp, gpu_view]}}}`, nil},
		"a synthesizer behind a connector, too late": {`
connectors: {forward: {}, forward/2: {}}
service: {pipelines: {
  metrics/1: {receivers: [dcgm], processors: [gpu_k8s], exporters: [forward]},
  metrics/2: {receivers: [forward], processors: [gpu_synthesizer], exporters: [forward/2]},
  metrics/3: {receivers: [forward/2], processors: [gpu_window], exporters: [gpu_view]}}}`, []string{
			"pipeline metrics/2: gpu_synthesizer: gpu_synthesizer is after gpu_k8s: gpu_k8s reads the samples that gpu_synthesizer creates. Put gpu_synthesizer before gpu_k8s.",
		}},
		"one of two ways without a synthesizer, and a circle": {`
connectors: {forward: {}}
service: {pipelines: {
  metrics/1: {receivers: [dcgm], processors: [gpu_synthesizer], exporters: [forward]},
  metrics/2: {receivers: [dcgm/raw], exporters: [forward]},
  metrics/3: {receivers: [forward], processors: [gpu_window], exporters: [forward, gpu_view]}}}`, []string{
			"pipeline metrics/3: gpu_window: gpu_synthesizer is missing before gpu_window: gpu_window reads the samples that gpu_synthesizer creates. Put gpu_synthesizer before gpu_window.",
		}},
		"settings that are no durations": {`
receivers: {dcgm: {collection_interval: 15}}
processors: {gpu_window: {window: much, max_gap: "${env:NO_SUCH_VARIABLE:-50s}"}}
service: {pipelines: {metrics: {receivers: [dcgm], processors: [gpu_synthesizer, gpu_window], exporters: [x]}, metrics/none: }}`, []string{
			"pipeline metrics: dcgm: collection_interval is 15: must be a duration with its unit, as in 15s.",
			`pipeline metrics: gpu_window: window is "much": must be a duration with its unit, as in 15s.`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tt.want, lint(t, withDeclarations(t, tt.given)))
		})
	}
}

// withDeclarations adds an empty configuration for each component that is in a pipeline but is not
// configured.
func withDeclarations(t *testing.T, text string) string {
	t.Helper()
	var conf map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(text), &conf))
	connectors, _ := conf["connectors"].(map[string]any)
	pipelines, _ := conf["service"].(map[string]any)["pipelines"].(map[string]any)
	for _, p := range pipelines {
		lists, _ := p.(map[string]any)
		for kind, ids := range lists {
			section, _ := conf[kind].(map[string]any)
			if section == nil {
				section = map[string]any{}
			}
			for _, id := range ids.([]any) {
				name, _ := id.(string)
				if _, connector := connectors[name]; !connector && name != "" && section[name] == nil {
					section[name] = nil
				}
			}
			conf[kind] = section
		}
	}
	out, err := yaml.Marshal(conf)
	require.NoError(t, err)
	return string(out)
}

func TestComponentsThatAreNotConfiguredOrNotUsedAreReported(t *testing.T) {
	assert.Equal(t, []string{
		"cumulative_to_delta: the processor is configured but in no pipeline: it does nothing. A later file may have replaced the list of processors. Add it to the list, or remove it.",
		"note: dcgm/other: the receiver is configured but in no pipeline: its settings and stages have no effect.",
		"pipeline logs: forward: it is in exporters of the pipeline and is not configured, so the collector does not start. Add it to the section exporters, or remove it from the pipeline.",
		"pipeline metrics: gpu_synthesizer: it is in processors of the pipeline and is not configured, so the collector does not start. Add it to the section processors, or remove it from the pipeline.",
	}, lint(t, `
receivers: {dcgm: , dcgm/other: }
processors: {cumulative_to_delta: }
connectors: {gpu_events: }
exporters: {otlp_http: , debug: }
service: {pipelines: {
  metrics: {receivers: [dcgm], processors: [gpu_synthesizer], exporters: [otlp_http, gpu_events]},
  logs: {receivers: [gpu_events], exporters: [forward]}}}`))
}

// Merging gateway.yaml over a backend's file replaces the backend's list of processors. Merging
// gateway-agent.yaml replaces the receiver that another overlay sets.
func TestSettingsThatAGatewaysOverlayReplacesAreReported(t *testing.T) {
	read := func(name string) string {
		content, err := os.ReadFile(filepath.Join("..", "..", "examples", name))
		require.NoError(t, err)
		return string(content)
	}
	found := lint(t, read("agent.yaml"), read("backends/datadog.yaml"), read("overlays/gateway.yaml"))
	require.Len(t, found, 2)
	assert.Contains(t, found[0], "cumulative_to_delta: the processor is configured but in no pipeline")
	assert.Contains(t, found[1], "note: dcgm: ")
	assert.Contains(t, lint(t, read("agent.yaml"), read("overlays/usage.yaml"), read("overlays/gateway-agent.yaml")),
		"note: dcgm: the receiver is configured but in no pipeline: its settings and stages have no effect.")
}

func TestFilesAreMergedAsTheCollectorDoes(t *testing.T) {
	assert.Len(t, lint(t, `
receivers: {dcgm: {collection_interval: 15s}}
processors: {gpu_synthesizer: , gpu_window: }
exporters: {otlp: }
service: {pipelines: {metrics: {receivers: [dcgm], processors: [gpu_synthesizer, gpu_window], exporters: [otlp]}}}`,
		`receivers: {dcgm: {collection_interval: 2m}}`), 2)
}

func TestATextThatIsNoConfigurationIsAnErrorOfOneLine(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "x.yaml")
	for text, want := range map[string]string{
		"kind: ConfigMap": "service::pipelines is missing: must be the configuration of a collector",
		"{receivers: {dgcm: }, service: {pipelines: {metrics: {receivers: [dgcm], exporters: [debug]}}}}": "no metrics pipeline has a component of otelcol-gpu " +
			"(dcgm, nvml, gpu_synthesizer, gpu_window, …): there is nothing to check. Pass all files with which the collector is started",
		"[1]":                 file + ": the content is a list: must be a map, the configuration of a collector",
		"service: {pipelines": file + ": yaml: line 1: did not find expected ',' or '}'",
		"service: 5":          "service is 5: must be a map",
		"{receivers: {dcgm: 'http://user:password@host'}, service: {pipelines: }}": "receivers::dcgm is a text: must be a map",
		"{receivers: {dcgm: [1]}, processors: [gpu_window], service: {pipelines: {metrics: {receivers: dcgm, exporters: [3]}, logs: 5}}}": "receivers::dcgm is a list: must be a map\n" +
			"processors is a list: must be a map\n" +
			"service::pipelines::logs is 5: must be a map\n" +
			"service::pipelines::metrics::receivers is dcgm: must be a list of names, as in [dcgm]\n" +
			"service::pipelines::metrics::exporters[0] is 3: must be a name",
	} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		conf, err := pipelinelint.Read(t.Context(), file)
		if err == nil {
			_, err = pipelinelint.Lint(conf)
		}
		require.EqualError(t, err, want, text)
	}
	require.NoError(t, os.WriteFile(file, []byte("a: ${http://a/b}"), 0o600))
	_, err := pipelinelint.Read(t.Context(), file)
	require.ErrorContains(t, err, "scheme")
	_, err = pipelinelint.Read(t.Context(), filepath.Join(dir, "none.yaml"))
	require.EqualError(t, err, "open "+filepath.Join(dir, "none.yaml")+": no such file or directory")
}

// The examples include configurations that are embedded in other files, such as ConfigMaps.
func TestExamplesAreClean(t *testing.T) {
	below := func(path string) []string {
		base := "agent.yaml"
		switch dir := filepath.Base(filepath.Dir(path)); {
		case filepath.Base(path) == "prometheus-receiver.yaml":
			base = "quickstart.yaml"
		case dir != "backends" && dir != "overlays":
			return nil
		}
		content, err := os.ReadFile("../../examples/" + base)
		require.NoError(t, err)
		return []string{string(content)}
	}
	found := 0
	require.NoError(t, filepath.WalkDir("../../examples", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".yaml" {
			return err
		}
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, text := range configurations(t, content) {
			found++
			t.Run(path, func(t *testing.T) {
				var want []string
				switch filepath.Base(path) {
				case "gateway.yaml", "gateway-agent.yaml", "prometheus-receiver.yaml": // these examples use other receivers instead of dcgm
					want = []string{"note: dcgm: the receiver is configured but in no pipeline: its settings and stages have no effect."}
				}
				assert.Equal(t, want, lint(t, append(below(path), text)...))
			})
		}
		return nil
	}))
	assert.GreaterOrEqual(t, found, 12)
}

// configurations returns the Collector configurations that a file contains. The file itself may be
// a configuration, or configurations may be embedded in a ConfigMap, a custom resource, or a
// chart's values.
func configurations(t *testing.T, content []byte) (texts []string) {
	t.Helper()
	var look func(value any)
	look = func(value any) {
		switch value := value.(type) {
		case string:
			var inner map[string]any
			if yaml.Unmarshal([]byte(value), &inner) == nil {
				look(inner)
			}
		case map[string]any:
			if service, ok := value["service"].(map[string]any); ok && service["pipelines"] != nil {
				text, err := yaml.Marshal(value)
				require.NoError(t, err)
				texts = append(texts, string(text))
				return
			}
			for _, inner := range value {
				look(inner)
			}
		}
	}
	look(string(content))
	return texts
}

func TestManyForksEnd(t *testing.T) {
	type section = map[string]any
	pipelines, connectors := section{}, section{}
	for i := range 30 {
		a, b := string(rune('a'+i))+"1", string(rune('a'+i))+"2"
		receivers := []any{"dcgm"}
		if i > 0 {
			receivers = []any{"forward/" + string(rune('a'+i-1)) + "1", "forward/" + string(rune('a'+i-1)) + "2"}
		}
		for _, name := range []string{a, b} {
			connectors["forward/"+name] = section{}
			pipelines["metrics/"+name] = section{"receivers": receivers, "processors": []any{"gpu_window"}, "exporters": []any{"forward/" + name, "otlp"}}
		}
	}
	begin := time.Now()
	found, err := pipelinelint.Lint(section{"connectors": connectors, "service": section{"pipelines": pipelines}})
	require.NoError(t, err)
	assert.NotEmpty(t, found)
	assert.Less(t, time.Since(begin), time.Minute)
}
