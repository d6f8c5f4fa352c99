package chain

import (
	"bytes"
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/otelcol-gpu/otelcol-gpu/internal/dcgmsim"
	"github.com/otelcol-gpu/otelcol-gpu/internal/exposition"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor"
)

// The simulator records which container holds each device and how busy the device is. The usage
// section must report the same values for all exporters.
func TestUsageMatchesTheSimulation(t *testing.T) {
	cfg := dcgmsim.NewDefaultConfig() // unpartitioned, shared, and partitioned boards
	sim, err := dcgmsim.New(cfg)
	require.NoError(t, err)
	const interval, length = 10 * time.Second, 10 * time.Minute
	got, sizes := usageOf(t, sim, interval, length)
	held := 0
	total := map[string]float64{} // by board
	for key, v := range got {
		if key.metric == signal.K8sContainerGPUAllocatedTime || key.metric == signal.GPUUnallocatedTime || key.metric == signal.GPUUnobservedTime {
			board, _, _ := strings.Cut(key.device, "/")
			total[board] += v
		}
	}
	for _, d := range sim.Devices(0) {
		id := deviceID(d)
		assert.InDelta(t, length.Seconds(), total[d.UUID], 1e-6, "%s: all time is counted", d.UUID)
		size := 1.0
		if d.GPUInstance > 0 {
			size = sizes[id]
		}
		for _, pod := range d.Pods {
			held++
			share := size * length.Seconds() / float64(len(d.Pods))
			assert.InDelta(t, share, got[usageKey{signal.K8sContainerGPUAllocatedTime, id, pod}], 1e-6, "%s of %s", id, pod)
			active := got[usageKey{signal.K8sContainerGPUActiveTime, id, pod}]
			assert.InDelta(t, share, active+got[usageKey{signal.K8sContainerGPUIdleTime, id, pod}], 1e-6)
			assert.InDelta(t, share*sim.MeanLoad(d, 0, length), active, 0.05*share, "%s of %s", id, pod)
		}
	}
	assert.Greater(t, held, 4)
}

type usageKey struct {
	metric      *signal.Metric
	device, pod string
}

func deviceID(d dcgmsim.Device) string {
	if d.GPUInstance == 0 {
		return d.UUID
	}
	return d.UUID + "/gi" + strconv.Itoa(d.GPUInstance)
}

// usageOf returns the last value of each usage counter, and the size of each instance in board
// equivalents.
func usageOf(t *testing.T, sim *dcgmsim.Simulation, interval, length time.Duration) (map[usageKey]float64, map[string]float64) {
	t.Helper()
	sink := &lastUsage{values: map[usageKey]float64{}, sizes: map[string]float64{}}
	next, err := consumer.NewMetrics(sink.consume)
	require.NoError(t, err)
	next = chained(t, next, gpuk8sprocessor.NewFactory(), gpusynthesizerprocessor.NewFactory())
	begin := time.Unix(1_700_000_000, 0)
	for at := time.Duration(0); at <= length; at += interval {
		require.NoError(t, next.ConsumeMetrics(t.Context(), scraped(t, sim.AppendBody(nil, 0, at), begin.Add(at))))
	}
	return sink.values, sink.sizes
}

// chained starts processors that connect to neither the kubelet nor the API server. factories lists
// the processors from last to first. chained returns the first processor of the pipeline.
func chained(t *testing.T, next consumer.Metrics, factories ...processor.Factory) consumer.Metrics {
	t.Helper()
	alone := confmap.NewFromStringMap(map[string]any{"kubernetes": map[string]any{"auth_type": "none"}})
	for _, f := range factories {
		cfg := f.CreateDefaultConfig()
		if name := f.Type().String(); name != "gpu_synthesizer" && name != "gpu_window" {
			require.NoError(t, alone.Unmarshal(cfg))
		}
		if of, ok := cfg.(*gpuk8sprocessor.Config); ok {
			of.Sources.PodResources.Enabled, of.Sources.DRA.Enabled = false, false
			of.Usage.GetOrInsertDefault()
		}
		p, err := f.CreateMetrics(t.Context(), processortest.NewNopSettings(f.Type()), cfg, next)
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context(), componenttest.NewNopHost()))
		t.Cleanup(func() { require.NoError(t, p.Shutdown(context.Background())) })
		next = p
	}
	return next
}

// scraped converts a scrape's response body to the samples that the prometheus receiver would send.
func scraped(t *testing.T, body []byte, at time.Time) pmetric.Metrics {
	t.Helper()
	md := pmetric.NewMetrics()
	metrics := md.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics()
	for text := range bytes.Lines(body) {
		line, _, ok := exposition.ReadLine(bytes.TrimSpace(text))
		if !ok {
			continue // a comment
		}
		m := metrics.AppendEmpty()
		m.SetName(line.Name)
		dp := m.SetEmptyGauge().DataPoints().AppendEmpty()
		dp.SetTimestamp(pcommon.NewTimestampFromTime(at))
		dp.SetDoubleValue(line.Value)
		for _, l := range line.Labels {
			dp.Attributes().PutStr(l.Name, l.Value)
		}
	}
	return md
}

// lastUsage records the last value of each usage counter.
type lastUsage struct {
	values map[usageKey]float64
	sizes  map[string]float64 // sizes of instances, in board equivalents
}

func (s *lastUsage) consume(_ context.Context, md pmetric.Metrics) error {
	for p := range points.All(md) {
		m, ok := signal.Lookup(p.Metric.Name())
		if !ok {
			continue
		}
		id := pdatagpu.Text(p.Attributes(), signal.HardwareID)
		if profile := pdatagpu.Text(p.Attributes(), signal.MIGProfile); profile != "" {
			slices, err := strconv.Atoi(profile[:1]) // 3g.40gb
			if err != nil {
				return err
			}
			s.sizes[id] = float64(slices) / 7
		}
		switch m {
		case signal.K8sContainerGPUAllocatedTime, signal.K8sContainerGPUActiveTime, signal.K8sContainerGPUIdleTime,
			signal.GPUUnallocatedTime, signal.GPUUnobservedTime:
			s.values[usageKey{m, id, podOf(p)}] = points.Value(p.NumberDataPoint)
		}
	}
	return nil
}

// podOf returns the simulator's name for the container in a point's Resource, or "" if the Resource
// has no container.
func podOf(p points.Point) string {
	r := p.Resource.Attributes()
	if pdatagpu.Text(r, signal.K8sPodName) == "" {
		return ""
	}
	return pdatagpu.Text(r, signal.K8sNamespaceName) + "/" + pdatagpu.Text(r, signal.K8sPodName) + "/" + pdatagpu.Text(r, signal.K8sContainerName)
}
