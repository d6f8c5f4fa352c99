package chain

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/connector/connectortest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/otelcol-gpu/otelcol-gpu/connector/gpueventsconnector"
	"github.com/otelcol-gpu/otelcol-gpu/internal/dcgmsim"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/storagetest"
)

// watching is a pipeline of gpu_synthesizer and gpu_events. The storage extensions that the two
// processors use keep their contents across restarts.
type watching struct {
	t       *testing.T
	sim     *dcgmsim.Simulation
	begin   time.Time
	storage [2]*storagetest.Memory
	logs    consumertest.LogsSink
	nodes   int
	// hidden matches the lines to omit from scrapes. If hidden is nil, no lines are omitted.
	hidden *regexp.Regexp
	// If holders is true, events are also sent when holders change.
	holders bool

	synthesizer consumer.Metrics
	stop        func()
}

func watch(t *testing.T, scenario string, changes ...func(*watching)) *watching {
	t.Helper()
	cfg := dcgmsim.NewDefaultConfig()
	cfg.Scenario, cfg.GPUs, cfg.Fields = scenario, 1, dcgmsim.FieldsAll
	if scenario == dcgmsim.ScenarioVendors {
		cfg.Nodes, cfg.GPUs = 4, 8
	}
	sim, err := dcgmsim.New(cfg)
	require.NoError(t, err)
	w := &watching{t: t, sim: sim, begin: time.Now(), storage: [2]*storagetest.Memory{storagetest.NewMemory(nil), storagetest.NewMemory(nil)}, nodes: cfg.Nodes}
	for _, change := range changes {
		change(w)
	}
	w.start()
	return w
}

func (w *watching) start() {
	f := gpueventsconnector.NewFactory()
	cfg := f.CreateDefaultConfig().(*gpueventsconnector.Config)
	cfg.Holders = w.holders
	for id := range w.storage[0].GetExtensions() {
		cfg.Storage = &id
	}
	events, err := f.CreateMetricsToLogs(w.t.Context(), connectortest.NewNopSettings(f.Type()), cfg, &w.logs)
	require.NoError(w.t, err)
	p := gpusynthesizerprocessor.NewFactory()
	of := p.CreateDefaultConfig().(*gpusynthesizerprocessor.Config)
	for id := range w.storage[1].GetExtensions() {
		of.Storage = &id
	}
	synthesizer, err := p.CreateMetrics(w.t.Context(), processortest.NewNopSettings(p.Type()), of, events)
	require.NoError(w.t, err)
	parts := []component.Component{events, synthesizer}
	for i, part := range parts {
		require.NoError(w.t, part.Start(w.t.Context(), w.storage[i]))
	}
	w.synthesizer = synthesizer
	w.stop = func() {
		for i := range parts {
			require.NoError(w.t, parts[len(parts)-1-i].Shutdown(w.t.Context()))
		}
	}
}

// interval is the scrape interval.
const interval = 5 * time.Second

// run scrapes all nodes once per interval for the given duration.
func (w *watching) run(length time.Duration) {
	for end := time.Now().Add(length); time.Now().Before(end); {
		time.Sleep(interval)
		batch := pmetric.NewMetrics()
		for node := range w.nodes {
			md := scraped(w.t, w.visible(w.sim.AppendBody(nil, node, time.Since(w.begin))), time.Now())
			md.ResourceMetrics().At(0).Resource().Attributes().PutStr(signal.K8sNodeName, w.sim.Devices(node)[0].Host)
			md.ResourceMetrics().MoveAndAppendTo(batch.ResourceMetrics())
		}
		require.NoError(w.t, w.synthesizer.ConsumeMetrics(w.t.Context(), batch))
	}
}

// visible returns the lines of a scrape that do not match w.hidden.
func (w *watching) visible(body []byte) (out []byte) {
	for line := range bytes.Lines(body) {
		if w.hidden == nil || !w.hidden.Match(line) {
			out = append(out, line...)
		}
	}
	return out
}

// eventCounts returns how many times each event was sent. The keys consist of the event name and,
// if present, the error type or the reason for throttling.
func (w *watching) eventCounts() map[string]int64 {
	out := map[string]int64{}
	for _, ld := range w.logs.AllLogs() {
		eachRecord(ld, func(r plog.LogRecord) {
			n := int64(1)
			if count, ok := r.Attributes().Get("gpu.event.count"); ok {
				n = count.Int()
			}
			name := r.EventName()
			for _, own := range []string{signal.ErrorType, signal.ClockViolation} {
				if v := pdatagpu.Text(r.Attributes(), own); v != "" {
					name += " " + v
				}
			}
			out[name] += n
		})
	}
	return out
}

func eachRecord(ld plog.Logs, visit func(plog.LogRecord)) {
	for _, rl := range ld.ResourceLogs().All() {
		for _, sl := range rl.ScopeLogs().All() {
			for _, r := range sl.LogRecords().All() {
				visit(r)
			}
		}
	}
}

// Every simulated XID error is sent exactly once, even across clean restarts.
func TestEveryXIDOfABurstIsSentOnceAcrossRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, dcgmsim.ScenarioXIDBurst)
		w.run(interval)
		first := time.Since(w.begin)
		for range 10 {
			w.run(30 * time.Second)
			w.stop()
			w.start()
		}
		w.run(3 * time.Minute)
		end := time.Since(w.begin)
		time.Sleep(2 * time.Minute) // wait for events that gpu_events delays in order to merge them
		w.stop()
		want := map[string]int64{}
		d := w.sim.Devices(0)[0]
		for _, x := range w.sim.XIDs(d, w.sim.Sampled(first), w.sim.Sampled(end)) {
			want[fmt.Sprintf("gpu.xid xid_%d", x.Code)]++
		}
		require.Len(t, want, 6)
		got := w.eventCounts()
		for name, n := range want {
			assert.Equal(t, n, got[name], name)
		}
		assert.Positive(t, got["gpu.status.change"], "a double-bit error recommends a reset until a reset occurs")
	})
}

// Power capping that fluctuates around the threshold must not cause an event storm: start and end
// events alternate, and each occurs at most once per interval.
func TestThrottlingAroundAThresholdCausesNoEventStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, dcgmsim.ScenarioPowerCapped)
		const minutes = 30
		w.run(minutes * time.Minute)
		w.stop()
		got := w.eventCounts()
		starts, ends := got["gpu.throttle.start power"], got["gpu.throttle.end power"]
		require.Positive(t, starts, "%v", got)
		assert.LessOrEqual(t, starts, int64(minutes))
		assert.Contains(t, []int64{starts, starts - 1}, ends)
	})
}

// When an exporter restarts, its counters restart at zero. gpu_events must not report a restart as
// an error or a lost device.
func TestARestartOfTheExporterCausesNoEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, dcgmsim.ScenarioRestart)
		w.run(10 * time.Minute)
		w.stop()
		for name := range w.eventCounts() {
			assert.Contains(t, name, "gpu.throttle.", "power capping is the only event of the story")
		}
	})
}

// For each vendor's devices, gpu_events sends the events that the vendor's exporter supports. AMD's
// residency metrics cause throttle events, and a device without samples is reported as lost.
func TestEventsAreSentForEveryVendor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, dcgmsim.ScenarioVendors)
		w.run(5 * time.Minute)
		w.hidden = regexp.MustCompile(`accelerator_id="8936909905604911872-(412|2)"`) // the two IDs of one chip
		w.run(3 * time.Minute)
		w.hidden = nil
		w.run(time.Minute)
		w.stop()
		told := map[string]bool{} // without NVIDIA's devices
		for _, ld := range w.logs.AllLogs() {
			eachRecord(ld, func(r plog.LogRecord) {
				if of := pdatagpu.Text(r.Attributes(), signal.HardwareVendor); of != signal.VendorNVIDIA {
					told[strings.TrimSpace(of+" "+pdatagpu.Text(r.Attributes(), signal.HardwareID)+" "+r.EventName()+" "+pdatagpu.Text(r.Attributes(), signal.ClockViolation))] = true
				}
			})
		}
		amd := w.sim.Devices(1)
		capped, hot := "AMD "+deviceID(amd[0]), "AMD "+deviceID(amd[1])
		tpu := "Google " + deviceID(w.sim.Devices(2)[2])
		assert.Equal(t, map[string]bool{
			capped + " gpu.throttle.start power": true,
			hot + " gpu.throttle.start thermal":  true, hot + " gpu.throttle.start processor_hot": true,
			tpu + " gpu.device.lost": true, tpu + " gpu.device.found": true,
		}, told)
	})
}
