package dcgmreceiver

import (
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/exposition"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/dcgmreceiver/internal/metadata"
)

// batchBuilder converts a scrape to a batch of metrics.
type batchBuilder struct {
	version string // the collector's version, which is the version of the scope
	node    string // the node of the exporter, for gpu.exporter.up; empty if unknown

	// nodeOnSamples is true if the node is also added to the Resources of the samples. If a
	// receiver scrapes several nodes, the next component needs this attribute.
	nodeOnSamples bool
}

// exporterBatch returns a batch that contains gpu.exporter.up with the time ts, followed by the
// exporter's own metrics. If the exporter's node is known, it is in the Resource of
// gpu.exporter.up. The Resource of the exporter's own metrics describes the exporter's location.
// The labels of these metrics are on the points.
func (b batchBuilder) exporterBatch(scrape *exposition.Scrape, url string, ts pcommon.Timestamp) pmetric.Metrics {
	md := pmetric.NewMetrics()
	resources := md.ResourceMetrics()
	if scrape == nil { // the scrape failed
		b.addExporterUp(resources.AppendEmpty(), url, ts).SetIntValue(0)
		return md
	}
	b.addExporterUp(resources.AppendEmpty(), url, ts).SetIntValue(1)
	b.addExporterMetrics(resources, scrape, url, ts)
	return md
}

// rows returns the device rows, which are all label sets except those that describe the exporter
// itself.
func (b batchBuilder) rows(scrape *exposition.Scrape, ts pcommon.Timestamp) *pdatagpu.Rows {
	rows := &pdatagpu.Rows{Scope: gpudata.NewScope(metadata.ScopeName, b.version), Time: ts}
	if b.nodeOnSamples {
		rows.Node = b.node
	}
	rows.Sets = slices.Clone(scrape.Sets)
	rows.Sets = slices.DeleteFunc(rows.Sets, isExporterOwn)
	for _, set := range rows.Sets {
		joinTimes(set.Times)
	}
	return rows
}

// maxRoundDuration is the maximum time, in nanoseconds, that an exporter needs to read all values
// of a device once. One such pass is a round.
const maxRoundDuration = int64(5 * time.Second)

// joinTimes sets the same time for all samples of a round. The exporter reads values such as the
// used memory and the memory size one after another. However, values that are combined later must
// have the same time.
func joinTimes(times []int64) {
	if len(times) == 0 {
		return
	}
	newest := slices.Max(times)
	for i, at := range times {
		if at != 0 && newest-at <= maxRoundDuration {
			times[i] = newest
		}
	}
}

// clientPrefixes are the prefixes of the metrics with which the Prometheus client library describes
// its own process.
var clientPrefixes = []string{"go_", "process_", "promhttp_"}

// isExporterOwn reports whether the samples describe the exporter itself and not a device.
func isExporterOwn(set *exposition.LabelSet) bool {
	for _, s := range set.Samples {
		if !slices.ContainsFunc(clientPrefixes, func(prefix string) bool { return strings.HasPrefix(s.Metric.Name, prefix) }) {
			return false
		}
	}
	return true
}

// addExporterMetrics adds the exporter's own metrics. Their Resource describes the exporter's
// location: the node, if it is known, and the host, if all label sets have the same host. If both
// are missing, the Resource contains the URL, which distinguishes exporters.
func (b batchBuilder) addExporterMetrics(resources pmetric.ResourceMetricsSlice, scrape *exposition.Scrape, url string, ts pcommon.Timestamp) {
	if !slices.ContainsFunc(scrape.Sets, isExporterOwn) {
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
	started := map[*exposition.Metric]pmetric.NumberDataPointSlice{}
	for _, set := range scrape.Sets {
		if !isExporterOwn(set) {
			continue
		}
		for _, s := range set.Samples {
			points, ok := started[s.Metric]
			if !ok {
				points = pdatagpu.BeginExposed(metrics.AppendEmpty(), s.Metric)
				started[s.Metric] = points
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

// hostOf returns the host if all label sets have the same host. Otherwise, it returns "".
func hostOf(scrape *exposition.Scrape) string {
	host := ""
	for _, set := range scrape.Sets {
		switch name := hostOfSet(set); name {
		case "", host:
		default:
			if host != "" {
				return ""
			}
			host = name
		}
	}
	return host
}

// hostOfSet returns the host in a label set. If the set has the label Hostname, the label hostname
// describes a pod or a scrape target.
func hostOfSet(set *exposition.LabelSet) (host string) {
	for _, l := range set.Labels {
		if l.Name == "Hostname" && l.Value != "" {
			return l.Value
		}
		if l.Name == "hostname" {
			host = l.Value
		}
	}
	return host
}

// endBatch returns a batch that ends the series of gpu.exporter.up, because the endpoint is no
// longer scraped. Another endpoint may then expose the same devices.
func (b batchBuilder) endBatch(url string, ts pcommon.Timestamp) pmetric.Metrics {
	md := pmetric.NewMetrics()
	b.addExporterUp(md.ResourceMetrics().AppendEmpty(), url, ts).
		SetFlags(pmetric.DefaultDataPointFlags.WithNoRecordedValue(true))
	return md
}

// addExporterUp adds gpu.exporter.up to a Resource and returns its point.
func (b batchBuilder) addExporterUp(resource pmetric.ResourceMetrics, url string, ts pcommon.Timestamp) pmetric.NumberDataPoint {
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
