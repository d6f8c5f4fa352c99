package gpusynthesizerprocessor

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/otelcol-gpu/otelcol-gpu/internal/dcgmsim"
	"github.com/otelcol-gpu/otelcol-gpu/internal/diagnose"
	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/expositiontest"
)

// deviceSignal is one signal of one device.
type deviceSignal struct {
	id, signal string
}

// gpu.signal.available is 1 for every signal that the processor emits for the same scrape. For all
// other signals, gpu.signal.available is 0 and has the reason that gpudoctor reports.
func TestSignalAvailableMatchesTheEmittedSignals(t *testing.T) {
	bodies := map[string]string{}
	for _, style := range dcgmsim.Styles() {
		for _, fields := range []dcgmsim.FieldSet{dcgmsim.FieldsDefault, dcgmsim.FieldsAll} {
			for _, scenario := range dcgmsim.Scenarios() {
				config := dcgmsim.NewDefaultConfig()
				config.Style, config.Fields, config.Scenario = style, fields, scenario
				if scenario != dcgmsim.ScenarioMixed {
					config.GPUs = 3
				}
				if config.Validate() != nil {
					continue // this exporter style does not support this scenario
				}
				simulation, err := dcgmsim.New(config)
				require.NoError(t, err)
				bodies["simulated "+string(style)+" "+string(fields)+" "+scenario] = string(simulation.AppendBody(nil, 0, 47*time.Second))
			}
		}
	}
	golden, err := filepath.Glob(filepath.Join("testdata", "golden", "*", "scrapes.prom"))
	require.NoError(t, err)
	for _, file := range append(expositiontest.DCGMRecordings(t), golden...) {
		if strings.Contains(file, "one_uuid_on_two_nodes") {
			continue // a gpudoctor report covers only one exporter
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var body strings.Builder
		scrapes := 0
		for line := range strings.SplitSeq(string(text), "\n") {
			if strings.HasPrefix(line, "@ ") {
				if scrapes++; scrapes > 1 {
					break // only the first scrape is used
				}
			}
			if strings.HasPrefix(line, "DCGM") && strings.Contains(line, "} ") {
				body.WriteString(line + "\n")
			}
		}
		bodies[filepath.Base(filepath.Dir(file))+"/"+filepath.Base(file)] = body.String()
	}
	for name, body := range bodies {
		t.Run(name, func(t *testing.T) { checkDiagnosis(t, parse(t, body)) })
	}
}

func checkDiagnosis(t *testing.T, rows []row) {
	t.Helper()
	md := diagnosed(t, rows)
	available, made := map[deviceSignal]string{}, map[deviceSignal]bool{}
	for _, rm := range md.ResourceMetrics().All() {
		for _, m := range rm.ScopeMetrics().At(0).Metrics().All() {
			contract, ours := signal.Lookup(m.Name())
			if !ours || contract == signal.GPUExporterUp {
				continue
			}
			for _, dp := range points.Of(m).All() {
				id := text(dp.Attributes(), signal.HardwareID)
				if contract == signal.GPUSignalAvailable {
					key := deviceSignal{id, text(dp.Attributes(), signal.Signal)}
					_, twice := available[key]
					require.False(t, twice, "%v has two points", key)
					available[key] = text(dp.Attributes(), signal.Reason)
					assert.Equal(t, available[key] == "", dp.IntValue() == 1, "%v must be 1 exactly if it has no reason", key)
					continue
				}
				made[deviceSignal{id, nameOf(contract, dp)}] = true
			}
		}
	}
	if len(made)+len(available) == 0 {
		return // the scrape has no known GPU
	}
	for key, reason := range available {
		assert.Equal(t, made[key], reason == "", "%v %q", key, reason)
	}
	for key := range made {
		if _, diagnosed := available[key]; !diagnosed {
			assert.Equal(t, "hw.errors{xid}", key.signal, "%v is emitted but has no gpu.signal.available point", key)
		}
	}
	reported := doctor(rows)
	assert.Len(t, reported, len(available))
	for key, reason := range reported {
		assert.Equal(t, reason, available[key], "%v", key)
	}
}

// The diagnosed function returns the output for the second of two identical scrapes.
func diagnosed(t *testing.T, rows []row) pmetric.Metrics {
	t.Helper()
	dir := t.TempDir()
	config := "metrics: {gpu.signal.available: {enabled: true}}"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(config), 0o600))
	p, sink := newTestProcessor(t, dir, processortest.NewNopSettings(metadata.Type))
	out := pmetric.NewMetrics()
	for _, seconds := range []int64{10, 20} {
		sink.Reset()
		// Send the metrics in the same way as the dcgm receiver, because gpudoctor reads the text
		// that the dcgm receiver scrapes.
		md := pmetric.NewMetrics()
		up(md, seconds, urlA, 1)
		onResources(scrape{seconds, rows}).ResourceMetrics().MoveAndAppendTo(md.ResourceMetrics())
		require.NoError(t, p.ConsumeMetrics(context.Background(), md))
		out = sink.AllMetrics()[0]
	}
	return out
}

// nameOf returns the name of the signal to which a point belongs.
func nameOf(m *signal.Metric, dp pmetric.NumberDataPoint) string {
	switch {
	case len(m.Attributes) == 0, m == signal.GPUClockEventActive, m == signal.HwStatus, m == signal.GPURecoveryAction:
		return m.Name // one signal produces all points of the metric
	}
	part := text(dp.Attributes(), m.Attributes[0])
	if m == signal.HwErrors && (part == "" || strings.HasPrefix(part, signal.ErrorTypeXIDPrefix)) {
		part = "xid"
	}
	return m.Name + "{" + part + "}"
}

// doctor returns what gpudoctor reports about the given rows.
func doctor(rows []row) map[deviceSignal]string {
	var e diagnose.Exposition
	for _, r := range rows {
		var labels []diagnose.Label
		for _, l := range r.labels {
			labels = append(labels, diagnose.Label{Name: l.Name, Value: l.Value})
		}
		e.Add(r.name, labels, r.value)
	}
	report := e.Report()
	kinds := map[string][]string{}
	for _, d := range report.Devices {
		kinds[d.Kind] = append(kinds[d.Kind], d.ID)
	}
	out := map[deviceSignal]string{}
	for _, s := range report.Signals {
		for _, k := range s.Kinds {
			if k.Available > 0 {
				for _, id := range kinds[k.Kind] {
					out[deviceSignal{id, s.Signal}] = ""
				}
			}
		}
		for _, m := range s.Missing {
			for _, id := range m.Devices {
				out[deviceSignal{id, s.Signal}] = m.Reason
			}
		}
	}
	return out
}

// Like gpudoctor, the processor uses the model name to determine reasons that depend on the GPU
// model.
func TestTheReasonIsHardwareIfTheModelDoesNotSupportTheSignal(t *testing.T) {
	const (
		throughput  = "gpu.nvlink.throughput{transmit}"
		utilization = "gpu.pcie.utilization{transmit}"
		dram        = "gpu.dram.active"
		power       = "hw.power"
		xid         = "hw.errors{xid}"
		crc         = "hw.errors{nvlink_crc}"
		recovery    = "hw.errors{nvlink_recovery}"
	)
	for model, want := range map[string]map[string]string{
		"NVIDIA H100 80GB HBM3":          {throughput: "not_in_csv", dram: "not_in_csv", utilization: "", power: "not_in_csv", xid: "no_event", crc: "not_in_csv"},
		"NVIDIA B200":                    {throughput: "not_in_csv", crc: "hardware", recovery: "not_in_csv"},
		"NVIDIA A10":                     {throughput: "hardware", dram: "not_in_csv", utilization: "unknown_scale"},
		"NVIDIA A16":                     {throughput: "hardware"},
		"NVIDIA A2":                      {throughput: "hardware"},
		"NVIDIA L40":                     {throughput: "hardware", utilization: ""},
		"NVIDIA RTX 6000 Ada Generation": {throughput: "hardware"},
		"NVIDIA RTX PRO 6000 Blackwell Server Edition": {throughput: "hardware", dram: "not_in_csv"},
		"NVIDIA GeForce RTX 4090":                      {throughput: "hardware", dram: "hardware"},
		"NVIDIA GeForce RTX 3090":                      {throughput: "hardware", dram: "hardware"},
		"NVIDIA A40":                                   {throughput: "hardware"},
		"GRID A100-10C":                                {throughput: "hardware", dram: "hardware", utilization: "unknown_scale", power: "hardware", xid: "no_event"},
		"NVIDIA H100-20C":                              {throughput: "hardware", dram: "hardware", utilization: "unknown_scale", power: "hardware", xid: "no_event"},
	} {
		t.Run(model, func(t *testing.T) {
			labels := `{UUID="GPU-1",pci_bus_id="0",device="nvidia0",modelName="` + model + `",Hostname="n"} `
			rows := parse(t, "DCGM_FI_DEV_GPU_UTIL"+labels+"30\nDCGM_FI_PROF_PCIE_TX_BYTES"+labels+"5\n")
			checkDiagnosis(t, rows)
			reported := doctor(rows)
			for signal, reason := range want {
				assert.Equal(t, reason, reported[deviceSignal{"GPU-1", signal}], signal)
			}
		})
	}
}

func TestSignalAvailableIsDisabledByDefault(t *testing.T) {
	assert.NotContains(t, synthesize(t, `DCGM_FI_DEV_GPU_TEMP{UUID="GPU-1"} 30`), signal.GPUSignalAvailable.Name)
}
