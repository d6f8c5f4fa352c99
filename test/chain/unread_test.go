package chain

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/connector/connectortest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/otelcol-gpu/otelcol-gpu/connector/gpueventsconnector"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor"
)

// While the driver cannot read a board, neither the board nor its instances are reported as lost,
// and the time is counted as unobserved.
func TestABoardThatIsNotReadIsUnobservedButNotLost(t *testing.T) {
	for name, asStages := range map[string]bool{"as stages": true, "as processors": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var logs consumertest.LogsSink
				unobserved := map[string]float64{}
				f := gpueventsconnector.NewFactory()
				events, err := f.CreateMetricsToLogs(t.Context(), connectortest.NewNopSettings(f.Type()), f.CreateDefaultConfig(), &logs)
				require.NoError(t, err)
				require.NoError(t, events.Start(t.Context(), nil))
				forwarded := consumer.Metrics(events)
				if asStages {
					forwarded = consumertest.NewNop()
				}
				next, err := consumer.NewMetrics(func(ctx context.Context, md pmetric.Metrics) error {
					for p := range points.All(md) {
						if p.Metric.Name() == signal.GPUUnobservedTime.Name {
							id, _ := p.Attributes().Get(signal.HardwareID)
							unobserved[id.Str()] = points.Value(p.NumberDataPoint)
						}
					}
					return forwarded.ConsumeMetrics(ctx, md)
				})
				require.NoError(t, err)
				if asStages {
					next = unreadStages(t, next, &logs)
				} else {
					next = chained(t, next, gpuk8sprocessor.NewFactory(), gpusynthesizerprocessor.NewFactory())
				}

				for s := 0; s <= 600; s += 10 {
					read := s < 60 || s >= 400
					body := board("GPU-1", "", read) + board("GPU-2", `,GPU_I_ID="1",GPU_I_PROFILE="3g.40gb"`, read) + board("GPU-3", "", true)
					require.NoError(t, next.ConsumeMetrics(t.Context(), scraped(t, []byte(body), time.Now())))
					time.Sleep(10 * time.Second)
				}
				require.NoError(t, events.Shutdown(t.Context()))

				var found []string
				for _, ld := range logs.AllLogs() {
					eachRecord(ld, func(r plog.LogRecord) { found = append(found, r.EventName()+": "+r.Body().Str()) })
				}
				assert.Empty(t, found, "no device is lost, found or repartitioned")
				assert.Equal(t, map[string]float64{"GPU-1": 340, "GPU-2": 340, "GPU-3": 0}, unobserved, "the time from 50 s to 390 s")
			})
		})
	}
}

// unreadStages returns gpu_synthesizer, gpu_k8s, and gpu_events as stages of one component.
func unreadStages(t *testing.T, next consumer.Metrics, logs consumer.Logs) consumer.Metrics {
	t.Helper()
	list := pdatagpu.NewStages(next)
	for _, f := range []processor.Factory{gpusynthesizerprocessor.NewFactory(), gpuk8sprocessor.NewFactory()} {
		cfg := f.CreateDefaultConfig()
		if of, ok := cfg.(*gpuk8sprocessor.Config); ok {
			of.Kubernetes.AuthType = kube.AuthNone
			of.Sources.PodResources.Enabled, of.Sources.DRA.Enabled = false, false
			of.Usage.GetOrInsertDefault()
		}
		p, err := f.CreateMetrics(t.Context(), processortest.NewNopSettings(f.Type()), cfg, consumertest.NewNop())
		require.NoError(t, err)
		list.Append(f.Type().String(), p.(*pdatagpu.Processor))
	}
	f := gpueventsconnector.NewFactory()
	events, err := gpueventsconnector.NewStage(connectortest.NewNopSettings(f.Type()), f.CreateDefaultConfig().(*gpueventsconnector.Config), logs)
	require.NoError(t, err)
	list.Append("gpu_events", events)
	require.NoError(t, list.Start(t.Context(), componenttest.NewNopHost()))
	t.Cleanup(func() { require.NoError(t, list.Shutdown(context.Background())) })
	return list
}

// board returns an exporter's rows for a board that a pod holds, or for an instance of that board.
// If the read parameter is false, the values are 0, which is what DCGM reports for a board that it
// cannot read.
func board(uuid, instance string, read bool) string {
	labels := fmt.Sprintf(`{UUID="%s",modelName="NVIDIA A100-SXM4-80GB",Hostname="n1",pod="p",namespace="team",container="c"%s} `, uuid, instance)
	var out strings.Builder
	for field, v := range map[string]int{
		"DCGM_FI_DEV_POWER_USAGE": 70, "DCGM_FI_DEV_GPU_TEMP": 40, "DCGM_FI_DEV_SM_CLOCK": 1400, "DCGM_FI_DEV_XID_ERRORS": 0,
	} {
		if !read {
			v = 0
		}
		fmt.Fprintf(&out, "%s%s%d\n", field, labels, v)
	}
	return out.String()
}

// A sample that reports that a board could not be read does not count as an observation of the
// board.
func TestAWindowInWhichABoardIsNotReadHasNoCoverage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := new(consumertest.MetricsSink) // gpu_window's background goroutine also sends windows
		next := chained(t, sink, gpuwindowprocessor.NewFactory(), gpusynthesizerprocessor.NewFactory())
		for s := 0; s <= 240; s += 10 {
			body := board("GPU-1", "", s < 60) + board("GPU-2", "", true)
			require.NoError(t, next.ConsumeMetrics(t.Context(), scraped(t, []byte(body), time.Now())))
			time.Sleep(10 * time.Second)
		}
		covered := map[string]float64{}
		for _, md := range sink.AllMetrics() {
			for p := range points.All(md) {
				if p.Metric.Name() == signal.WindowCoverage.Name {
					id, _ := p.Attributes().Get(signal.HardwareID)
					covered[fmt.Sprint(id.Str(), " ", p.Timestamp().AsTime().Unix()%600)] = points.Value(p.NumberDataPoint)
				}
			}
		}
		for window, share := range covered {
			if strings.HasPrefix(window, "GPU-1 ") && share > 0 {
				assert.Equal(t, "GPU-1 60", window, "only the first window observed the board")
			}
		}
		assert.InDelta(t, 1, covered["GPU-2 180"], 0.01)
	})
}

// If all values of a board are invalid, the values are treated as missing, but the board is not
// reported as lost. The invalid values can be in an exporter's rows or in samples. The values of
// the first scrape may be valid or invalid.
func TestABoardOfGarbageIsUnobservedButNotLost(t *testing.T) {
	for name, tt := range map[string]struct {
		garbage   string
		validOnce bool
	}{
		"a blank":                         {"DCGM_FI_DEV_GPU_UTIL%s4294967295", true},
		"no number":                       {"DCGM_FI_DEV_GPU_UTIL%sNaN", true},
		"a ratio":                         {"DCGM_FI_PROF_GR_ENGINE_ACTIVE%s1.4e16", true},
		"a sample's ratio":                {"hw.gpu.utilization%s1.4e16", true},
		"a blank from the start":          {"DCGM_FI_DEV_GPU_UTIL%s4294967295", false},
		"a ratio from the start":          {"DCGM_FI_PROF_GR_ENGINE_ACTIVE%s1.4e16", false},
		"a sample's ratio from the start": {"hw.gpu.utilization%s1.4e16", false},
	} {
		t.Run(name, func(t *testing.T) {
			garbage := tt.garbage
			synctest.Test(t, func(t *testing.T) {
				var logs consumertest.LogsSink
				f := gpueventsconnector.NewFactory()
				events, err := f.CreateMetricsToLogs(t.Context(), connectortest.NewNopSettings(f.Type()), f.CreateDefaultConfig(), &logs)
				require.NoError(t, err)
				require.NoError(t, events.Start(t.Context(), nil))
				unobserved := 0.0
				next, err := consumer.NewMetrics(func(ctx context.Context, md pmetric.Metrics) error {
					for p := range points.All(md) {
						if id, _ := p.Attributes().Get(signal.HardwareID); p.Metric.Name() == signal.GPUUnobservedTime.Name && id.Str() == "GPU-1" {
							unobserved = points.Value(p.NumberDataPoint)
						}
					}
					return events.ConsumeMetrics(ctx, md)
				})
				require.NoError(t, err)
				next = chained(t, next, gpuk8sprocessor.NewFactory())
				next = chained(t, next, gpusynthesizerprocessor.NewFactory())
				for i := range 31 {
					now := garbage
					if i == 0 && tt.validOnce {
						now = "DCGM_FI_DEV_GPU_TEMP%s40"
						if strings.HasPrefix(garbage, "hw.") {
							now = "hw.power%s100"
						}
					}
					if strings.HasPrefix(garbage, "hw.") {
						md := pmetric.NewMetrics()
						for _, id := range []string{"GPU-1", "GPU-2"} {
							rm := md.ResourceMetrics().AppendEmpty()
							rm.Resource().Attributes().PutStr(signal.K8sNodeName, "n1")
							m := rm.ScopeMetrics().AppendEmpty().Metrics().AppendEmpty()
							metric, text, _ := strings.Cut(now, "%s")
							if id == "GPU-2" {
								metric, text = "hw.power", "100"
							}
							value, err := strconv.ParseFloat(text, 64)
							require.NoError(t, err)
							m.SetName(metric)
							dp := m.SetEmptyGauge().DataPoints().AppendEmpty()
							dp.SetTimestamp(pcommon.NewTimestampFromTime(time.Now()))
							dp.SetDoubleValue(value)
							dp.Attributes().PutStr(signal.HardwareID, id)
						}
						require.NoError(t, next.ConsumeMetrics(t.Context(), md))
					} else {
						body := fmt.Sprintf(now+"\n", `{UUID="GPU-1",modelName="NVIDIA A100-SXM4-80GB",Hostname="n1"} `) + board("GPU-2", "", true)
						require.NoError(t, next.ConsumeMetrics(t.Context(), scraped(t, []byte(body), time.Now())))
					}
					time.Sleep(10 * time.Second)
				}
				require.NoError(t, events.Shutdown(t.Context()))
				for _, ld := range logs.AllLogs() {
					eachRecord(ld, func(r plog.LogRecord) { assert.Fail(t, "an event", "%s: %s", r.EventName(), r.Body().Str()) })
				}
				assert.InDelta(t, 300, unobserved, 1e-9)
			})
		})
	}
}

// If a board cannot be read in its first few scrapes, no "found" event is sent when the board is
// first read. The board's time is counted starting with the first scrape.
func TestABoardThatIsNotReadAtFirstIsNotFoundLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logs consumertest.LogsSink
		f := gpueventsconnector.NewFactory()
		events, err := f.CreateMetricsToLogs(t.Context(), connectortest.NewNopSettings(f.Type()), f.CreateDefaultConfig(), &logs)
		require.NoError(t, err)
		require.NoError(t, events.Start(t.Context(), nil))
		unobserved := 0.0
		next, err := consumer.NewMetrics(func(ctx context.Context, md pmetric.Metrics) error {
			for p := range points.All(md) {
				if id, _ := p.Attributes().Get(signal.HardwareID); p.Metric.Name() == signal.GPUUnobservedTime.Name && id.Str() == "GPU-1" {
					unobserved = points.Value(p.NumberDataPoint)
				}
			}
			return events.ConsumeMetrics(ctx, md)
		})
		require.NoError(t, err)
		next = chained(t, next, gpuk8sprocessor.NewFactory())
		next = chained(t, next, gpusynthesizerprocessor.NewFactory())
		for s := 0; s <= 200; s += 10 {
			body := board("GPU-1", "", s >= 100) + board("GPU-2", "", true)
			require.NoError(t, next.ConsumeMetrics(t.Context(), scraped(t, []byte(body), time.Now())))
			time.Sleep(10 * time.Second)
		}
		require.NoError(t, events.Shutdown(t.Context()))
		for _, ld := range logs.AllLogs() {
			eachRecord(ld, func(r plog.LogRecord) { assert.Fail(t, "an event", "%s: %s", r.EventName(), r.Body().Str()) })
		}
		assert.InDelta(t, 90, unobserved, 1e-9, "the time from 0 s to 90 s")
	})
}
