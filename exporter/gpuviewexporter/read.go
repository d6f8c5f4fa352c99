package gpuviewexporter

import (
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuviewexporter/internal/store"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// read writes a batch of metrics to the store.
func read(in *store.Batch, md pmetric.Metrics) {
	var place store.Place
	var of device // The device of the Resource, for points without device attributes.
	var kept *store.Metric
	wants := func(metric string) (ok bool) {
		kept, ok = store.Lookup(metric)
		return ok
	}
	counts := pdatagpu.EachPoint(md, wants, func(p *pdatagpu.Point) {
		if p.First {
			place, of = placeOf(p), device{}
			p.ResourceAttributes(of.take)
			of.hold.Labels = p.PodLabels()
		}
		own := p.Own(kept.Attribute)
		if p.Ended {
			in.Ended(&place, kept, own)
			in.Count(store.NoValue, 1)
			return
		}
		d := of
		p.OwnAttributes(d.take)
		point := store.Point{Metric: kept, Attribute: own, Reason: p.Own(signal.Reason), Start: p.Start, End: p.Time, Value: p.Value}
		if kept.Attribute == signal.UsageEstimated { // A usage counter also has a currency.
			copy(point.Currency[:], p.Own(signal.CostCurrency))
		}
		in.Add(&place, d.id, &d.about, &d.hold, &point)
	})
	in.Count(store.Ignored, counts.Others)
	in.Count(store.Implausible, counts.Implausible)
	in.Count(store.Clamped, counts.Clamped)
}

func placeOf(p *pdatagpu.Point) store.Place {
	h := &p.Holder
	place := store.Place{Cluster: p.Place.Cluster, Node: p.Place.Node, Namespace: h.Namespace, Pod: h.Pod, PodUID: h.UID, Container: h.Container}
	if !h.InPod() {
		place.Container = outside(h)
	}
	return place
}

// outside returns the name of a holder outside Kubernetes: a batch job, a service or a container.
func outside(h *gpudata.Holder) string {
	const short = 12 // Container runtimes show this many digits of an id.
	switch {
	case h.Job != "":
		return "job " + h.Job
	case h.Name != "":
		return h.Name
	}
	return h.ID[:min(len(h.ID), short)]
}

// device has the attributes of a device and of its holder.
type device struct {
	id    string
	about store.Description
	hold  store.Hold
}

// take stores the value of one attribute.
func (d *device) take(key, text string) {
	switch key {
	case signal.HardwareID:
		d.id = text
	case signal.HardwareParent:
		d.about.Parent = text
	case signal.HardwareName:
		d.about.Name = text
	case signal.HardwareModel:
		d.about.Model = text
	case signal.HardwareVendor:
		d.about.Vendor = text
	case signal.MIGProfile:
		d.about.MIGProfile = text
	case signal.MIGUUID:
		d.about.MIGUUID = text
	case signal.SharingStrategy:
		d.hold.Sharing = text
	case signal.ResourceClaimName:
		d.hold.Claim = text
	case signal.DeviceClassName:
		d.hold.Class = text
	case signal.K8sWorkloadKind:
		d.hold.WorkloadKind = text
	case signal.K8sWorkloadName:
		d.hold.Workload = text
	}
}
