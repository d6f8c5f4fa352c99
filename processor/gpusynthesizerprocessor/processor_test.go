package gpusynthesizerprocessor

import (
	"context"
	"fmt"
	"hash/maphash"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor/internal/metadatatest"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor/internal/synth"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/enumtest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/pointtest"
)

// The synthesize function returns the output for one or more scrapes in the exposition format, as
// text.
func synthesize(t *testing.T, text ...string) string {
	t.Helper()
	var scrapes []scrape
	for i, body := range text {
		scrapes = append(scrapes, scrape{int64(10 * (i + 1)), parse(t, body)})
	}
	return run(t, "", scrapes, onResources)
}

func TestAStaleMarkerIsNotAZero(t *testing.T) {
	tel := componenttest.NewTelemetry()
	set := processortest.NewNopSettings(metadata.Type)
	set.TelemetrySettings = tel.NewTelemetrySettings()
	p, sink := newTestProcessor(t, "", set)
	md := onPoints(scrape{10, parse(t, `DCGM_FI_DEV_FB_USED{UUID="GPU-1"} 1
DCGM_FI_DEV_XID_ERRORS{UUID="GPU-1"} 0`)})
	for _, m := range md.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().All() {
		dp := pmetric.NewNumberDataPoint()
		dp.SetTimestamp(10e9)
		m.Gauge().DataPoints().At(0).Attributes().CopyTo(dp.Attributes())
		dp.SetFlags(pmetric.DefaultDataPointFlags.WithNoRecordedValue(true))
		dp.CopyTo(m.Gauge().DataPoints().At(0))
	}
	require.NoError(t, p.ConsumeMetrics(context.Background(), md))
	assert.Empty(t, sink.AllMetrics(), "an empty batch is not sent")
	metadatatest.AssertEqualProcessorGpuSynthesizerPointsDropped(t, tel, []metricdata.DataPoint[int64]{
		{Value: 2, Attributes: attribute.NewSet(attribute.String("reason", "no_value"))},
	}, metricdatatest.IgnoreTimestamp())
}

func TestPointsWithoutAValueAreDropped(t *testing.T) {
	tel := componenttest.NewTelemetry()
	set := processortest.NewNopSettings(metadata.Type)
	set.TelemetrySettings = tel.NewTelemetrySettings()
	p, sink := newTestProcessor(t, "", set)
	md := pmetric.NewMetrics()
	m := md.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics().AppendEmpty()
	m.SetName("DCGM_FI_DEV_FB_USED")
	m.SetEmptyGauge().DataPoints().AppendEmpty().Attributes().PutStr("UUID", "GPU-1")
	require.NoError(t, p.ConsumeMetrics(context.Background(), md))
	assert.Empty(t, sink.AllMetrics())
	metadatatest.AssertEqualProcessorGpuSynthesizerPointsDropped(t, tel, []metricdata.DataPoint[int64]{
		{Value: 1, Attributes: attribute.NewSet(attribute.String("reason", "no_value"))},
	}, metricdatatest.IgnoreTimestamp())
}

func TestIntegerPointsAndHistogramsAreRead(t *testing.T) {
	p, sink := newTestProcessor(t, "", processortest.NewNopSettings(metadata.Type))
	md := pmetric.NewMetrics()
	ms := md.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics()
	m := ms.AppendEmpty()
	m.SetName("DCGM_FI_DEV_FB_USED")
	dp := m.SetEmptyGauge().DataPoints().AppendEmpty()
	dp.SetIntValue(3)
	dp.Attributes().PutStr("UUID", "GPU-1")
	h := ms.AppendEmpty()
	h.SetName("DCGM_FI_DEV_FB_FREE")
	h.SetEmptyHistogram().DataPoints().AppendEmpty()
	require.NoError(t, p.ConsumeMetrics(context.Background(), md))
	assert.Equal(t, "   0s {} sum hw.gpu.memory.usage {hw.id=GPU-1} = 3145728 By\n", render(sink.AllMetrics()[0]))
}

func TestScrapesInOneBatchAreProcessedSeparately(t *testing.T) {
	p, sink := newTestProcessor(t, "", processortest.NewNopSettings(metadata.Type))
	md := onPoints(scrape{20, parse(t, `DCGM_FI_DEV_FB_USED{UUID="GPU-1"} 30
DCGM_FI_DEV_FB_FREE{UUID="GPU-1"} 10
DCGM_FI_DEV_XID_ERRORS{UUID="GPU-1"} 31`)})
	onPoints(scrape{10, parse(t, `DCGM_FI_DEV_FB_USED{UUID="GPU-1"} 10
DCGM_FI_DEV_FB_FREE{UUID="GPU-1"} 30
DCGM_FI_DEV_XID_ERRORS{UUID="GPU-1"} 0`)}).ResourceMetrics().MoveAndAppendTo(md.ResourceMetrics())
	require.NoError(t, p.ConsumeMetrics(context.Background(), md))
	got := render(sink.AllMetrics()[0])
	assert.Contains(t, got, "  10s {} gauge hw.gpu.memory.utilization {hw.id=GPU-1} = 0.25f 1")
	assert.Contains(t, got, "  20s {} gauge hw.gpu.memory.utilization {hw.id=GPU-1} = 0.75f 1")
	assert.Contains(t, got, "  20s {} counter hw.errors {error.type=xid_31, gpu.event.source=last_code, hw.id=GPU-1} = 1 {error} since 10s")
}

func TestTheScrapeTargetIsNeitherThePlaceNorAHolder(t *testing.T) {
	p, sink := newTestProcessor(t, "", processortest.NewNopSettings(metadata.Type))
	md := onPoints(scrape{10, parse(t, `DCGM_FI_DEV_GPU_TEMP{UUID="GPU-1",Hostname="pod-of-the-exporter",pod="renamed-exporter-7",namespace="mon",container="x"} 31`)})
	attrs := md.ResourceMetrics().At(0).Resource().Attributes()
	attrs.PutStr("k8s.pod.name", "renamed-exporter-7")
	attrs.PutStr("k8s.namespace.name", "mon")
	attrs.PutStr("k8s.node.name", "node-of-the-target")
	require.NoError(t, p.ConsumeMetrics(context.Background(), md))
	assert.Equal(t,
		"  10s {host.name=pod-of-the-exporter, k8s.node.name=node-of-the-target} gauge hw.temperature {hw.id=GPU-1, hw.sensor_location=gpu} = 31f Cel\n",
		render(sink.AllMetrics()[0]))
}

func TestHolderRowsWithAndWithoutUIDAreOneHolder(t *testing.T) {
	got := synthesize(t, `DCGM_FI_DEV_FB_FREE{UUID="GPU-1",pod="a",namespace="ns",container="c"} 5
DCGM_FI_DEV_FB_USED{UUID="GPU-1",pod="a",namespace="ns",container="c",pod_uid="u"} 5`)
	assert.Equal(t, 1, strings.Count(got, signal.GPUDeviceHolder.Name))
	assert.Contains(t, got, "k8s.pod.uid=u")
}

func TestARemovedDeviceThatReturnsIsNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, sink := newTestProcessor(t, "", processortest.NewNopSettings(metadata.Type))
		feed(t, p, 10, `DCGM_FI_DEV_XID_ERRORS{UUID="GPU-1"} 0`)
		feed(t, p, 20, `DCGM_FI_DEV_GPU_TEMP{UUID="GPU-2"} 30`)
		time.Sleep(2 * time.Hour)
		feed(t, p, 20+2*3600, `DCGM_FI_DEV_GPU_TEMP{UUID="GPU-2"} 30`)
		feed(t, p, 30+2*3600, `DCGM_FI_DEV_XID_ERRORS{UUID="GPU-1"} 79`)
		assert.NotContains(t, rendered(sink), "xid_79", "the first scrape is a baseline")
	})
}

func TestDevicesBeyondTheLimitAreDroppedAndCounted(t *testing.T) {
	tel := componenttest.NewTelemetry()
	set := processortest.NewNopSettings(metadata.Type)
	set.TelemetrySettings = tel.NewTelemetrySettings()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.yaml"), []byte("max_devices: 3"), 0o600))
	p, sink := newTestProcessor(t, dir, set)
	var body strings.Builder
	for i := range 10 {
		fmt.Fprintf(&body, "DCGM_FI_DEV_GPU_TEMP{UUID=\"GPU-%d\"} 30\n", i)
	}
	require.NoError(t, p.ConsumeMetrics(context.Background(), onPoints(scrape{10, parse(t, body.String())})))
	assert.Equal(t, 3, sink.DataPointCount())
	metadatatest.AssertEqualProcessorGpuSynthesizerPointsDropped(t, tel, []metricdata.DataPoint[int64]{
		{Value: 7, Attributes: attribute.NewSet(attribute.String("reason", "device_limit"))},
	}, metricdatatest.IgnoreTimestamp())
	metadatatest.AssertEqualProcessorGpuSynthesizerDevices(t, tel, []metricdata.DataPoint[int64]{{Value: 3}}, metricdatatest.IgnoreTimestamp())
}

func TestEveryDropAndClampIsCounted(t *testing.T) {
	tel := componenttest.NewTelemetry()
	set := processortest.NewNopSettings(metadata.Type)
	set.TelemetrySettings = tel.NewTelemetrySettings()
	p, _ := newTestProcessor(t, "", set)
	md := onPoints(scrape{10, parse(t, `DCGM_FI_DEV_FB_USED{UUID="GPU-1"} 9223372036854775794
DCGM_FI_DEV_FB_FREE{UUID="GPU-1"} NaN
DCGM_FI_DEV_GPU_TEMP{UUID="GPU-1"} 65535
DCGM_FI_DEV_XID_ERRORS{UUID="GPU-1"} 31.5
DCGM_FI_DEV_XID_ERRORS{UUID="GPU-2"} 123456
DCGM_FI_DEV_GPU_UTIL_RATIO{UUID="GPU-1"} 1
DCGM_FI_DEV_POWER_USAGE{gpu="0"} 100
DCGM_FI_DEV_NVLINK_COUNT_TX_BYTES{gpu_uuid="GPU-1",nvlink="3"} 100
DCGM_FI_PROF_SM_ACTIVE{UUID="GPU-1"} 1.3
DCGM_FI_PROF_SM_OCCUPANCY{UUID="GPU-1"} 14073748835532800
DCGM_FI_DEV_GPU_UTIL{UUID="GPU-2"} 4294967295
DCGM_FI_DEV_DEC_UTIL_RATIO{UUID="GPU-2"} 65535
DCGM_FI_DEV_NEW{UUID="GPU-1"} 1`)})
	require.NoError(t, p.ConsumeMetrics(context.Background(), md))
	one := func(reason string, n int64) metricdata.DataPoint[int64] {
		return metricdata.DataPoint[int64]{Value: n, Attributes: attribute.NewSet(attribute.String("reason", reason))}
	}
	metadatatest.AssertEqualProcessorGpuSynthesizerPointsDropped(t, tel, []metricdata.DataPoint[int64]{
		one("sentinel", 1), one("not_finite", 1), one("absurd", 3), one("ambiguous_unit", 1),
		one("no_device", 1), one("other_entity", 1), one("implausible", 3),
	}, metricdatatest.IgnoreTimestamp())
	metadatatest.AssertEqualProcessorGpuSynthesizerPointsClamped(t, tel, []metricdata.DataPoint[int64]{{Value: 1}}, metricdatatest.IgnoreTimestamp())
	metadatatest.AssertEqualProcessorGpuSynthesizerPointsUnknown(t, tel, []metricdata.DataPoint[int64]{{Value: 1}}, metricdatatest.IgnoreTimestamp())
}

// A device that both its own exporter and HAMi's monitor report is one device.
func TestADeviceOfTwoExportersCountsOnce(t *testing.T) {
	const (
		dcgm     = `DCGM_FI_DEV_FB_USED{UUID="GPU-1",Hostname="n1",modelName="NVIDIA H100"} 20480`
		instance = `DCGM_FI_DEV_FB_USED{UUID="GPU-1",Hostname="n1",modelName="NVIDIA H100",GPU_I_ID="7",GPU_I_PROFILE="1g.10gb"} 4096`
		hami     = `hami_vgpu_memory_used_bytes{namespace="team",pod="a",container="main",vdevice_index="0",device_uuid="GPU-1"} 2147483648`
		short    = `hami_vgpu_memory_used_bytes{namespace="team",pod="a",container="main",vdevice_index="0",device_uuid="1"} 2147483648`
		mig      = `hami_vgpu_memory_used_bytes{namespace="team",pod="a",container="main",vdevice_index="0",device_uuid="MIG-7"} 2147483648
hami_mig_device_info{namespace="team",pod="a",container="main",vdevice_index="0",device_uuid="GPU-1",mig_uuid="MIG-7",profile="1g.10gb",gpu_instance_id="7",compute_instance_id="0"} 1`
		used = "k8s.container.gpu.memory.usage"
	)
	for name, tt := range map[string]struct {
		limit  int64
		bodies []string
		after  time.Duration // between the first scrape and the second scrape
	}{
		"the board's exporter first":                   {1, []string{dcgm, hami}, 10 * time.Second},
		"HAMi's monitor first":                         {2, []string{hami, dcgm, hami}, 10 * time.Second},
		"both in one scrape":                           {1, []string{dcgm + "\n" + hami}, 0},
		"HAMi's monitor names no prefix":               {1, []string{dcgm, short}, 10 * time.Second},
		"only HAMi's monitor":                          {1, []string{hami, hami}, 10 * time.Second},
		"the board's exporter is removed":              {1, []string{dcgm + "\n" + hami, hami, hami, hami}, 50 * time.Minute},
		"a board and its MIG instance":                 {2, []string{instance, mig}, 10 * time.Second},
		"a MIG instance that only the monitor reports": {2, []string{dcgm, mig}, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				require.NoError(t, os.WriteFile(filepath.Join(dir, "config.yaml"), fmt.Appendf(nil, "{node_name: n1, max_devices: %d}", tt.limit), 0o600))
				tel := componenttest.NewTelemetry()
				set := processortest.NewNopSettings(metadata.Type)
				set.TelemetrySettings = tel.NewTelemetrySettings()
				p, sink := newTestProcessor(t, dir, set)
				for _, body := range tt.bodies {
					sink.Reset()
					feed(t, p, time.Now().Unix(), body)
					time.Sleep(tt.after)
				}
				want := int64(1)
				if strings.Contains(name, "MIG") {
					want = 2
				}
				metadatatest.AssertEqualProcessorGpuSynthesizerDevices(t, tel, []metricdata.DataPoint[int64]{{Value: want}}, metricdatatest.IgnoreTimestamp())
				assert.Contains(t, rendered(sink), used)
				assert.Empty(t, dropped(tel))
			})
		})
	}
}

func TestARateIsCountedAsDroppedOnlyIfItIsInvalid(t *testing.T) {
	const (
		nvidia = `DCGM_FI_PROF_PCIE_TX_BYTES_TOTAL{UUID="GPU-1"} `
		amd    = `gpu_xgmi_link_tx{gpu_uuid="U-1",serial_number="S-1",gpu_id="0",gpu_partition_id="0",gpu_compute_partition_type="spx",card_model="102-X",hostname="n1",link_index="0"} `
		intel  = `{"hw.gpu.io","hw.id"="u-0","pci.bdf"="0000:03:00.0","hw.vendor"="Intel(R) Corporation","hw.model"="Arc B60","network.io.direction"="transmit"} `
	)
	for name, tt := range map[string]struct {
		counter       string
		before, after string
		rate          string
		want          map[string]int64
	}{
		"a valid rate of an NVIDIA GPU":       {nvidia, "0", "1000", "gpu.pcie.throughput", map[string]int64{}},
		"an impossible rate of an NVIDIA GPU": {nvidia, "0", "2e15", "", map[string]int64{"absurd": 1}},
		"a valid rate of an AMD GPU":          {amd, "0", "1000", "gpu.xgmi.throughput", map[string]int64{}},
		"a valid rate of an Intel GPU":        {intel, "0", "1000", "gpu.pcie.throughput", map[string]int64{}},
	} {
		t.Run(name, func(t *testing.T) {
			tel := componenttest.NewTelemetry()
			set := processortest.NewNopSettings(metadata.Type)
			set.TelemetrySettings = tel.NewTelemetrySettings()
			p, sink := newTestProcessor(t, "", set)
			feed(t, p, 10, tt.counter+tt.before)
			feed(t, p, 20, tt.counter+tt.after)
			assert.Contains(t, rendered(sink), tt.rate)
			assert.Equal(t, tt.want, dropped(tel))
		})
	}
}

func TestEveryDropReasonIsDocumented(t *testing.T) {
	assert.Equal(t, enumtest.Documented(t, "reason"), enumtest.Names(synth.DropNone+1, synth.NumDropReasons))
}

// dropped returns the number of dropped points by reason.
func dropped(tel *componenttest.Telemetry) map[string]int64 {
	counts := map[string]int64{}
	m, err := tel.GetMetric("otelcol_processor_gpu_synthesizer_points_dropped")
	if err != nil {
		return counts // the metric does not exist before the first drop
	}
	for _, dp := range m.Data.(metricdata.Sum[int64]).DataPoints {
		reason, _ := dp.Attributes.Value("reason")
		counts[reason.AsString()] += dp.Value
	}
	return counts
}

func TestGPUsOfOtherVendorsAreCountedAndLoggedOnce(t *testing.T) {
	tel := componenttest.NewTelemetry()
	core, logs := observer.New(zap.InfoLevel)
	set := processortest.NewNopSettings(metadata.Type)
	set.TelemetrySettings = tel.NewTelemetrySettings()
	set.Logger = zap.New(core)
	p, sink := newTestProcessor(t, "", set)
	for _, seconds := range []int64{10, 20} {
		feed(t, p, seconds, `DCGM_FI_DEV_GPU_TEMP{UUID="1c8fc4b7-0000-1000-80e0-c6d49f5b0d86",modelName="MTT S4000"} 40`)
	}
	assert.Zero(t, sink.DataPointCount())
	metadatatest.AssertEqualProcessorGpuSynthesizerPointsDropped(t, tel, []metricdata.DataPoint[int64]{
		{Value: 2, Attributes: attribute.NewSet(attribute.String("reason", "other_vendor"))},
	}, metricdatatest.IgnoreTimestamp())
	require.Len(t, logs.All(), 1)
	assert.Contains(t, logs.All()[0].Message, "not NVIDIA's")
}

// The dcgm receiver sets only the host name. The processor adds the node and the cluster of the
// devices on that host.
func TestAnExportersSelfMetricsHaveThePlaceOfItsDevices(t *testing.T) {
	t.Setenv(componenthelper.NodeNameEnv, "")
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.yaml"), []byte("{node_name: node-7, cluster_name: east}"), 0o600))
	p, sink := newTestProcessor(t, dir, processortest.NewNopSettings(metadata.Type))
	md := pmetric.NewMetrics()
	for _, from := range []struct{ scope, host, node string }{
		{receiverScope, "h", ""}, {receiverScope, "h", "node-9"}, {receiverScope, "", ""}, {"another", "h", ""},
	} {
		rm := md.ResourceMetrics().AppendEmpty()
		for key, value := range map[string]string{signal.HostName: from.host, signal.K8sNodeName: from.node} {
			if value != "" {
				rm.Resource().Attributes().PutStr(key, value)
			}
		}
		sm := rm.ScopeMetrics().AppendEmpty()
		sm.Scope().SetName(from.scope)
		m := sm.Metrics().AppendEmpty()
		m.SetName("go_gc_duration_seconds")
		m.SetEmptyGauge().DataPoints().AppendEmpty().Attributes().PutStr("quantile", "0.5")
	}
	require.NoError(t, p.ConsumeMetrics(context.Background(), md))
	var got []string
	for point := range points.All(sink.AllMetrics()[0]) {
		got = append(got, pointtest.Text(point.Resource.Attributes())+pointtest.Text(point.Attributes()))
	}
	assert.Equal(t, []string{
		"{host.name=h, k8s.cluster.name=east, k8s.node.name=node-7}{quantile=0.5}",
		"{host.name=h, k8s.cluster.name=east, k8s.node.name=node-9}{quantile=0.5}",
		"{}{quantile=0.5}",
		"{host.name=h}{quantile=0.5}",
	}, got)
}

func TestLabelChurnDoesNotGrowTheRowCache(t *testing.T) {
	c, r := newCache[labelKey, *synth.Row](100), newReader()
	for i := range 10_000 {
		m := pcommon.NewMap()
		m.PutStr("err_code", fmt.Sprint(i))
		c.put(labelKey{labels: r.hash(m, rowKey{})}, nil)
		require.LessOrEqual(t, c.recent.Len(), 100)
	}
}

// Many jobs run on a node over several weeks, but only the labels from the last few minutes may
// remain in the cache.
func TestLabelsOfDeletedPodsAreRemovedFromTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, ok := createDefaultConfig().(*Config)
		require.True(t, ok)
		p, err := newProcessor(cfg, processortest.NewNopSettings(metadata.Type))
		require.NoError(t, err)
		for minute := range 24 * 60 {
			text := fmt.Sprintf("DCGM_FI_DEV_FB_USED{UUID=\"GPU-1\",pod=\"job-%d\"} 1\nDCGM_FI_DEV_FB_USED{UUID=\"GPU-2\"} 1", minute)
			_, err := p.process(t.Context(), &pdatagpu.Arrival{Metrics: onPoints(scrape{int64(60 * minute), parse(t, text)})})
			require.NoError(t, err)
			require.LessOrEqual(t, p.rows.recent.Len(), int(2*componenthelper.RecentAge/time.Minute)+2, "after %d minutes", minute)
			time.Sleep(time.Minute)
		}
		require.NoError(t, p.shutdown(t.Context()))
	})
}

func TestTheRowKeyDependsOnTheBoundariesBetweenLabels(t *testing.T) {
	r := newReader()
	a, b := pcommon.NewMap(), pcommon.NewMap()
	a.PutStr("ab", "c")
	b.PutStr("a", "bc")
	assert.NotEqual(t, r.hash(a, rowKey{}), r.hash(b, rowKey{}))
	assert.NotEqual(t, r.hash(a, rowKey{1}), r.hash(a, rowKey{2}))
}

func newReader() *reader {
	return &reader{gpuSynthesizer: &gpuSynthesizer{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}}
}

// For any input, the output must follow the output contract: no value is NaN, all ratios are in [0,
// 1], no attribute depends on the value, and every point has a device.
func FuzzSynthesizer(f *testing.F) {
	dirs, err := filepath.Glob(filepath.Join("testdata", "golden", "*", "scrapes.prom"))
	require.NoError(f, err)
	for _, file := range dirs {
		text, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, sink := newTestProcessor(t, "", processortest.NewNopSettings(metadata.Type))
		for i, body := range strings.Split(text, "\n@") {
			if i == 4 {
				break
			}
			md := fuzzRows(body, int64(i+1))
			require.NoError(t, p.ConsumeMetrics(context.Background(), md))
		}
		for _, md := range sink.AllMetrics() {
			checkContract(t, md)
		}
	})
}

// fuzzRows parses lines of the form NAME{label="value",…} VALUE. Almost any text is accepted, so
// that labels and values can be arbitrary.
func fuzzRows(body string, seconds int64) pmetric.Metrics {
	s := scrape{seconds: seconds}
	for line := range strings.SplitSeq(body, "\n") {
		name, rest, _ := strings.Cut(line, "{")
		inner, number, _ := strings.Cut(rest, "} ")
		var v float64
		if _, err := fmt.Sscan(number, &v); err != nil || !strings.HasPrefix(name, "DCGM_") {
			continue
		}
		r := row{name: name, value: v}
		md := pcommon.NewMap()
		for pair := range strings.SplitSeq(inner, ",") {
			k, val, _ := strings.Cut(pair, "=")
			md.PutStr(k, strings.Trim(val, `"`))
		}
		for k, val := range md.All() {
			r.labels = append(r.labels, label(k, val.Str()))
		}
		s.rows = append(s.rows, r)
	}
	return onPoints(s)
}

func checkContract(t *testing.T, md pmetric.Metrics) {
	t.Helper()
	for _, rm := range md.ResourceMetrics().All() {
		for _, sm := range rm.ScopeMetrics().All() {
			for _, m := range sm.Metrics().All() {
				contract, ok := signal.Lookup(m.Name())
				if !ok {
					t.Fatalf("%s is not in the contract", m.Name())
				}
				for _, dp := range points.Of(m).All() {
					if id, ok := dp.Attributes().Get(signal.HardwareID); !ok || id.Str() == "" {
						t.Fatalf("%s without a device", m.Name())
					}
					for _, gone := range []string{"err_code", "err_msg", "xid", "clock_event", "window_size_in_ms", "UUID", "gpu"} {
						if _, ok := dp.Attributes().Get(gone); ok {
							t.Fatalf("%s carries %s", m.Name(), gone)
						}
					}
					v := dp.DoubleValue()
					if contract.Int {
						v = float64(dp.IntValue())
					}
					if math.IsNaN(v) || math.IsInf(v, 0) || contract.Unit == "1" && (v < 0 || v > 1) {
						t.Fatalf("%s is %v", m.Name(), v)
					}
					if m.Type() == pmetric.MetricTypeSum && v < 0 {
						t.Fatalf("%s is %v", m.Name(), v)
					}
					if dp.StartTimestamp() > dp.Timestamp() {
						t.Fatalf("%s starts at %d, after its time %d", m.Name(), dp.StartTimestamp(), dp.Timestamp())
					}
				}
			}
		}
	}
}
