package handover

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/pointtest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/processtest"
)

// scrape is a node with a board, an instance, a holder, and metrics that are none of DCGM's.
const scrape = `# TYPE DCGM_FI_DEV_FB_USED gauge
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-1",device="nvidia0",modelName="NVIDIA H100 80GB HBM3",Hostname="n1"} 100
DCGM_FI_DEV_FB_FREE{gpu="0",UUID="GPU-1",device="nvidia0",modelName="NVIDIA H100 80GB HBM3",Hostname="n1"} 300
DCGM_FI_DEV_FB_USED{gpu="1",UUID="GPU-2",device="nvidia1",modelName="NVIDIA H100 80GB HBM3",GPU_I_PROFILE="1g.10gb",GPU_I_ID="7",Hostname="n1",namespace="ml",pod="train-0",container="main"} 10
DCGM_FI_DEV_FB_FREE{gpu="1",UUID="GPU-2",device="nvidia1",modelName="NVIDIA H100 80GB HBM3",GPU_I_PROFILE="1g.10gb",GPU_I_ID="7",Hostname="n1",namespace="ml",pod="train-0",container="main"} 30
DCGM_FI_DEV_NEW_FIELD{gpu="0",UUID="GPU-1",device="nvidia0",Hostname="n1"} 1
room_temperature_celsius{room="7"} 21
go_goroutines 9
`

// exporter serves the scrape.
func exporter(t *testing.T) (url string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, scrape)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/metrics"
}

// collector runs the built collector with a configuration until it has sent the samples of
// several scrapes, and returns its log and the series that it sent.
func collector(t *testing.T, receivers, processors, pipelines string, restart bool) (log string, series []string) {
	t.Helper()
	backend := processtest.StartBackend(t, nil)
	config := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(config, []byte(fmt.Sprintf(`receivers:
%[1]s
processors:
  gpu_synthesizer:
  memory_limiter: {check_interval: 1s, limit_mib: 1000}
%[2]s
exporters:
  otlp_http: {endpoint: %[3]q, sending_queue: {enabled: false}}
  otlp_http/raw: {endpoint: %[3]q, sending_queue: {enabled: false}}
  debug:
connectors:
  gpu_forward:
  gpu_events:
service:
  pipelines:
%[4]s
  telemetry: {metrics: {level: none}, logs: {level: debug, encoding: json}}
`, receivers, processors, backend.URL, pipelines)), 0o600))
	output := &processtest.Buffer{}
	cmd := exec.Command(processtest.Binary(t, "otelcol-gpu"), "--config", config)
	cmd.Env = processtest.Environment(nil)
	cmd.Stdout, cmd.Stderr = output, output
	p := processtest.Start(t, cmd)
	enough := func(n int) func(pmetric.Metrics) bool {
		return func(md pmetric.Metrics) bool { return scrapesIn(md) >= n }
	}
	backend.Until(t, p, "the samples of scrapes", enough(4))
	if restart {
		require.NoError(t, cmd.Process.Signal(syscall.SIGHUP)) // reload
		before := scrapesIn(backend.All())
		backend.Until(t, p, "samples after the reload", enough(before+4))
	}
	p.Stop(t)
	return saidIn(output.String()), seriesOf(t, backend.All())
}

// saidIn returns what components say in a log, one line each: id, message and reason.
func saidIn(log string) string {
	var said strings.Builder
	for line := range strings.Lines(log) {
		var entry struct {
			ID     string `json:"otelcol.component.id"`
			Msg    string
			Reason string
		}
		if json.Unmarshal([]byte(line), &entry) == nil {
			fmt.Fprintln(&said, entry.ID, entry.Msg, entry.Reason)
		}
	}
	return said.String()
}

// scrapesIn returns the number of sample times of a device.
func scrapesIn(md pmetric.Metrics) int {
	times := map[string]bool{}
	for p := range points.All(md) {
		if p.Metric.Name() == signal.HwGPUMemoryUtilization.Name {
			times[p.Timestamp().String()] = true
		}
	}
	return len(times)
}

// seriesOf returns the series with their values: those of the scrape never change. No sample
// of one may come twice.
func seriesOf(t *testing.T, md pmetric.Metrics) []string {
	t.Helper()
	var out []string
	came := map[string]bool{}
	for p := range points.All(md) {
		if p.Metric.Name() == signal.GPUExporterUp.Name {
			continue
		}
		series := fmt.Sprintf("%s %s %s = %g %s", pointtest.Text(p.Resource.Attributes()), p.Metric.Name(),
			pointtest.Text(p.Attributes()), points.Value(p.NumberDataPoint), p.Scope.Name())
		sample := fmt.Sprint(series, " ", p.Timestamp())
		if ours := strings.HasPrefix(p.Scope.Name(), "github.com/otelcol-gpu/otelcol-gpu/processor/"); ours && came[sample] {
			t.Errorf("twice: %s", sample)
		}
		came[sample] = true
		out = append(out, series)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func TestSamplesAreTheSameWhateverStandsBetween(t *testing.T) {
	const (
		handed = "Samples are handed to the next component"
		sent   = "Samples are sent to the next component as metrics"
	)
	const ours = `  gpu_k8s: {node_name: "", kubernetes: {auth_type: none}, sources: {pod_resources: {enabled: false}, dra: {enabled: false}}}
  gpu_power:
  gpu_budget: {kubernetes: {auth_type: none}}
  filter: &nothing {metrics: {metric: ['name == "nothing of that name"']}}
  filter/1: *nothing
  filter/2: *nothing
  filter/3: *nothing
`
	for name, tt := range map[string]struct {
		processors string // beside gpu_synthesizer and memory_limiter
		pipelines  string
		twice      bool // a second receiver
		restart    bool
		without    string   // the pipelines in which nothing is handed over, if others
		want       []string // in the log
	}{
		"nothing":        {pipelines: `metrics: {receivers: [dcgm], processors: [gpu_synthesizer], exporters: [otlp_http]}`, want: []string{handed}},
		"memory_limiter": {pipelines: `metrics: {receivers: [dcgm], processors: [memory_limiter, gpu_synthesizer], exporters: [otlp_http]}`, want: []string{handed}},
		"a filter that lets everything through": {
			processors: `  filter: {metrics: {metric: ['name == "nothing of that name"']}}`,
			pipelines:  `metrics: {receivers: [dcgm], processors: [filter, gpu_synthesizer], exporters: [otlp_http]}`,
			want:       []string{sent, "stands between"},
		},
		"a batch": {
			processors: `  batch: {timeout: 10ms}`,
			pipelines:  `metrics: {receivers: [dcgm], processors: [batch, gpu_synthesizer], exporters: [otlp_http]}`,
			want:       []string{sent, "nobody who takes them was reached in the same call"},
		},
		"a fork": {
			pipelines: `metrics: {receivers: [dcgm], processors: [gpu_synthesizer], exporters: [otlp_http]}
    metrics/raw: {receivers: [dcgm], processors: [memory_limiter], exporters: [otlp_http/raw]}`,
			want: []string{sent, "stands between"},
		},
		"a fork by gpu_forward": {
			processors: ours,
			pipelines: `metrics: {receivers: [dcgm], processors: [gpu_synthesizer], exporters: [gpu_forward]}
    metrics/events: {receivers: [gpu_forward], exporters: [gpu_events]}
    metrics/adding: {receivers: [gpu_forward], processors: [gpu_power], exporters: [debug]}
    metrics/whole: {receivers: [gpu_forward], exporters: [otlp_http]}
    logs: {receivers: [gpu_events], exporters: [otlp_http]}`,
			want: []string{
				"gpu_synthesizer " + handed, "gpu_forward " + handed, "gpu_forward " + sent + " nobody who takes",
				"gpu_forward " + sent + " gpu_power adds to what others are handed too",
			},
		},
		"a fork beside gpu_forward": {
			pipelines: `metrics: {receivers: [dcgm], processors: [gpu_synthesizer], exporters: [gpu_forward, otlp_http]}
    metrics/events: {receivers: [gpu_forward], exporters: [gpu_events]}
    logs: {receivers: [gpu_events], exporters: [otlp_http]}`,
			want: []string{"dcgm " + handed, "gpu_synthesizer " + sent + " go.opentelemetry.io/collector/internal/fanoutconsumer"},
		},
		"two receivers in one pipeline": {
			pipelines: `metrics: {receivers: [dcgm, dcgm/2], processors: [gpu_synthesizer], exporters: [otlp_http]}`,
			twice:     true,
			want:      []string{handed},
		},
		"all our processors": {
			processors: ours,
			pipelines:  `metrics: {receivers: [dcgm], processors: [gpu_synthesizer, gpu_k8s, gpu_power, gpu_budget], exporters: [otlp_http]}`,
			without:    `metrics: {receivers: [dcgm], processors: [gpu_synthesizer, filter/1, gpu_k8s, filter/2, gpu_power, filter/3, gpu_budget], exporters: [otlp_http]}`,
			want:       []string{"dcgm " + handed, "gpu_synthesizer " + handed, "gpu_k8s " + handed, "gpu_power " + handed, "gpu_budget " + sent},
		},
		"a filter between two of our processors": {
			processors: ours,
			pipelines:  `metrics: {receivers: [dcgm], processors: [gpu_synthesizer, gpu_k8s, filter, gpu_power], exporters: [otlp_http]}`,
			want:       []string{"dcgm " + sent, "gpu_synthesizer " + handed, "gpu_k8s " + sent},
		},
		"a processor behind that changes data": {
			processors: `  transform: {metric_statements: [{context: resource, statements: ['set(attributes["a"], "b") where false']}]}`,
			pipelines:  `metrics: {receivers: [dcgm], processors: [gpu_synthesizer, transform], exporters: [otlp_http]}`,
			want:       []string{sent, "fanoutconsumer"},
		},
		"a reload": {
			pipelines: `metrics: {receivers: [dcgm], processors: [gpu_synthesizer], exporters: [otlp_http]}`,
			restart:   true,
			want:      []string{handed},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := func(on bool, pipelines string) (log string, series []string) {
				receivers := ""
				ids := []string{"dcgm"}
				if tt.twice {
					ids = append(ids, "dcgm/2")
				}
				url := exporter(t) // two that expose one GPU are one
				for _, id := range ids {
					receivers += fmt.Sprintf("  %s: {endpoints: [%q], collection_interval: 100ms, timeout: 100ms, start_jitter: 0s, hand_over: %t}\n", id, url, on)
				}
				return collector(t, receivers, tt.processors, "    "+pipelines, tt.restart)
			}
			log, series := run(true, tt.pipelines)
			for _, part := range tt.want {
				assert.Contains(t, log, part)
			}
			_, without := run(false, cmp.Or(tt.without, tt.pipelines))
			assert.Equal(t, without, series)
			require.NotEmpty(t, series)
		})
	}
}
