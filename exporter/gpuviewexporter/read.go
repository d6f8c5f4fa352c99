package gpuviewexporter

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuviewexporter/internal/store"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// read takes a batch of metrics into the store.
func read(in *store.Batch, md pmetric.Metrics) {
	for _, rm := range md.ResourceMetrics().All() {
		place := placeOf(rm.Resource().Attributes())
		for _, sm := range rm.ScopeMetrics().All() {
			for _, m := range sm.Metrics().All() {
				readMetric(in, &place, m)
			}
		}
	}
}

func readMetric(in *store.Batch, place *store.Place, m pmetric.Metric) {
	var points pmetric.NumberDataPointSlice
	switch m.Type() {
	case pmetric.MetricTypeGauge:
		points = m.Gauge().DataPoints()
	case pmetric.MetricTypeSum:
		points = m.Sum().DataPoints()
	case pmetric.MetricTypeHistogram:
		in.Count(store.Ignored, m.Histogram().DataPoints().Len())
		return
	case pmetric.MetricTypeExponentialHistogram:
		in.Count(store.Ignored, m.ExponentialHistogram().DataPoints().Len())
		return
	case pmetric.MetricTypeSummary:
		in.Count(store.Ignored, m.Summary().DataPoints().Len())
		return
	default:
		return
	}
	kept, ok := store.Lookup(m.Name())
	if !ok {
		in.Count(store.Ignored, points.Len())
		return
	}
	for _, dp := range points.All() {
		p := store.Point{Metric: kept, Start: int64(dp.StartTimestamp()), End: int64(dp.Timestamp())}
		switch {
		case dp.Flags().NoRecordedValue() || dp.ValueType() == pmetric.NumberDataPointValueTypeEmpty:
			if own, ok := dp.Attributes().Get(kept.Attribute); ok {
				in.Ended(place, kept, own.AsString())
			}
			in.Count(store.NoValue, 1)
			continue
		case dp.ValueType() == pmetric.NumberDataPointValueTypeInt:
			p.Value = float64(dp.IntValue())
		default:
			p.Value = dp.DoubleValue()
		}
		var d store.Description
		var hold store.Hold
		id := deviceOf(dp.Attributes(), &p, &d, &hold)
		in.Add(place, id, &d, &hold, &p)
	}
}

func placeOf(attributes pcommon.Map) store.Place {
	text := func(key string) string {
		if v, ok := attributes.Get(key); ok {
			return v.AsString()
		}
		return ""
	}
	place := store.Place{
		Cluster: text(signal.K8sClusterName), Node: text(signal.K8sNodeName), Namespace: text(signal.K8sNamespaceName),
		Pod: text(signal.K8sPodName), PodUID: text(signal.K8sPodUID), Container: text(signal.K8sContainerName),
	}
	if place.Node == "" {
		place.Node = text(signal.HostName)
	}
	return place
}

// deviceOf returns a point's hw.id, and fills in the point's own attribute, and
// what the point says of the device and of a hold on it.
func deviceOf(attributes pcommon.Map, p *store.Point, d *store.Description, hold *store.Hold) (id string) {
	for key, v := range attributes.All() {
		if key == p.Metric.Attribute {
			p.Attribute = v.AsString()
			continue
		}
		switch key {
		case signal.Reason:
			p.Reason = v.AsString()
		case signal.HardwareID:
			id = v.AsString()
		case signal.HardwareParent:
			d.Parent = v.AsString()
		case signal.HardwareName:
			d.Name = v.AsString()
		case signal.HardwareModel:
			d.Model = v.AsString()
		case signal.HardwareVendor:
			d.Vendor = v.AsString()
		case signal.MIGProfile:
			d.MIGProfile = v.AsString()
		case signal.MIGUUID:
			d.MIGUUID = v.AsString()
		case signal.SharingStrategy:
			hold.Sharing = v.AsString()
		case signal.ResourceClaimName:
			hold.Claim = v.AsString()
		case signal.DeviceClassName:
			hold.Class = v.AsString()
		}
	}
	return id
}
