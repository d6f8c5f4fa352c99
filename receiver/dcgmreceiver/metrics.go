package dcgmreceiver

import (
	"slices"
	"strings"

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
// first, on a Resource with the exporter's node where that is known. What the
// exporter says of itself comes next, on one Resource with its place, the labels on
// the points. Strings are shared with the parser's cache.
func (b batchBuilder) build(scrape *exposition.Scrape, url string, ts pcommon.Timestamp) pmetric.Metrics {
	md := pmetric.NewMetrics()
	resources := md.ResourceMetrics()
	if scrape == nil {
		b.exporterUp(resources.AppendEmpty(), url, ts).SetIntValue(0)
		return md
	}
	resources.EnsureCapacity(1 + len(scrape.Sets))
	b.exporterUp(resources.AppendEmpty(), url, ts).SetIntValue(1)
	var itself []*exposition.LabelSet
	for _, set := range scrape.Sets {
		if ofExporter(set) {
			itself = append(itself, set)
		}
	}
	b.exporter(resources, scrape, itself, url, ts)
	for _, set := range scrape.Sets {
		if slices.Contains(itself, set) {
			continue
		}
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
			point := begin(metrics.AppendEmpty(), s.Metric).AppendEmpty()
			point.SetTimestamp(ts)
			point.SetDoubleValue(s.Value)
		}
	}
	return md
}

// begin names a metric and returns its points.
func begin(m pmetric.Metric, of *exposition.Metric) pmetric.NumberDataPointSlice {
	m.SetName(of.Name)
	if !of.Counter {
		return m.SetEmptyGauge().DataPoints()
	}
	sum := m.SetEmptySum()
	sum.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	sum.SetIsMonotonic(true)
	return sum.DataPoints()
}

// clientPrefixes begin the metrics that Prometheus' client library gives of the program
// that it is part of.
var clientPrefixes = []string{"go_", "process_", "promhttp_"}

// ofExporter reports whether samples are the exporter's own and none of a device.
func ofExporter(set *exposition.LabelSet) bool {
	for _, s := range set.Samples {
		if !slices.ContainsFunc(clientPrefixes, func(prefix string) bool { return strings.HasPrefix(s.Metric.Name, prefix) }) {
			return false
		}
	}
	return true
}

// exporter adds the exporter's own metrics on a Resource with its place: the node,
// where it is known, and the host that its rows agree on. Where there is neither the
// endpoint tells exporters apart.
func (b batchBuilder) exporter(resources pmetric.ResourceMetricsSlice, scrape *exposition.Scrape, sets []*exposition.LabelSet, url string, ts pcommon.Timestamp) {
	if len(sets) == 0 {
		return
	}
	resource := resources.AppendEmpty()
	place := resource.Resource().Attributes()
	if host := hostOf(scrape); host != "" {
		place.PutStr(signal.HostName, host)
	}
	if b.node != "" {
		place.PutStr(signal.K8sNodeName, b.node)
	}
	if place.Len() == 0 {
		place.PutStr(signal.URLFull, url)
	}
	metrics := b.scope(resource)
	begun := map[*exposition.Metric]pmetric.NumberDataPointSlice{}
	for _, set := range sets {
		for _, s := range set.Samples {
			points, ok := begun[s.Metric]
			if !ok {
				points = begin(metrics.AppendEmpty(), s.Metric)
				begun[s.Metric] = points
			}
			point := points.AppendEmpty()
			point.SetTimestamp(ts)
			point.SetDoubleValue(s.Value)
			for _, l := range set.Labels {
				point.Attributes().PutStr(l.Name, l.Value)
			}
		}
	}
}

// hostOf returns the host that all rows name, or nothing where they differ.
func hostOf(scrape *exposition.Scrape) string {
	host := ""
	for _, set := range scrape.Sets {
		for _, l := range set.Labels {
			switch {
			case l.Name != "Hostname" && l.Name != "hostname", l.Value == "", l.Value == host:
			case host != "":
				return ""
			default:
				host = l.Value
			}
		}
	}
	return host
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
