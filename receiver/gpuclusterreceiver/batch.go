package gpuclusterreceiver

import (
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/gpuclusterreceiver/internal/demand"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/gpuclusterreceiver/internal/metadata"
)

// maxBatch is the maximum number of points per batch. A large cluster has about a hundred thousand
// points, which is more than most exporters can send in one request.
const maxBatch = 8192

// The batches type converts points into batches.
type batches struct {
	clusterName string
	version     string
}

// The build method returns a batch of up to maxBatch points from the beginning of the given slice,
// and the number of these points. In the batch, consecutive points with the same Place share a
// Resource. Within a Resource, consecutive points with the same metric share a metric.
func (b *batches) build(from []demand.Point, now time.Time) (pmetric.Metrics, int) {
	md := pmetric.NewMetrics()
	n := min(len(from), maxBatch)
	at := pcommon.NewTimestampFromTime(now)
	var metrics pmetric.MetricSlice
	var dps pmetric.NumberDataPointSlice
	for i := range from[:n] {
		p := &from[i]
		placeChanged := i == 0 || p.Place != from[i-1].Place
		if placeChanged {
			metrics = b.resource(md, p.Place)
		}
		if placeChanged || p.Metric != from[i-1].Metric {
			dps = points.Begin(metrics.AppendEmpty(), p.Metric)
		}
		dp := dps.AppendEmpty()
		dp.SetTimestamp(at)
		if p.Metric.Int {
			dp.SetIntValue(p.Int)
		} else {
			dp.SetDoubleValue(p.Double)
		}
		attributes := dp.Attributes()
		attributes.EnsureCapacity(len(p.Attributes) + len(p.More))
		for _, a := range p.Attributes {
			attributes.PutStr(a.Key, a.Value)
		}
		for _, a := range p.More {
			attributes.PutStr(a.Key, a.Value)
		}
	}
	return md, n
}

// The resource method adds a Resource for the place to a batch and returns the metrics of this
// Resource.
func (b *batches) resource(md pmetric.Metrics, place demand.Place) pmetric.MetricSlice {
	rm := md.ResourceMetrics().AppendEmpty()
	attributes := rm.Resource().Attributes()
	putIfSet := func(key, value string) {
		if value != "" {
			attributes.PutStr(key, value)
		}
	}
	putIfSet(signal.K8sClusterName, b.clusterName)
	putIfSet(signal.K8sNodeName, place.Node)
	putIfSet(signal.K8sNamespaceName, place.Namespace)
	putIfSet(signal.K8sPodName, place.Pod)
	putIfSet(signal.K8sPodUID, place.PodUID)
	putIfSet(signal.K8sContainerName, place.Container)
	sm := rm.ScopeMetrics().AppendEmpty()
	sm.Scope().SetName(metadata.ScopeName)
	sm.Scope().SetVersion(b.version)
	return sm.Metrics()
}
