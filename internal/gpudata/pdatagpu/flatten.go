package pdatagpu

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

// Flatten copies the attributes of each Resource to all of its data points, without overwriting
// existing attributes. Flatten allows backends that use only data point attributes, such as
// Prometheus, to distinguish a device's series from its containers' series.
func Flatten(md pmetric.Metrics) {
	for _, rm := range md.ResourceMetrics().All() {
		resource := rm.Resource().Attributes()
		if resource.Len() == 0 {
			continue
		}
		for _, sm := range rm.ScopeMetrics().All() {
			for _, m := range sm.Metrics().All() {
				eachAttributes(m, func(point pcommon.Map) {
					point.EnsureCapacity(point.Len() + resource.Len())
					for k, v := range resource.All() {
						if _, exists := point.Get(k); !exists {
							v.CopyTo(point.PutEmpty(k))
						}
					}
				})
			}
		}
	}
}

// eachAttributes calls do with the attributes of each data point of a metric of any type.
func eachAttributes(m pmetric.Metric, do func(pcommon.Map)) {
	switch m.Type() {
	case pmetric.MetricTypeGauge:
		for _, p := range m.Gauge().DataPoints().All() {
			do(p.Attributes())
		}
	case pmetric.MetricTypeSum:
		for _, p := range m.Sum().DataPoints().All() {
			do(p.Attributes())
		}
	case pmetric.MetricTypeHistogram:
		for _, p := range m.Histogram().DataPoints().All() {
			do(p.Attributes())
		}
	case pmetric.MetricTypeExponentialHistogram:
		for _, p := range m.ExponentialHistogram().DataPoints().All() {
			do(p.Attributes())
		}
	case pmetric.MetricTypeSummary:
		for _, p := range m.Summary().DataPoints().All() {
			do(p.Attributes())
		}
	case pmetric.MetricTypeEmpty:
	}
}
