package dcgmreceiver

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/receiver/receivertest"

	"github.com/otelcol-gpu/otelcol-gpu/internal/dcgmsim"
	numbers "github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/receiverstages"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/dcgmreceiver/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/cpumeter"
)

// The hung type simulates the exporter on a node with two GPUs that are assigned to one pod. The
// pod runs a training job that works for 10 scrapes, hangs, and then continues.
type hung struct{ scrapes int }

func (h *hung) RoundTrip(*http.Request) (*http.Response, error) {
	h.scrapes++
	var body bytes.Buffer
	for gpu := range 2 {
		util, tensor, watts := 1.0, 0.4, 620.0+float64(gpu)
		if h.scrapes > 10 && h.scrapes <= 40 {
			util, tensor, watts = 0.98, 0, 70+float64(gpu)*20
		}
		for name, v := range map[string]float64{
			"DCGM_FI_PROF_GR_ENGINE_ACTIVE": util, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": tensor, "DCGM_FI_PROF_DRAM_ACTIVE": tensor / 2,
			"DCGM_FI_PROF_PCIE_TX_BYTES": 1000, "DCGM_FI_PROF_PCIE_RX_BYTES": 1000, "DCGM_FI_DEV_POWER_USAGE": watts,
			"DCGM_FI_DEV_ENFORCED_POWER_LIMIT": 700, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": 1e6 * float64(h.scrapes),
		} {
			fmt.Fprintf(&body, "%s{gpu=\"%d\",UUID=\"GPU-%d\",modelName=\"NVIDIA H100 80GB HBM3\",Hostname=\"n1\",namespace=\"team\",pod=\"train-0\",container=\"main\"} %v\n", name, gpu, gpu, v)
		}
	}
	return &http.Response{StatusCode: http.StatusOK, ProtoMajor: 1, ContentLength: int64(body.Len()), Body: io.NopCloser(&body)}, nil
}

// playHung runs a receiver that scrapes a hung exporter and has the given stages, and returns the
// receiver's output.
func playHung(t *testing.T, stages string) ([]pmetric.Metrics, []plog.Logs) {
	t.Helper()
	return playExporter(t, &hung{}, stages, 15*time.Minute, nil)
}

// playExporter runs a receiver that scrapes the given exporter and has the given stages, and
// returns the receiver's output. If the change argument is not nil, playExporter calls it before
// the receiver starts to scrape.
func playExporter(t *testing.T, exporter http.RoundTripper, stages string, length time.Duration, change func(*testing.T, *dcgmReceiver)) (points []pmetric.Metrics, records []plog.Logs) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg := createDefaultConfig().(*Config)
		jitter := time.Duration(0)
		cfg.Endpoints, cfg.StartJitter, cfg.CollectionInterval = []URL{"http://exporter:9400/metrics"}, &jitter, scrapeEvery
		require.NoError(t, section(t, stages).Unmarshal(cfg))
		require.NoError(t, cfg.Validate())
		metrics, logs := &consumertest.MetricsSink{}, &consumertest.LogsSink{}
		set := receivertest.NewNopSettings(metadata.Type)
		set.ID = component.NewID(metadata.Type)
		r, err := newReceiver(set, cfg, nil)
		require.NoError(t, err)
		r.outputs = receiverstages.Outputs{Metrics: metrics, Logs: logs}
		require.NoError(t, r.open(t.Context(), componenttest.NewNopHost()))
		r.fetcher.client = &http.Client{Transport: exporter}
		require.NoError(t, r.startStages(t.Context()))
		if change != nil {
			change(t, r)
		}
		r.run(t.Context())
		time.Sleep(length)
		require.NoError(t, r.Shutdown(t.Context()))
		points, records = metrics.AllMetrics(), logs.AllLogs()
	})
	return points, records
}

const findingSections = `gpu_k8s: {kubernetes: {auth_type: none}, sources: {pod_resources: {enabled: false}, dra: {enabled: false}}}, gpu_events: {}`

func TestFindingHasARecordWithTheHolderAndASample(t *testing.T) {
	metrics, logs := playHung(t, "stages: {gpu_findings: {}, "+findingSections+"}")
	var records []string
	for _, ld := range logs {
		for _, rl := range ld.ResourceLogs().All() {
			r := rl.ScopeLogs().At(0).LogRecords().At(0)
			text := func(m pcommon.Map, key string) string {
				v, ok := m.Get(key)
				if !ok {
					return "-"
				}
				return v.AsString()
			}
			records = append(records, fmt.Sprint(r.EventName(), " ", text(r.Attributes(), "gpu.finding"), " ", r.SeverityText(), " ",
				text(rl.Resource().Attributes(), "k8s.pod.name"), " ", text(r.Attributes(), "gpu.finding.devices")))
		}
	}
	assert.Equal(t, []string{
		`gpu.finding.start spinning WARN train-0 ["GPU-0","GPU-1"]`,
		"gpu.finding.end spinning WARN train-0 -",
	}, records)
	values := map[string]int{}
	for _, md := range metrics {
		for p := range numbers.All(md) {
			if rule, ok := p.Attributes().Get("gpu.finding"); ok {
				assert.Equal(t, "gpu.finding", p.Metric.Name())
				assert.Equal(t, "{state}", p.Metric.Unit())
				values[fmt.Sprint(rule.AsString(), " ", numbers.Value(p.NumberDataPoint))]++
			}
		}
	}
	assert.Equal(t, 2*14, values["spinning 1"], "from 20 scrapes after the start of the hang to four after its end")
	assert.Positive(t, values["spinning 0"])
	assert.Zero(t, values["slow_device 0"], "two devices are not enough")
}

// The worn type simulates the exporter for a GPU that failed to remap a memory row. Later, another
// row remap is pending.
type worn struct{ scrapes int }

func (w *worn) RoundTrip(*http.Request) (*http.Response, error) {
	w.scrapes++
	pending := 0
	if w.scrapes > 10 {
		pending = 1
	}
	const labels = `{gpu="0",UUID="GPU-0",modelName="NVIDIA H100 80GB HBM3",Hostname="n1"}`
	body := fmt.Sprintf("DCGM_FI_DEV_ROW_REMAP_FAILURE%s 1\nDCGM_FI_DEV_ROW_REMAP_PENDING%[1]s %d\n", labels, pending)
	return &http.Response{StatusCode: http.StatusOK, ProtoMajor: 1, ContentLength: int64(len(body)), Body: io.NopCloser(strings.NewReader(body))}, nil
}

// During the entire test, hw.status reports that the board has failed.
func TestPendingRowRemapIsFoundOnAFailedBoard(t *testing.T) {
	_, logs := playExporter(t, &worn{}, "stages: {gpu_findings: {}, "+findingSections+"}", 10*time.Minute, nil)
	var records []string
	for _, ld := range logs {
		for _, rl := range ld.ResourceLogs().All() {
			for _, r := range rl.ScopeLogs().At(0).LogRecords().All() {
				finding, _ := r.Attributes().Get("gpu.finding")
				records = append(records, r.EventName()+" "+finding.AsString())
			}
		}
	}
	assert.Equal(t, []string{"gpu.finding.start memory_degrading"}, records)
}

func TestFindingsRequireTheirSection(t *testing.T) {
	metrics, logs := playHung(t, "stages: {"+findingSections+"}")
	assert.Empty(t, logs)
	for _, md := range metrics {
		for p := range numbers.All(md) {
			assert.NotEqual(t, "gpu.finding", p.Metric.Name())
		}
	}
}

func TestFindingsErrorsHaveTheFieldItsValueAndTheAllowedValues(t *testing.T) {
	for yaml, want := range map[string]string{
		"{stages: {gpu_findings: {spinning: {for: 1s}}}}":         "stages: gpu_findings: spinning::for is 1s: must be 1m to 24h",
		"{stages: {gpu_findings: {spining: {for: 5m}}}}":          `unknown key "stages::gpu_findings::spining": did you mean "stages::gpu_findings::spinning"?`,
		"{stages: {gpu_findings: {slow_device: {clock: 2}}}}":     "slow_device::clock is 2: must be above 0 and at most 1",
		"{stages: {gpu_findings: {slow_device: {devices: 4.5}}}}": "devices is 4.5: must be a whole number",
		"{stages: {gpu_events: {findings: {}}}}":                  "stages: gpu_events::findings is set: must not be set here; put gpu_findings next to gpu_events",
	} {
		_, err := load(t, yaml)
		require.ErrorContains(t, err, want, yaml)
	}
}

// BenchmarkStages measures how long it takes to scrape eight GPUs and to process the samples in the
// stages, with and without gpu_findings. The ratio of the two results shows the cost of
// gpu_findings. The benchmark does not include gpu_events, because gpu_events keeps one minute of
// samples, and this benchmark scrapes thousands of times per minute.
func BenchmarkStages(b *testing.B) {
	for name, findings := range map[string]string{"without findings": "", "with findings": "gpu_findings: {}, "} {
		b.Run(name, func(b *testing.B) {
			cfg := createDefaultConfig().(*Config)
			cfg.Endpoints = []URL{"http://exporter:9400/metrics"}
			text := "stages: {" + findings + inBraces(sections) + "}"
			retrieved, err := confmap.NewRetrievedFromYAML([]byte(text))
			require.NoError(b, err)
			conf, err := retrieved.AsConf()
			require.NoError(b, err)
			require.NoError(b, conf.Unmarshal(cfg))
			set := receivertest.NewNopSettings(metadata.Type)
			set.ID = component.NewID(metadata.Type)
			r, err := newReceiver(set, cfg, nil)
			require.NoError(b, err)
			r.outputs = receiverstages.Outputs{Metrics: consumertest.NewNop(), Logs: consumertest.NewNop()}
			sim := dcgmsim.NewDefaultConfig()
			sim.Fields = dcgmsim.FieldsAll
			simulation, err := dcgmsim.New(sim)
			require.NoError(b, err)
			require.NoError(b, r.open(b.Context(), componenttest.NewNopHost()))
			answer := &replay{}
			for n := range 40 {
				answer.bodies = append(answer.bodies, simulation.AppendBody(nil, 0, time.Duration(n)*scrapeEvery))
			}
			r.fetcher.client = &http.Client{Transport: answer}
			require.NoError(b, r.startStages(b.Context()))
			var cpu cpumeter.Meter
			cpu.Start(b)
			for b.Loop() {
				r.endpoints[0].scrape(b.Context(), b.Context())
			}
			cpu.Stop(b)
			cpu.Report(b, 1)
			require.NoError(b, r.stages.Shutdown(b.Context()))
		})
	}
}

// replay is a simulated exporter that returns the same responses again and again.
type replay struct {
	bodies [][]byte
	n      int
}

func (r *replay) RoundTrip(*http.Request) (*http.Response, error) {
	r.n++
	body := r.bodies[r.n%len(r.bodies)]
	return &http.Response{StatusCode: http.StatusOK, ProtoMajor: 1, ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body))}, nil
}
