// Package points iterates over the number data points of metrics.
package points

import (
	"iter"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Begin sets the name, unit, description, and data type of an empty metric to those of s, and
// returns the metric's data points.
func Begin(m pmetric.Metric, s *signal.Metric) pmetric.NumberDataPointSlice {
	m.SetName(s.Name)
	m.SetUnit(s.Unit)
	m.SetDescription(s.Description)
	if s.Kind == signal.Gauge {
		return m.SetEmptyGauge().DataPoints()
	}
	sum := m.SetEmptySum()
	sum.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	sum.SetIsMonotonic(s.Kind == signal.Counter)
	return sum.DataPoints()
}

// Of returns the number data points of a gauge or a sum. Metrics of other types do not have number
// data points.
func Of(m pmetric.Metric) pmetric.NumberDataPointSlice {
	switch m.Type() {
	case pmetric.MetricTypeGauge:
		return m.Gauge().DataPoints()
	case pmetric.MetricTypeSum:
		return m.Sum().DataPoints()
	}
	return pmetric.NewNumberDataPointSlice()
}

// IsDelta reports whether a metric is a Sum with delta temporality. The data points of such a
// metric contain increments, whereas the counters of exporters and of this project contain totals.
func IsDelta(m pmetric.Metric) bool {
	return m.Type() == pmetric.MetricTypeSum && m.Sum().AggregationTemporality() == pmetric.AggregationTemporalityDelta
}

// Value returns the value of a data point as a float64, even if the value is an integer.
func Value(dp pmetric.NumberDataPoint) float64 {
	if dp.ValueType() == pmetric.NumberDataPointValueTypeInt {
		return float64(dp.IntValue())
	}
	return dp.DoubleValue()
}

// Point is a number data point together with its resource, scope, and metric.
type Point struct {
	pmetric.NumberDataPoint
	Resource pcommon.Resource
	Scope    pcommon.InstrumentationScope
	Metric   pmetric.Metric
}

// All iterates over the number data points of all metrics.
func All(md pmetric.Metrics) iter.Seq[Point] {
	return func(yield func(Point) bool) {
		for _, rm := range md.ResourceMetrics().All() {
			for _, sm := range rm.ScopeMetrics().All() {
				for _, m := range sm.Metrics().All() {
					for _, dp := range Of(m).All() {
						if !yield(Point{dp, rm.Resource(), sm.Scope(), m}) {
							return
						}
					}
				}
			}
		}
	}
}
