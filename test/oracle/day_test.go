package oracle

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/otlptranslator"
	"github.com/prometheus/prometheus/model/labels"
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
	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor"
)

// usageNames maps the counters of the usage section to their Prometheus names.
var usageNames = func() map[string]string {
	namer := otlptranslator.NewMetricNamer("", otlptranslator.UnderscoreEscapingWithSuffixes)
	out := map[string]string{}
	for _, m := range []*signal.Metric{
		signal.K8sContainerGPUAllocatedTime, signal.K8sContainerGPUActiveTime, signal.K8sContainerGPUIdleTime, signal.GPUUnallocatedTime, signal.GPUUnobservedTime,
	} {
		name, err := namer.Build(otlptranslator.Metric{Name: m.Name, Unit: m.Unit, Type: otlptranslator.MetricTypeMonotonicCounter})
		if err != nil {
			panic(err)
		}
		out[m.Name] = name
	}
	return out
}()

// The test simulates a day, including a ten-minute outage and a restart of the collector without
// storage, and sums the usage counters in Prometheus. Every GPU-second must be counted exactly
// once, as allocated, unallocated, or unobserved. Each pod's time must match the simulation.
func TestADayOfUsageAddsUpInPrometheus(t *testing.T) {
	const (
		day, every   = 24 * time.Hour, time.Minute
		outage, long = 11 * time.Hour, 10 * time.Minute
		restart      = 16 * time.Hour
	)
	sim, err := dcgmsim.New(dcgmsim.NewDefaultConfig())
	require.NoError(t, err)
	p := newPrometheus(t, every)
	chain := usageChain(t, p)
	for at := time.Duration(0); at <= day; at += every {
		if at > outage && at < outage+long {
			continue
		}
		if at == restart {
			chain = usageChain(t, p)
		}
		require.NoError(t, chain.ConsumeMetrics(t.Context(), rows(t, sim.AppendBody(nil, 0, at), epoch.Add(at))))
	}
	sum := func(by string, metric *signal.Metric) map[string]float64 {
		out := map[string]float64{}
		query := fmt.Sprintf("sum by (%s) (increase(%s[1d]))", by, usageNames[metric.Name])
		for _, s := range p.query(query, epoch.Add(day), epoch.Add(day), every) {
			out[s.Metric.Get(by)] = s.Floats[0].F
		}
		return out
	}
	boards := map[string]bool{}
	want := map[string]float64{} // GPU-seconds by pod
	profiles := map[string]string{}
	for _, s := range p.query(usageNames[signal.K8sContainerGPUAllocatedTime.Name], epoch.Add(day), epoch.Add(day), every) {
		if profile := s.Metric.Get("gpu_mig_profile"); profile != "" {
			profiles[s.Metric.Get("hw_id")] = profile
		}
	}
	for _, d := range sim.Devices(0) {
		boards[d.UUID] = true
		size := 1.0
		if d.GPUInstance > 0 && len(d.Pods) > 0 {
			profile := profiles[fmt.Sprintf("%s/gi%d", d.UUID, d.GPUInstance)]
			require.NotEmpty(t, profile)
			size = float64(profile[0]-'0') / 7
		}
		for _, pod := range d.Pods {
			want[strings.Split(pod, "/")[1]] += size * (day - long).Seconds() / float64(len(d.Pods))
		}
	}
	require.NotEmpty(t, profiles, "boards in MIG instances are among them")
	total := func(values map[string]float64) (out float64) {
		for _, v := range values {
			out += v
		}
		return out
	}
	allocated, idle, active := sum("k8s_pod_name", signal.K8sContainerGPUAllocatedTime), sum("k8s_pod_name", signal.K8sContainerGPUIdleTime), sum("k8s_pod_name", signal.K8sContainerGPUActiveTime)
	unallocated, unobserved := sum("hw_id", signal.GPUUnallocatedTime), sum("hw_id", signal.GPUUnobservedTime)
	// One interval may be lost at the restart, because a new series starts with the value of its
	// first interval, which increase() does not include. In addition, Prometheus does not detect
	// the restart of a counter that exceeds its previous value within one interval.
	near := 0.002
	all := float64(len(boards)) * day.Seconds()
	assert.InEpsilon(t, all, total(allocated)+total(unallocated)+total(unobserved), near, "every GPU-second is counted")
	for _, d := range sim.Devices(0) {
		if d.GPUInstance == 0 && len(d.Pods) > 0 {
			assert.InEpsilon(t, long.Seconds(), unobserved[d.UUID], 0.01, "the outage on %s", d.UUID)
		}
	}
	assert.Len(t, allocated, len(want))
	for pod, seconds := range want {
		assert.InEpsilon(t, seconds, allocated[pod], near, pod)
		assert.InEpsilon(t, allocated[pod], idle[pod]+active[pod], near, pod)
	}
}

// usageChain starts an agent's processors, which use neither the kubelet nor the API server, and
// stores their usage counters in Prometheus.
func usageChain(t *testing.T, p *prometheus) consumer.Metrics {
	t.Helper()
	next, err := consumer.NewMetrics(func(ctx context.Context, md pmetric.Metrics) error { p.storeUsage(ctx, md); return nil })
	require.NoError(t, err)
	for _, f := range []processor.Factory{gpuk8sprocessor.NewFactory(), gpusynthesizerprocessor.NewFactory()} {
		cfg := f.CreateDefaultConfig()
		if of, ok := cfg.(*gpuk8sprocessor.Config); ok {
			of.Sources.PodResources.Enabled, of.Sources.DRA.Enabled = false, false
			of.Usage.GetOrInsertDefault()
		}
		if f.Type() != gpusynthesizerprocessor.NewFactory().Type() {
			require.NoError(t, confmap.NewFromStringMap(map[string]any{"kubernetes": map[string]any{"auth_type": "none"}}).Unmarshal(cfg))
		}
		c, err := f.CreateMetrics(t.Context(), processortest.NewNopSettings(f.Type()), cfg, next)
		require.NoError(t, err)
		require.NoError(t, c.Start(t.Context(), componenttest.NewNopHost()))
		t.Cleanup(func() { require.NoError(t, c.Shutdown(context.WithoutCancel(t.Context()))) })
		next = c
	}
	return next
}

// rows converts a scrape's response body to the samples that the prometheus receiver would send.
func rows(t *testing.T, body []byte, at time.Time) pmetric.Metrics {
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

// storeUsage stores the usage counters in a batch, with the attributes of their points and
// Resources as labels.
func (p *prometheus) storeUsage(ctx context.Context, md pmetric.Metrics) {
	app := p.db.Appender(ctx)
	for point := range points.All(md) {
		name, ok := usageNames[point.Metric.Name()]
		if !ok {
			continue
		}
		b := labels.NewBuilder(labels.FromStrings(labels.MetricName, name))
		for _, attrs := range []pcommon.Map{point.Resource.Attributes(), point.Attributes()} {
			for k, v := range attrs.All() {
				label, err := (&otlptranslator.LabelNamer{}).Build(k)
				require.NoError(p.t, err)
				b.Set(label, v.AsString())
			}
		}
		p.append(app, b.Labels(), point.Timestamp().AsTime(), points.Value(point.NumberDataPoint))
	}
	require.NoError(p.t, app.Commit())
}
