package pdatagpu

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/exposition"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Rows contains the samples of a scrape as the exporter exposed them. A receiver sends Rows to the
// synthesizer.
type Rows struct {
	// Scope is the receiver's scope.
	Scope gpudata.Scope
	// Node is the exporter's node. Node is "" if the Resources of the rows do not contain the node.
	Node string
	// Time is the time of the samples that have no timestamp.
	Time pcommon.Timestamp
	// Sets contains the label sets and their samples. While the exporter exposes a label set, every
	// scrape contains the same pointer to the label set.
	Sets []*exposition.LabelSet
}

// At returns the time of a label set's ith sample.
func (r *Rows) At(set *exposition.LabelSet, i int) pcommon.Timestamp {
	if i < len(set.Times) && set.Times[i] != 0 {
		return pcommon.Timestamp(set.Times[i])
	}
	return r.Time
}

// Resource returns the Resource attributes of a label set.
func (r *Rows) Resource(set *exposition.LabelSet) pcommon.Map {
	attrs := pcommon.NewMap()
	r.putResource(attrs, set)
	return attrs
}

func (r *Rows) putResource(attrs pcommon.Map, set *exposition.LabelSet) {
	attrs.EnsureCapacity(len(set.Labels) + 1)
	put(attrs, signal.K8sNodeName, r.Node)
	for _, l := range set.Labels {
		attrs.PutStr(l.Name, l.Value)
	}
}

// Points returns the number of data points that the rows have after conversion to metrics.
func (r *Rows) Points() (n int) {
	for _, set := range r.Sets {
		n += len(set.Samples)
	}
	return n
}

// WriteTo converts the rows to data points and appends them to md.
func (r *Rows) WriteTo(md pmetric.Metrics) {
	r.Write(md, func(*exposition.LabelSet, *exposition.Metric) bool { return true })
}

// Write appends the rows of selected metrics to a batch. Each label set becomes a Resource that has
// the labels as attributes. Each sample becomes a metric with one data point, which has no
// attributes. The strings in the batch share memory with the parser's cache.
func (r *Rows) Write(md pmetric.Metrics, which func(*exposition.LabelSet, *exposition.Metric) bool) {
	for _, set := range r.Sets {
		var metrics pmetric.MetricSlice
		begun := false
		for i, s := range set.Samples {
			if !which(set, s.Metric) {
				continue
			}
			if !begun {
				begun = true
				rm := md.ResourceMetrics().AppendEmpty()
				r.putResource(rm.Resource().Attributes(), set)
				sm := rm.ScopeMetrics().AppendEmpty()
				putScope(sm.Scope(), r.Scope)
				metrics = sm.Metrics()
				metrics.EnsureCapacity(len(set.Samples))
			}
			point := BeginExposed(metrics.AppendEmpty(), s.Metric).AppendEmpty()
			point.SetTimestamp(r.At(set, i))
			point.SetDoubleValue(s.Value)
		}
	}
}

// BeginExposed sets a metric's name to the exposed name and returns the metric's data points.
func BeginExposed(m pmetric.Metric, of *exposition.Metric) pmetric.NumberDataPointSlice {
	m.SetName(of.Name)
	if !of.Counter {
		return m.SetEmptyGauge().DataPoints()
	}
	sum := m.SetEmptySum()
	sum.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	sum.SetIsMonotonic(true)
	return sum.DataPoints()
}
