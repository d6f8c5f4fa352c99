package dcgmreceiver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/connector"
	"go.opentelemetry.io/collector/connector/connectortest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/collector/receiver/receivertest"

	"github.com/otelcol-gpu/otelcol-gpu/connector/gpueventsconnector"
	"github.com/otelcol-gpu/otelcol-gpu/internal/dcgmsim"
	numbers "github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/receiverstages"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/dcgmreceiver/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/pointtest"
)

// timeline is a simulated exporter. The nth response of the exporter depends only on the seed and
// on n. Random lines are missing, one in 15 scrapes fails, and some metrics are unknown or are not
// metrics of dcgm-exporter.
type timeline struct {
	sim  *dcgmsim.Simulation
	seed uint64
	n    int
}

func (l *timeline) RoundTrip(*http.Request) (*http.Response, error) {
	r := rand.New(rand.NewPCG(l.seed, uint64(l.n)))
	l.n++
	status, body := http.StatusOK, []byte("room_temperature_celsius{room=\"7\"} 21\ngo_goroutines 9\nDCGM_FI_DEV_NEW_FIELD{gpu=\"0\",UUID=\"GPU-0\"} 1\n")
	for line := range bytes.Lines(l.sim.AppendBody(nil, 0, time.Duration(l.n)*scrapeEvery)) {
		if line[0] == '#' || r.IntN(60) > 0 {
			body = append(body, line...)
		}
	}
	if r.IntN(15) == 0 {
		status, body = http.StatusServiceUnavailable, []byte("busy")
	}
	return &http.Response{StatusCode: status, ProtoMajor: 1, ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body))}, nil
}

const (
	scrapeEvery = 15 * time.Second
	length      = 10 * time.Minute
)

// The sections constant contains the configuration of the stages for the test. The configured
// stages use neither a kubelet nor an API server.
const sections = `
gpu_synthesizer: {cluster_name: c}
gpu_k8s: {node_name: "", kubernetes: {auth_type: none}, sources: {pod_resources: {enabled: false}, dra: {enabled: false}}, power: {}, budget: {}, usage: {}}
gpu_window: {window: 60s}
`

func section(t *testing.T, text string) *confmap.Conf {
	t.Helper()
	retrieved, err := confmap.NewRetrievedFromYAML([]byte(text))
	require.NoError(t, err)
	conf, err := retrieved.AsConf()
	require.NoError(t, err)
	return conf
}

// These are three ways to configure the same pipeline.
const (
	asProcessors = "processors"
	inReceiver   = "stages of dcgm"
	inProcessor  = "stages of gpu_synthesizer"
)

// The played type contains the points and the log records that a pipeline has sent, as sorted text.
type played struct{ points, records []string }

// The play function sends the responses of a timeline through the pipeline. The form argument
// selects how the pipeline is configured.
func play(t *testing.T, scenario string, seed uint64, form string) (out played) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg := createDefaultConfig().(*Config)
		jitter := time.Duration(0)
		cfg.Endpoints, cfg.StartJitter, cfg.CollectionInterval = []URL{"http://exporter:9400/metrics"}, &jitter, scrapeEvery
		metrics, logs := &consumertest.MetricsSink{}, &consumertest.LogsSink{}
		outputs := receiverstages.Outputs{Metrics: metrics}
		var stages []component.Component
		start := func(c component.Component) {
			require.NoError(t, c.Start(t.Context(), componenttest.NewNopHost()))
			stages = append(stages, c)
		}
		switch form {
		case inReceiver:
			require.NoError(t, section(t, "stages: {gpu_events: {}, "+inBraces(sections)+"}").Unmarshal(cfg))
			outputs.Logs = logs
		case inProcessor:
			outputs.Metrics = synthesizerWithStages(t, metrics, start)
		default:
			outputs.Metrics = processors(t, metrics, logs, start)
		}
		set := receivertest.NewNopSettings(metadata.Type)
		set.ID = component.NewID(metadata.Type)
		r, err := newReceiver(set, cfg, nil)
		require.NoError(t, err)
		r.outputs = outputs
		sim := dcgmsim.NewDefaultConfig()
		sim.Scenario, sim.Fields = scenario, dcgmsim.FieldsAll
		simulation, err := dcgmsim.New(sim)
		require.NoError(t, err)
		require.NoError(t, r.open(t.Context(), componenttest.NewNopHost()))
		r.fetcher.client = &http.Client{Transport: &timeline{sim: simulation, seed: seed}}
		require.NoError(t, r.startStages(t.Context()))
		time.Sleep(time.Millisecond) // ensures that no scrape coincides with a tick of gpu_events
		r.run(t.Context())
		time.Sleep(length + 5*time.Second)
		require.NoError(t, r.Shutdown(t.Context()))
		for _, c := range slices.Backward(stages) {
			require.NoError(t, c.Shutdown(t.Context()))
		}
		for _, md := range metrics.AllMetrics() {
			for p := range numbers.All(md) {
				out.points = append(out.points, fmt.Sprint(p.Timestamp(), " ", p.StartTimestamp(), " ", pointtest.Text(p.Resource.Attributes()), " ",
					p.Metric.Name(), " ", p.Metric.Type(), " ", pointtest.Text(p.Attributes()), " ", numbers.Value(p.NumberDataPoint), " ", p.Flags(), " ", p.Scope.Name()))
			}
		}
		for _, ld := range logs.AllLogs() {
			for _, rl := range ld.ResourceLogs().All() {
				for _, record := range rl.ScopeLogs().At(0).LogRecords().All() {
					out.records = append(out.records, fmt.Sprint(record.Timestamp(), record.EventName(), record.SeverityNumber(), record.Body().AsString(),
						pointtest.Text(rl.Resource().Attributes()), pointtest.Text(record.Attributes())))
				}
			}
		}
	})
	slices.Sort(out.points)
	slices.Sort(out.records)
	return out
}

// synthesizerWithStages returns gpu_synthesizer with the other processors as its stages.
func synthesizerWithStages(t *testing.T, next consumer.Metrics, start func(component.Component)) consumer.Metrics {
	t.Helper()
	synthesizer, stages, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(sections), "gpu_synthesizer: {"), "}\n")
	f := gpusynthesizerprocessor.NewFactory()
	cfg := f.CreateDefaultConfig()
	require.NoError(t, section(t, "{"+synthesizer+", stages: {"+inBraces(stages)+"}}").Unmarshal(cfg))
	set := processortest.NewNopSettings(f.Type())
	set.ID = component.NewID(f.Type())
	p, err := f.CreateMetrics(t.Context(), set, cfg, next)
	require.NoError(t, err)
	start(p)
	return p
}

// inBraces converts YAML sections to the contents of a YAML flow mapping, without the enclosing
// braces.
func inBraces(text string) string {
	return string(bytes.ReplaceAll(bytes.TrimSpace([]byte(text)), []byte("\n"), []byte(", ")))
}

// The processors function builds the chain of processors that the sections constant configures, and
// returns the first processor. The chain sends samples to both gpu_window and gpu_events.
func processors(t *testing.T, next consumer.Metrics, logs consumer.Logs, start func(component.Component)) consumer.Metrics {
	t.Helper()
	conf := section(t, sections)
	for _, f := range []processor.Factory{
		gpuwindowprocessor.NewFactory(), gpuk8sprocessor.NewFactory(), gpusynthesizerprocessor.NewFactory(),
	} {
		cfg := f.CreateDefaultConfig()
		sub, err := conf.Sub(f.Type().String())
		require.NoError(t, err)
		require.NoError(t, sub.Unmarshal(cfg))
		set := processortest.NewNopSettings(f.Type())
		set.ID = component.NewID(f.Type())
		p, err := f.CreateMetrics(t.Context(), set, cfg, next)
		require.NoError(t, err)
		start(p)
		next = p
		if f.Type() == gpuwindowprocessor.NewFactory().Type() {
			next = addEventsConnector(t, next, logs, start)
		}
	}
	return next
}

func addEventsConnector(t *testing.T, next consumer.Metrics, logs consumer.Logs, start func(component.Component)) consumer.Metrics {
	t.Helper()
	f := gpueventsconnector.NewFactory()
	set := connectortest.NewNopSettings(f.Type())
	set.ID = component.NewID(f.Type())
	var events connector.Metrics
	events, err := f.CreateMetricsToLogs(t.Context(), set, f.CreateDefaultConfig(), logs)
	require.NoError(t, err)
	start(events)
	both, err := consumer.NewMetrics(func(ctx context.Context, md pmetric.Metrics) error {
		mdCopy := pmetric.NewMetrics()
		md.CopyTo(mdCopy)
		return errors.Join(events.ConsumeMetrics(ctx, mdCopy), next.ConsumeMetrics(ctx, md))
	})
	require.NoError(t, err)
	return both
}

func TestStagesSendTheSamePointsAndRecordsAsProcessors(t *testing.T) {
	for _, scenario := range []string{dcgmsim.ScenarioXIDBurst, dcgmsim.ScenarioPowerCapped, dcgmsim.ScenarioVendors} {
		for seed := range uint64(cases(1, 6)) {
			t.Run(fmt.Sprint(scenario, seed), func(t *testing.T) {
				want := play(t, scenario, seed, asProcessors)
				require.NotEmpty(t, want.points)
				for _, form := range []string{inReceiver, inProcessor} {
					got := play(t, scenario, seed, form)
					assert.Empty(t, difference(want.points, got.points), form)
					if form != inProcessor { // stages inside a processor do not send log records
						assert.Empty(t, difference(want.records, got.records), form)
					}
				}
			})
		}
	}
}

// The difference function compares two sorted lists and returns up to six lines that are in only
// one of the lists.
func difference(want, got []string) (out []string) {
	for len(out) < 6 && (len(want) > 0 || len(got) > 0) {
		switch {
		case len(got) == 0 || len(want) > 0 && want[0] < got[0]:
			out, want = append(out, "missing: "+want[0]), want[1:]
		case len(want) == 0 || got[0] < want[0]:
			out, got = append(out, "not wanted: "+got[0]), got[1:]
		default:
			want, got = want[1:], got[1:]
		}
	}
	return out
}

// The cases function returns the number of random test cases to run. If the -short flag is set, the
// function returns its first argument. Otherwise, the function returns its second argument.
func cases(quick, full int) int {
	if testing.Short() {
		return quick
	}
	return full
}

func TestStageErrorsHaveTheFieldItsValueAndTheAllowedValues(t *testing.T) {
	for yaml, want := range map[string]string{
		"{stages: {gpu_windows: {}}}":                          `unknown key "stages::gpu_windows": did you mean "stages::gpu_window"?`,
		"{stages: {gpu_window: {windw: 60s}}}":                 `unknown key "stages::gpu_window::windw": did you mean "stages::gpu_window::window"?`,
		"{stages: {gpu_window: {window: 1ms}}}":                "stages: gpu_window: window is 1ms: must be",
		"{stages: {gpu_window: {max_series: 1.5}}}":            "max_series is 1.5: must be a whole number",
		"{stages: {gpu_k8s: {usage: {max_gap: 0s}}}}":          "stages: gpu_k8s: usage: max_gap is 0s: must be",
		"{stages: {gpu_synthesizer: {stages: {gpu_k8s: {}}}}}": "stages: gpu_synthesizer::stages is set: must not be set here",
		"{nvml: {stages: {gpu_window: {}}}}":                   "nvml::stages is set: must not be set here",
		"{nvml: {collection_interval: 1ms}}":                   "nvml: collection_interval is 1ms: must be at least 1s",
	} {
		_, err := load(t, yaml)
		require.ErrorContains(t, err, want, yaml)
	}
}

func TestEmptySectionEnablesAStageWithItsDefaults(t *testing.T) {
	for _, yaml := range []string{"{stages: {gpu_window: {}}}", "{stages: {gpu_window: }}"} {
		cfg, err := load(t, yaml)
		require.NoError(t, err)
		of := cfg.Stages.Get()
		require.True(t, of.Window.HasValue(), yaml)
		assert.Equal(t, gpuwindowprocessor.NewFactory().CreateDefaultConfig(), of.Window.Get())
		assert.False(t, of.K8s.HasValue())
	}
	cfg, err := load(t, "{nvml: {}}")
	require.NoError(t, err)
	assert.True(t, cfg.NVML.Get().ProcessesOnly, "each device has one source")
}

func TestStagesWithLogRecordsRequireALogsPipeline(t *testing.T) {
	f := newFixture(t, []string{"http://localhost:1"}, func(cfg *Config) {
		require.NoError(t, section(t, "stages: {gpu_events: {}}").Unmarshal(cfg))
	})
	err := f.Start(t.Context(), f.host)
	require.ErrorContains(t, err, "stages::gpu_events sends log records, but dcgm")
	require.ErrorContains(t, err, "is not in a logs pipeline: add it to the receivers of a logs pipeline")
}

func TestStartErrorHasTheNameOfTheStage(t *testing.T) {
	f := newFixture(t, []string{"http://localhost:1"}, func(cfg *Config) {
		require.NoError(t, section(t, "stages: {gpu_k8s: {kubernetes: {auth_type: none}}, gpu_window: {storage: file_storage}}").Unmarshal(cfg))
	})
	require.ErrorContains(t, f.Start(t.Context(), f.host), `stages::gpu_window: storage is "file_storage": must be an extension that service::extensions lists`)
}

// With raw: keep, a stage receives the raw metrics as metrics and the samples as frames.
func TestStagesAreNeverReportedAsWiredIncorrectly(t *testing.T) {
	exporter := httptest.NewServer(serve(goodBody))
	t.Cleanup(exporter.Close)
	f := opened(t, []string{exporter.URL}, func(cfg *Config) {
		require.NoError(t, section(t, "stages: {gpu_synthesizer: {raw: keep}, gpu_events: {}, gpu_window: {passthrough: all}}").Unmarshal(cfg))
	})
	f.Outputs().Logs = consumertest.NewNop()
	require.NoError(t, f.startStages(t.Context()))
	for range 5 {
		f.endpoints[0].scrape(t.Context(), t.Context())
	}
	require.NoError(t, f.stages.Shutdown(t.Context()))
	var names []string
	for _, md := range f.sink.AllMetrics() {
		for p := range numbers.All(md) {
			names = append(names, p.Metric.Name())
		}
	}
	assert.Subset(t, names, []string{"DCGM_FI_DEV_GPU_TEMP", "hw.temperature"}, "the stages receive raw metrics and samples")
	assert.Empty(t, f.logs.FilterMessageSnippet("The pipeline is wired incorrectly").All())
}

func TestAReceiverInALogsPipelineWithoutRecordsLogsAWarning(t *testing.T) {
	f := newFixture(t, []string{"http://localhost:1"}, nil)
	f.Outputs().Logs = consumertest.NewNop()
	require.NoError(t, f.Start(t.Context(), f.host))
	assert.Equal(t, 1, f.logs.FilterMessageSnippet("sends no log records").Len())
}
