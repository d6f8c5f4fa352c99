package gpuviewexporter

import (
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuviewexporter/internal/store"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// addBatch adds the data points in a batch of metrics to the store.
func addBatch(batch *store.Batch, md pmetric.Metrics) {
	var place store.Place
	var resourceDevice deviceAttributes // attributes of the Resource, for points that have no device attributes
	var metric *store.Metric
	isStored := func(name string) (ok bool) {
		metric, ok = store.Lookup(name)
		return ok
	}
	counts := pdatagpu.EachPoint(md, isStored, func(p *pdatagpu.Point) {
		if p.First {
			place, resourceDevice = placeOf(p), deviceAttributes{}
			p.ResourceAttributes(resourceDevice.setAttribute)
			resourceDevice.hold.Labels = p.PodLabels()
		}
		attribute := p.Own(metric.Attribute)
		if p.Ended {
			batch.Ended(&place, metric, attribute)
			batch.Count(store.NoValue, 1)
			return
		}
		d := resourceDevice
		p.OwnAttributes(d.setAttribute)
		point := store.Point{Metric: metric, Attribute: attribute, Reason: p.Own(signal.Reason), State: p.Own(signal.State), Start: p.Start, End: p.Time, Value: p.Value}
		if metric.Attribute == signal.UsageEstimated { // The points of usage counters also have a currency.
			copy(point.Currency[:], p.Own(signal.CostCurrency))
		}
		batch.Add(&place, d.id, &d.description, &d.hold, &point)
	})
	batch.Count(store.Ignored, counts.Others)
	batch.Count(store.Implausible, counts.Implausible)
	batch.Count(store.Clamped, counts.Clamped)
}

func placeOf(p *pdatagpu.Point) store.Place {
	h := &p.Holder
	place := store.Place{Cluster: p.Place.Cluster, Node: p.Place.Node, Namespace: h.Namespace, Pod: h.Pod, PodUID: h.UID, Container: h.Container}
	if !h.InPod() {
		place.Container = holderName(h)
	}
	return place
}

// holderName returns the name of a holder outside Kubernetes. A holder outside Kubernetes is a
// batch job, a service or a container.
func holderName(h *gpudata.Holder) string {
	const short = 12 // Container runtimes display the first 12 digits of a container ID.
	switch {
	case h.Job != "":
		return "job " + h.Job
	case h.Name != "":
		return h.Name
	}
	return h.ID[:min(len(h.ID), short)]
}

// deviceAttributes contains attributes of a device and of the device's holder.
type deviceAttributes struct {
	id          string
	description store.Description
	hold        store.Hold
}

// setAttribute stores the value of one attribute.
func (d *deviceAttributes) setAttribute(key, text string) {
	switch key {
	case signal.HardwareID:
		d.id = text
	case signal.HardwareParent:
		d.description.Parent = text
	case signal.HardwareName:
		d.description.Name = text
	case signal.HardwareModel:
		d.description.Model = text
	case signal.HardwareVendor:
		d.description.Vendor = text
	case signal.MIGProfile:
		d.description.MIGProfile = text
	case signal.MIGUUID:
		d.description.MIGUUID = text
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
