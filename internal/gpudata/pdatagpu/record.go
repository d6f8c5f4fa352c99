package pdatagpu

import (
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Resource returns the attributes of a holder's Resource, or of the place's if h is zero, with
// everything that describes it: owners, instance type, labels.
func (b *Batch) Resource(f *gpudata.Frame, h gpudata.Holder) map[string]any {
	attrs := pcommon.NewMap()
	put(attrs, signal.HostName, f.Host)
	put(attrs, signal.K8sNodeName, f.Place.Node)
	put(attrs, signal.K8sClusterName, f.Place.Cluster)
	b.describe(f.Place, attrs)
	b.complete(f.Place, h, attrs)
	putNode(attrs, f)
	putHolder(attrs, &h)
	putOwner(attrs, f.Owner(h))
	return attrs.AsRaw()
}

// PutDevice writes the device to a log record. If exactly one user is known, it also writes the
// user's strategy and allocation.
func PutDevice(attrs pcommon.Map, d *gpudata.DeviceFrame, one *gpudata.User) {
	putDevice(attrs, d)
	attrs.PutStr(signal.HardwareType, signal.TypeGPU)
	putAllocation(attrs, &d.Allocation)
	if one != nil {
		putHolding(attrs, d, one)
	}
}
