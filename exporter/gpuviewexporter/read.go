package gpuviewexporter

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuviewexporter/internal/store"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// read takes a batch of metrics into the store.
func read(in *store.Batch, md pmetric.Metrics) {
	for _, rm := range md.ResourceMetrics().All() {
		place := placeOf(rm.Resource().Attributes())
		var of device // where points do not say it
		of.take(rm.Resource().Attributes())
		of.hold.Labels = pdatagpu.PodLabels(rm.Resource().Attributes())
		for _, sm := range rm.ScopeMetrics().All() {
			for _, m := range sm.Metrics().All() {
				readMetric(in, &place, &of, m)
			}
		}
	}
}

func readMetric(in *store.Batch, place *store.Place, of *device, m pmetric.Metric) {
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
		p.Attribute, p.Reason = pdatagpu.Text(dp.Attributes(), kept.Attribute), pdatagpu.Text(dp.Attributes(), signal.Reason)
		d := *of
		d.take(dp.Attributes())
		in.Add(place, d.id, &d.about, &d.hold, &p)
	}
}

func placeOf(attributes pcommon.Map) store.Place {
	text := func(key string) string { return pdatagpu.Text(attributes, key) }
	place := store.Place{
		Cluster: text(signal.K8sClusterName), Node: text(signal.K8sNodeName), Namespace: text(signal.K8sNamespaceName),
		Pod: text(signal.K8sPodName), PodUID: text(signal.K8sPodUID), Container: text(signal.K8sContainerName),
	}
	if place.Node == "" {
		place.Node = text(signal.HostName)
	}
	if h := pdatagpu.HolderOf(attributes); !h.InPod() {
		place.Container = outside(&h)
	}
	return place
}

// outside names a holder outside Kubernetes: a batch job, a service or a container.
func outside(h *gpudata.Holder) string {
	const short = 12 // digits of an id, as container runtimes show them
	switch {
	case h.Job != "":
		return "job " + h.Job
	case h.Name != "":
		return h.Name
	}
	return h.ID[:min(len(h.ID), short)]
}

// device is a device, with its description and who holds it, as attributes have them.
type device struct {
	id    string
	about store.Description
	hold  store.Hold
}

// take takes over what attributes say.
func (d *device) take(attributes pcommon.Map) {
	for key, v := range attributes.All() {
		switch key {
		case signal.HardwareID:
			d.id = v.AsString()
		case signal.HardwareParent:
			d.about.Parent = v.AsString()
		case signal.HardwareName:
			d.about.Name = v.AsString()
		case signal.HardwareModel:
			d.about.Model = v.AsString()
		case signal.HardwareVendor:
			d.about.Vendor = v.AsString()
		case signal.MIGProfile:
			d.about.MIGProfile = v.AsString()
		case signal.MIGUUID:
			d.about.MIGUUID = v.AsString()
		case signal.SharingStrategy:
			d.hold.Sharing = v.AsString()
		case signal.ResourceClaimName:
			d.hold.Claim = v.AsString()
		case signal.DeviceClassName:
			d.hold.Class = v.AsString()
		case signal.K8sWorkloadKind:
			d.hold.WorkloadKind = v.AsString()
		case signal.K8sWorkloadName:
			d.hold.Workload = v.AsString()
		}
	}
}
