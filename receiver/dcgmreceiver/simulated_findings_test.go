package dcgmreceiver

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/connector/connectortest"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/otelcol-gpu/otelcol-gpu/connector/gpueventsconnector"
	"github.com/otelcol-gpu/otelcol-gpu/internal/dcgmsim"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/internal/stages"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor"
)

// The simulated type is the exporter of a simulated node.
type simulated struct {
	sim   *dcgmsim.Simulation
	begin time.Time // the time of the first scrape
}

func (s *simulated) RoundTrip(*http.Request) (*http.Response, error) {
	if s.begin.IsZero() {
		s.begin = time.Now()
	}
	body := s.sim.AppendBody(nil, 0, time.Since(s.begin))
	return &http.Response{StatusCode: http.StatusOK, ProtoMajor: 1, ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body))}, nil
}

// findingEvents returns the finding events in the form "start rule device", and the time of each
// event.
func findingEvents(records []plog.Logs) (events []string, at []time.Time) {
	for _, ld := range records {
		for _, rl := range ld.ResourceLogs().All() {
			for _, r := range rl.ScopeLogs().At(0).LogRecords().All() {
				rule := pdatagpu.Text(r.Attributes(), signal.Finding)
				if rule == "" {
					continue
				}
				of := pdatagpu.Text(r.Attributes(), signal.HardwareID)
				if of == "" {
					of = "workload"
				}
				events = append(events, fmt.Sprint(r.EventName(), " ", rule, " ", of))
				at = append(at, r.Timestamp().AsTime())
			}
		}
	}
	return events, at
}

// Each fault lasts from minute 5 to minute 20 of a half-hour simulation.
func TestTheSimulatorHasAScenarioForEachFinding(t *testing.T) {
	const sections = `gpu_k8s: {kubernetes: {auth_type: none}, sources: {pod_resources: {enabled: false}, dra: {enabled: false}}, power: {}}`
	for scenario, c := range map[string]struct {
		rule   string
		of     func([]dcgmsim.Device) []string
		change func(*testing.T, *dcgmReceiver)
	}{
		dcgmsim.ScenarioSpinning:           {"spinning", func([]dcgmsim.Device) []string { return []string{"workload"} }, nil},
		dcgmsim.ScenarioLatchedUtilization: {"latched_utilization", eachDevice, withKubelet},
		dcgmsim.ScenarioSlowDevice:         {"slow_device", func(all []dcgmsim.Device) []string { return eachDevice(all[:1]) }, nil},
		dcgmsim.ScenarioMemoryDegrading:    {"memory_degrading", eachDevice, nil},
		dcgmsim.ScenarioFrozenTelemetry:    {"frozen_telemetry", eachDevice, nil},
	} {
		t.Run(scenario, func(t *testing.T) {
			config := dcgmsim.NewDefaultConfig()
			config.Scenario, config.GPUs = scenario, 4
			sim, err := dcgmsim.New(config)
			require.NoError(t, err)
			_, records := playExporter(t, &simulated{sim: sim}, "stages: {gpu_findings: {}, gpu_events: {}, "+sections+"}", 29*time.Minute, c.change)
			events, at := findingEvents(records)
			var want []string
			for _, of := range c.of(sim.Devices(0)) {
				want = append(want, "gpu.finding.start "+c.rule+" "+of, "gpu.finding.end "+c.rule+" "+of)
			}
			slices.Sort(want)
			got := slices.Clone(events)
			slices.Sort(got)
			assert.Equal(t, want, got)
			require.NotEmpty(t, at)
			assert.Less(t, at[len(at)-1].Sub(at[0]), 20*time.Minute)
		})
	}
}

func eachDevice(all []dcgmsim.Device) (ids []string) {
	for _, d := range all {
		ids = append(ids, d.UUID)
	}
	return ids
}

// withKubelet adds a fake kubelet that reports that the devices are not assigned to any container.
// The fake kubelet is needed because the labels from an exporter cannot prove that a device is
// unassigned.
func withKubelet(t *testing.T, r *dcgmReceiver) {
	t.Helper()
	require.NoError(t, r.stages.Shutdown(t.Context()))
	owner := stages.Owner{ID: r.settings.ID, Telemetry: r.settings.TelemetrySettings, BuildInfo: r.settings.BuildInfo}
	list := pdatagpu.NewStages(r.outputs.Metrics)
	synthesizer := gpusynthesizerprocessor.NewFactory()
	require.NoError(t, stages.AppendProcessor(t.Context(), list, synthesizer, synthesizer.CreateDefaultConfig(), owner, r.outputs.Metrics))
	holders, _, err := gpuk8sprocessor.NewStages(processortest.NewNopSettings(gpuk8sprocessor.NewFactory().Type()), r.cfg.Stages.Get().K8s.Get(), r.outputs.Metrics)
	require.NoError(t, err)
	list.Append("gpu_k8s", holders)
	list.Append("kubelet", pdatagpu.NewStage(pdatagpu.Functions{Process: func(_ context.Context, a *pdatagpu.Arrival) ([]*gpudata.Frame, error) {
		for _, f := range a.Frames {
			for _, d := range f.Devices {
				d.HoldersKnown = true
			}
		}
		return a.Frames, nil
	}}))
	findings, err := gpueventsconnector.NewFindings(connectortest.NewNopSettings(gpueventsconnector.FindingsType), r.cfg.Stages.Get().Findings.Get())
	require.NoError(t, err)
	list.Append("gpu_findings", findings)
	events, err := gpueventsconnector.NewStage(connectortest.NewNopSettings(gpueventsconnector.NewFactory().Type()), r.cfg.Stages.Get().Events.Get(), r.outputs.Logs)
	require.NoError(t, err)
	list.Append("gpu_events", events)
	require.NoError(t, list.Start(t.Context(), componenttest.NewNopHost()))
	r.stages = list
}
