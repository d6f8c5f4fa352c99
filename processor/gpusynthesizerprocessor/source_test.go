package gpusynthesizerprocessor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor/internal/metadata"
)

const (
	urlA = "http://10.0.0.1:9400/metrics"
	urlB = "http://10.0.0.2:9400/metrics"
)

// The exposed function returns the exposition text at the given second for an exporter with one
// GPU. The exporter reads values from the driver every 30 s and repeats them until the next read.
// Each read takes place after a full or half minute, and the lag parameter is the delay in seconds.
// The GPU is throttled for 30% of the time, and XID 31 occurs at 400 s.
func exposed(second, lag int64) string {
	read := (second-lag)/30*30 + lag
	code := 0
	if read >= 400 {
		code = 31
	}
	return fmt.Sprintf(`# TYPE DCGM_FI_DEV_POWER_VIOLATION counter
DCGM_FI_DEV_POWER_VIOLATION{UUID="GPU-1",Hostname="n"} %d
# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter
DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{UUID="GPU-1",Hostname="n"} %d
DCGM_FI_DEV_GPU_TEMP{UUID="GPU-1",Hostname="n"} %d
DCGM_FI_DEV_XID_ERRORS{UUID="GPU-1",Hostname="n"} %d`, 300_000_000*read, 200_000*read, 30+read%7, code)
}

// delivery is one batch from a source and the second at which it is sent.
type delivery struct {
	second int64
	batch  pmetric.Metrics
}

// The scraped function returns the batch that the dcgm receiver sends after a successful scrape.
func scraped(t *testing.T, second int64, url, text string) delivery {
	t.Helper()
	md := pmetric.NewMetrics()
	up(md, second, url, 1)
	onResources(scrape{second, parse(t, text)}).ResourceMetrics().MoveAndAppendTo(md.ResourceMetrics())
	return delivery{second, md}
}

// The up function adds a gpu.exporter.up point for an endpoint. The value is 1 if the scrape
// succeeded, and 0 otherwise.
func up(md pmetric.Metrics, second int64, url string, value int64) pmetric.NumberDataPoint {
	m := md.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics().AppendEmpty()
	m.SetName(signal.GPUExporterUp.Name)
	dp := m.SetEmptyGauge().DataPoints().AppendEmpty()
	dp.Attributes().PutStr(signal.URLFull, url)
	dp.SetTimestamp(pcommon.Timestamp(second * 1e9))
	dp.SetIntValue(value)
	return dp
}

func failed(second int64, url string) delivery {
	md := pmetric.NewMetrics()
	up(md, second, url, 0)
	return delivery{second, md}
}

// The gone function returns the batch that the dcgm receiver sends for an endpoint that is no
// longer scraped.
func gone(second int64, url string) delivery {
	md := pmetric.NewMetrics()
	up(md, second, url, 0).SetFlags(pmetric.DefaultDataPointFlags.WithNoRecordedValue(true))
	return delivery{second, md}
}

// scrapesOf returns scrapes of an endpoint, with one scrape every 15 s. The from and until
// parameters are the seconds at which the scrapes start and end.
func scrapesOf(t *testing.T, url string, from, until, lag int64) []delivery {
	t.Helper()
	var out []delivery
	for s := from; s < until; s += 15 {
		out = append(out, scraped(t, s, url, exposed(s, lag)))
	}
	return out
}

// textsOf returns scrapes of an endpoint that always exposes the same text, with one scrape every
// 15 s.
func textsOf(t *testing.T, url string, from int64, text string) []delivery {
	t.Helper()
	var out []delivery
	for s := from; s < 300; s += 15 {
		out = append(out, scraped(t, s, url, text))
	}
	return out
}

// byPrometheus returns the same scrapes as scrapesOf, but in batches from the prometheus receiver.
func byPrometheus(t *testing.T, from, until, lag int64) []delivery {
	t.Helper()
	var out []delivery
	for s := from; s < until; s += 15 {
		out = append(out, delivery{s, onPoints(scrape{s, parse(t, exposed(s, lag))})})
	}
	return out
}

// byNVML returns batches from the nvml receiver, whose values are always current.
func byNVML(from, until int64) []delivery {
	var out []delivery
	for s := from; s < until; s += 15 {
		md := pmetric.NewMetrics()
		rm := md.ResourceMetrics().AppendEmpty()
		rm.Resource().Attributes().PutStr(signal.HostName, "n")
		rm.Resource().Attributes().PutStr(signal.K8sNodeName, "n")
		sm := rm.ScopeMetrics().AppendEmpty()
		sm.Scope().SetName(signal.ScopeNVML)
		for _, p := range []struct {
			metric *signal.Metric
			value  float64
		}{{signal.HwEnergy, 200 * float64(s)}, {signal.HwTemperature, 99}, {signal.ProcessGPUMemoryUsage, 5}, {signal.GPUProcessCount, 1}} {
			m := sm.Metrics().AppendEmpty()
			m.SetName(p.metric.Name)
			dps := m.SetEmptyGauge().DataPoints()
			if p.metric.Kind == signal.Counter {
				sum := m.SetEmptySum()
				sum.SetIsMonotonic(true)
				sum.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
				dps = sum.DataPoints()
			}
			dp := dps.AppendEmpty()
			dp.SetTimestamp(pcommon.Timestamp(s * 1e9))
			dp.SetDoubleValue(p.value)
			dp.Attributes().PutStr(signal.HardwareID, "GPU-1")
		}
		out = append(out, delivery{s, md})
	}
	return out
}

// pipeline is a processor with its log and self-metrics.
type pipeline struct {
	t         *testing.T
	processor processor.Metrics
	sink      *consumertest.MetricsSink
	logs      *observer.ObservedLogs
	telemetry *componenttest.Telemetry
}

func newPipeline(t *testing.T) *pipeline {
	t.Helper()
	core, logs := observer.New(zapcore.InfoLevel)
	tel := componenttest.NewTelemetry()
	t.Cleanup(func() { require.NoError(t, tel.Shutdown(context.Background())) })
	set := processortest.NewNopSettings(metadata.Type)
	set.TelemetrySettings = tel.NewTelemetrySettings()
	set.Logger = zap.New(core)
	p, sink := newTestProcessor(t, "", set)
	return &pipeline{t, p, sink, logs, tel}
}

// play sends the batches in chronological order.
func (p *pipeline) play(sources ...[]delivery) {
	all := slices.Concat(sources...)
	slices.SortStableFunc(all, func(a, b delivery) int { return int(a.second - b.second) })
	for _, d := range all {
		copied := pmetric.NewMetrics()
		d.batch.CopyTo(copied)
		require.NoError(p.t, p.processor.ConsumeMetrics(context.Background(), copied))
	}
}

// The lines method returns the samples of a metric as text, except samples before the given second.
// If the metric name is empty, the method returns the samples of all metrics.
func (p *pipeline) lines(metric string, from int64) []string {
	var out []string
	for _, md := range p.sink.AllMetrics() {
		for line := range strings.Lines(render(md)) {
			var second int64
			_, err := fmt.Sscanf(strings.TrimSpace(line), "%ds", &second)
			if err != nil || second < from || strings.Contains(line, signal.GPUExporterUp.Name) || !strings.Contains(line, " "+metric) {
				continue
			}
			out = append(out, line)
		}
	}
	return out
}

// The seconds method returns the sample times of the temperature, in seconds.
func (p *pipeline) seconds() []int64 {
	var out []int64
	for _, md := range p.sink.AllMetrics() {
		for dp := range points.All(md) {
			if dp.Metric.Name() == signal.HwTemperature.Name {
				out = append(out, int64(dp.Timestamp())/1e9)
			}
		}
	}
	return out
}

// neverFalls checks that a counter never decreases in the output.
func (p *pipeline) neverFalls(metric string) {
	p.t.Helper()
	last := 0.0
	for _, md := range p.sink.AllMetrics() {
		for dp := range points.All(md) {
			if dp.Metric.Name() == metric {
				assert.GreaterOrEqual(p.t, points.Value(dp.NumberDataPoint), last, "%s at %d s", metric, dp.Timestamp()/1e9)
				last = points.Value(dp.NumberDataPoint)
			}
		}
	}
}

func (p *pipeline) dropped() int64 { return dropped(p.telemetry)["second_source"] }

func TestOnlyOneOfTwoExportersOfAGPUIsKept(t *testing.T) {
	const settled = 60
	alone := newPipeline(t)
	alone.play(scrapesOf(t, urlA, 0+3, 900, 0))
	for name, offsets := range map[string][2]int64{
		"the kept exporter first":  {3, 10},
		"the other exporter first": {18, 10},
		"both at the same times":   {3, 3},
	} {
		t.Run(name, func(t *testing.T) {
			both := newPipeline(t)
			both.play(scrapesOf(t, urlB, offsets[1], 900, 20), scrapesOf(t, urlA, offsets[0], 900, 0))
			assert.Equal(t, without(alone.lines("", settled), "hw.errors"), without(both.lines("", settled), "hw.errors"),
				"after settling every sample is the kept exporter's, to the last digit")
			both.neverFalls(signal.HwEnergy.Name)
			both.neverFalls(signal.GPUClockThrottleTime.Name)
			xid := both.lines("hw.errors", 880)
			require.Len(t, xid, 1)
			assert.Contains(t, xid[0], "{error.type=xid_31, gpu.event.source=last_code, hw.id=GPU-1} = 1 {error}", "the XID is counted once")
			assert.Greater(t, both.dropped(), int64(4*50))
			require.Equal(t, 1, both.logs.Len(), "the conflict is logged once")
			said := both.logs.All()[0]
			assert.Equal(t, zapcore.WarnLevel, said.Level)
			assert.Subset(t, said.ContextMap(), map[string]any{"hw.id": "GPU-1", "k8s.node.name": "n"})
			assert.ElementsMatch(t, []any{urlA, urlB}, []any{said.ContextMap()["kept"], said.ContextMap()["dropped"]})
		})
	}
}

// A Prometheus federation endpoint returns the metrics of several exporters in one scrape.
func TestOnlyOneOfTwoExportersInABatchIsKept(t *testing.T) {
	exporters := func(lags map[string]int64) (out []delivery) {
		for s := int64(3); s < 600; s += 15 {
			md := pmetric.NewMetrics()
			for _, instance := range slices.Sorted(maps.Keys(lags)) {
				one := onResources(scrape{s, parse(t, exposed(s, lags[instance]))})
				for _, rm := range one.ResourceMetrics().All() {
					rm.Resource().Attributes().PutStr("service.instance.id", instance)
				}
				one.ResourceMetrics().MoveAndAppendTo(md.ResourceMetrics())
			}
			out = append(out, delivery{s, md})
		}
		return out
	}
	alone, both := newPipeline(t), newPipeline(t)
	alone.play(exporters(map[string]int64{"a:9400": 0}))
	both.play(exporters(map[string]int64{"a:9400": 0, "b:9400": 20}))
	const settled = 60
	require.NotEmpty(t, alone.lines("", settled))
	assert.Equal(t, without(alone.lines("", settled), "hw.errors"), without(both.lines("", settled), "hw.errors"))
	both.neverFalls(signal.HwEnergy.Name)
	assert.Greater(t, both.dropped(), int64(4*30))
}

func without(lines []string, metric string) []string {
	return slices.DeleteFunc(lines, func(l string) bool { return strings.Contains(l, metric) })
}

func TestTheOtherExporterTakesOverWhenTheKeptExporterIsGone(t *testing.T) {
	stale := func(second int64) delivery {
		d := byPrometheus(t, second, second+1, 0)[0]
		for p := range points.All(d.batch) {
			p.SetFlags(pmetric.DefaultDataPointFlags.WithNoRecordedValue(true))
		}
		return d
	}
	for name, tt := range map[string]struct {
		kept  []delivery
		first int64 // time, in seconds, of the first sample that is kept from the other source
	}{
		"its scrape fails":           {append(scrapesOf(t, urlA, 0, 300, 0), failed(300, urlA)), 310},
		"it is no longer scraped":    {append(scrapesOf(t, urlA, 0, 300, 0), gone(291, urlA)), 295},
		"its series end":             {append(byPrometheus(t, 0, 300, 0), stale(300)), 310},
		"it sends no more data":      {scrapesOf(t, urlA, 0, 300, 0), 325},
		"it returns and is not kept": {append(scrapesOf(t, urlA, 0, 300, 0), scrapesOf(t, urlA, 400, 600, 0)...), 325},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPipeline(t)
			p.play(scrapesOf(t, urlB, 10, 600, 20), tt.kept)
			var want []int64
			for s := int64(0); s < 300; s += 15 {
				want = append(want, s)
			}
			for s := tt.first; s < 600; s += 15 {
				want = append(want, s)
			}
			assert.Equal(t, want, p.seconds())
			p.neverFalls(signal.HwEnergy.Name)
			p.neverFalls(signal.GPUClockThrottleTime.Name)
			assert.Len(t, p.lines("hw.errors", 590), 1)
			assert.Contains(t, p.lines("hw.errors", 590)[0], "xid_31", "XIDs are still counted")
			assert.Equal(t, 1, p.logs.Len())
		})
	}
}

func TestSourcesWithoutACommonGPUAreNotAConflict(t *testing.T) {
	elsewhere := func(url, node string) []delivery {
		var out []delivery
		for _, d := range scrapesOf(t, url, 5, 300, 20) {
			for i := range d.batch.ResourceMetrics().Len() {
				d.batch.ResourceMetrics().At(i).Resource().Attributes().PutStr(signal.K8sNodeName, node)
			}
			out = append(out, d)
		}
		return out
	}
	unnamed := func(from int64) []delivery {
		var out []delivery
		for s := from; s < 300; s += 15 {
			out = append(out, delivery{s, onResources(scrape{s, parse(t, exposed(s, 0))})})
		}
		return out
	}
	merged := func() []delivery {
		var out []delivery
		for s := int64(0); s < 300; s += 15 {
			a, b := scraped(t, s, urlA, exposed(s, 0)), scraped(t, s, urlB, exposed(s, 0))
			b.batch.ResourceMetrics().MoveAndAppendTo(a.batch.ResourceMetrics())
			out = append(out, a)
		}
		return out
	}
	for name, sources := range map[string][][]delivery{
		"cloned machines repeat a UUID on two nodes":    {elsewhere(urlA, "a"), elsewhere(urlB, "b")},
		"two exporters with different GPUs on one node": {textsOf(t, urlA, 0, `DCGM_FI_DEV_GPU_TEMP{UUID="GPU-1"} 30`), textsOf(t, urlB, 7, `DCGM_FI_DEV_GPU_TEMP{UUID="GPU-2"} 30`)},
		"two exporters with different fields":           {textsOf(t, urlA, 0, `DCGM_FI_DEV_GPU_TEMP{UUID="GPU-1"} 30`), textsOf(t, urlB, 7, `DCGM_FI_PROF_SM_ACTIVE{UUID="GPU-1"} 0.3`)},
		"two exporters behind the address of a Service": {scrapesOf(t, urlA, 0, 300, 0), scrapesOf(t, urlA, 7, 300, 20)},
		"rows that do not name their source":            {unnamed(0), unnamed(7)},
		"rows with the same time and unknown sources":   {merged()},
		"only the nvml receiver":                        {byNVML(0, 300)},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPipeline(t)
			p.play(sources...)
			assert.Zero(t, p.dropped())
			assert.Zero(t, p.logs.Len())
		})
	}
}

func TestExportersWithDifferentFieldsOfOneSeriesAreAConflict(t *testing.T) {
	for series, fields := range map[string][]string{
		"hw.gpu.utilization {general}":      {"DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_DEV_GPU_UTIL"},
		"hw.errors of XIDs":                 {"DCGM_FI_DEV_XID_ERRORS", "DCGM_EXP_XID_ERRORS_COUNT", "DCGM_EXP_XID_ERRORS_TOTAL"},
		"gpu.pcie.throughput {transmit}":    {"DCGM_FI_PROF_PCIE_TX_BYTES", "DCGM_FI_PROF_PCIE_TX_BYTES_TOTAL"},
		"gpu.nvlink.throughput {transmit}":  {"DCGM_FI_PROF_NVLINK_TX_BYTES", "DCGM_FI_DEV_NVLINK_COUNT_TX_BYTES", "DCGM_FI_DEV_NVLINK_TX_BANDWIDTH_TOTAL"},
		"gpu.nvlink.throughput {receive}":   {"DCGM_FI_PROF_NVLINK_RX_BYTES", "DCGM_FI_DEV_NVLINK_COUNT_RX_BYTES", "DCGM_FI_DEV_NVLINK_RX_BANDWIDTH_TOTAL"},
		"hw.errors {nvlink_crc}":            {"DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", "DCGM_FI_DEV_NVLINK_ERROR_DL_CRC"},
		"hw.errors {nvlink_replay}":         {"DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "DCGM_FI_DEV_NVLINK_ERROR_DL_REPLAY"},
		"hw.errors {nvlink_recovery}":       {"DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", "DCGM_FI_DEV_NVLINK_ERROR_DL_RECOVERY", "DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS"},
		"hw.errors {nvlink_recovery}, sums": {"DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS", "DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_SUCCESSFUL_EVENTS", "DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS"},
	} {
		for i, one := range fields {
			for _, other := range fields[:i] {
				t.Run(series+": "+one+" and "+other, func(t *testing.T) {
					p := newPipeline(t)
					p.play(textsOf(t, urlA, 0, one+`{UUID="GPU-1"} 1`), textsOf(t, urlB, 7, other+`{UUID="GPU-1"} 1`))
					assert.Greater(t, p.dropped(), int64(15))
					assert.Equal(t, 1, p.logs.Len())
				})
			}
		}
	}
}

func TestARollingUpdateOfTheExporterLeavesNoGap(t *testing.T) {
	// The new pod has a different address, and the exporter's counters start at 0 again.
	total := func(second, xid int64) string {
		return exposed(second, 0) + fmt.Sprintf("\nDCGM_EXP_XID_ERRORS_TOTAL{UUID=\"GPU-1\",Hostname=\"n\",xid=\"13\"} %d", xid)
	}
	rolled := func(url string) *pipeline {
		p := newPipeline(t)
		for s := int64(0); s < 150; s += 15 {
			p.play([]delivery{scraped(t, s, urlA, total(s, 7))})
		}
		p.play([]delivery{gone(141, urlA)})
		for s := int64(147); s < 300; s += 15 {
			p.play([]delivery{scraped(t, s, url, total(s, 1))})
		}
		return p
	}
	p := rolled(urlB)
	assert.Equal(t, rolled(urlA).lines("", 0), p.lines("", 0), "the same as with the address of the old pod")
	assert.Contains(t, strings.Join(p.lines("hw.errors", 147), ""), "xid_13, gpu.event.source=counter, hw.id=GPU-1} = 1 ")
	assert.Zero(t, p.dropped())
	assert.Zero(t, p.logs.Len())
}

func TestTheNVMLReceiverProvidesOnlyProcessesIfAnExporterExists(t *testing.T) {
	for name, source := range map[string]func() []delivery{
		"dcgm receiver":       func() []delivery { return scrapesOf(t, urlA, 7, 600, 20) },
		"prometheus receiver": func() []delivery { return byPrometheus(t, 7, 600, 20) },
	} {
		t.Run(name, func(t *testing.T) {
			alone := newPipeline(t)
			alone.play(source())
			both := newPipeline(t)
			both.play(byNVML(0, 600), source())
			var devices, processes []string
			for _, line := range both.lines("", 60) {
				if strings.Contains(line, "process") {
					processes = append(processes, line)
				} else {
					devices = append(devices, line)
				}
			}
			assert.Equal(t, without(alone.lines("", 60), "hw.errors"), without(devices, "hw.errors"))
			assert.Len(t, processes, 2*36)
			both.neverFalls(signal.HwEnergy.Name)
			require.Equal(t, 1, both.logs.Len())
		})
	}
	t.Run("until it is gone", func(t *testing.T) {
		p := newPipeline(t)
		p.play(byNVML(0, 600), scrapesOf(t, urlA, 7, 300, 20))
		assert.Len(t, p.lines("hw.temperature", 331), 17, "nvml also provides the devices after the exporter is gone")
		p.neverFalls(signal.HwEnergy.Name)
	})
}
