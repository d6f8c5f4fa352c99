package dcgmreceiver

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/exposition"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/dcgmreceiver/internal/metadata"
)

// batchBuilder turns a scrape into one batch of metrics.
type batchBuilder struct {
	version string // of the collector, for the scope
	node    string // of the exporter, for gpu.exporter.up; empty when unknown

	// nodeOnSamples says that the samples' Resources name the node too: whoever
	// reads them cannot know it where one receiver scrapes many nodes.
	nodeOnSamples bool
}

// build makes the batch of one scrape at ts. A nil scrape stands for a failed
// one. Each label set becomes a Resource with the labels as attributes, each
// sample a metric with one point without attributes; gpu.exporter.up comes
// first, on a Resource with the exporter's node where that is known. Strings are
// shared with the parser's cache.
func (b batchBuilder) build(scrape *exposition.Scrape, url string, ts pcommon.Timestamp) pmetric.Metrics {
	md := pmetric.NewMetrics()
	resources := md.ResourceMetrics()
	if scrape == nil {
		b.exporterUp(resources.AppendEmpty(), url, ts).SetIntValue(0)
		return md
	}
	resources.EnsureCapacity(1 + len(scrape.Sets))
	b.exporterUp(resources.AppendEmpty(), url, ts).SetIntValue(1)
	for _, set := range scrape.Sets {
		resource := resources.AppendEmpty()
		attributes := resource.Resource().Attributes()
		attributes.EnsureCapacity(len(set.Labels) + 1)
		if b.nodeOnSamples {
			attributes.PutStr(signal.K8sNodeName, b.node)
		}
		for _, l := range set.Labels {
			attributes.PutStr(l.Name, l.Value)
		}
		metrics := b.scope(resource)
		metrics.EnsureCapacity(len(set.Samples))
		for _, s := range set.Samples {
			m := metrics.AppendEmpty()
			m.SetName(s.Metric.Name)
			var points pmetric.NumberDataPointSlice
			if s.Metric.Counter {
				sum := m.SetEmptySum()
				sum.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
				sum.SetIsMonotonic(true)
				points = sum.DataPoints()
			} else {
				points = m.SetEmptyGauge().DataPoints()
			}
			point := points.AppendEmpty()
			point.SetTimestamp(ts)
			point.SetDoubleValue(s.Value)
		}
	}
	return md
}

// ended makes the batch that ends gpu.exporter.up: the endpoint is scraped no more, and
// another one takes over what it exposed.
func (b batchBuilder) ended(url string, ts pcommon.Timestamp) pmetric.Metrics {
	md := pmetric.NewMetrics()
	b.exporterUp(md.ResourceMetrics().AppendEmpty(), url, ts).
		SetFlags(pmetric.DefaultDataPointFlags.WithNoRecordedValue(true))
	return md
}

// exporterUp adds gpu.exporter.up to a Resource and returns its point.
func (b batchBuilder) exporterUp(resource pmetric.ResourceMetrics, url string, ts pcommon.Timestamp) pmetric.NumberDataPoint {
	if b.node != "" {
		resource.Resource().Attributes().PutStr(signal.K8sNodeName, b.node)
	}
	m := b.scope(resource).AppendEmpty()
	m.SetName(signal.GPUExporterUp.Name)
	m.SetUnit(signal.GPUExporterUp.Unit)
	m.SetDescription(signal.GPUExporterUp.Description)
	point := m.SetEmptyGauge().DataPoints().AppendEmpty()
	point.Attributes().PutStr(signal.URLFull, url)
	point.SetTimestamp(ts)
	return point
}

// scope adds the receiver's scope to a Resource and returns its metrics.
func (b batchBuilder) scope(resource pmetric.ResourceMetrics) pmetric.MetricSlice {
	sm := resource.ScopeMetrics().AppendEmpty()
	sm.Scope().SetName(metadata.ScopeName)
	sm.Scope().SetVersion(b.version)
	return sm.Metrics()
}
