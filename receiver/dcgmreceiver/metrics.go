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
	version string // The version of the collector, which is also the version of the scope.
	node    string // The node of the exporter, or "" if the node is unknown.

	// nodeOnSamples is true if the node is also added to the Resources of the samples. The next
	// component needs the node name if one receiver scrapes several nodes.
	nodeOnSamples bool
}

// exporterBatch returns a batch that contains gpu.exporter.up, followed by the metrics that
// describe the exporter itself. All points have the timestamp ts. If the exporter's node is known,
// the Resource of gpu.exporter.up contains the node. The labels of the exporter's own metrics
// become point attributes.
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

// The rows method returns the label sets that describe devices. Label sets that describe the
// exporter itself are not returned.
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
// of a device once. Reading all values of a device once is called a round.
const maxRoundDuration = int64(5 * time.Second)

// joinTimes sets the timestamps of all samples from the last round to the newest of these
// timestamps. Samples without a timestamp and older samples do not change. The exporter reads
// values such as the used memory and the memory size one after another. However, later calculations
// can combine values only if the values have the same timestamp.
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

// clientPrefixes are the prefixes of the metrics that the Prometheus client library exposes about
// its own process.
var clientPrefixes = []string{"go_", "process_", "promhttp_"}

// isExporterOwn reports whether all samples of a label set describe the exporter itself instead of
// a device.
func isExporterOwn(set *exposition.LabelSet) bool {
	for _, s := range set.Samples {
		if !slices.ContainsFunc(clientPrefixes, func(prefix string) bool { return strings.HasPrefix(s.Metric.Name, prefix) }) {
			return false
		}
	}
	return true
}

// addExporterMetrics adds the metrics that describe the exporter itself. The Resource of the added
// metrics contains the exporter's node, if the node is known, and the host, if all label sets that
// contain a host contain the same one. If neither the node nor the host is known, the Resource
// contains the URL instead, so that different exporters have different Resources.
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

// hostOf returns the host if all label sets that contain a host contain the same one. Otherwise,
// hostOf returns "".
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

// hostOfSet returns the name of the host from a label set. The Hostname label takes precedence over
// the hostname label, because the hostname label may contain the name of a pod or a scrape target.
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

// endBatch returns a batch that ends the series of gpu.exporter.up for an endpoint that is no
// longer scraped. The batch does not end the series of devices, because another endpoint may now
// expose them.
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

// The scope method adds the receiver's scope to a Resource and returns the metrics of this scope.
func (b batchBuilder) scope(resource pmetric.ResourceMetrics) pmetric.MetricSlice {
	sm := resource.ScopeMetrics().AppendEmpty()
	sm.Scope().SetName(metadata.ScopeName)
	sm.Scope().SetVersion(b.version)
	return sm.Metrics()
}
