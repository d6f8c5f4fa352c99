package pdatagpu

import (
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Resource returns the attributes of a holder's Resource, or of the place's Resource if h is zero.
// The attributes include owners, the instance type, and labels.
func (b *Batch) Resource(f *gpudata.Frame, h gpudata.Holder) map[string]any {
	attrs := pcommon.NewMap()
	PutPlace(attrs, f.Place, f.Host)
	b.describe(f.Place, attrs)
	b.complete(f.Place, h, attrs)
	putNode(attrs, f)
	PutHolder(attrs, &h)
	putOwner(attrs, f.Owner(h))
	return attrs.AsRaw()
}

// PutDevice writes the device to the attributes of a log record. If the record is about a single
// user, the caller passes the user as the last argument, and PutDevice also writes the user's
// strategy and allocation. If the record is not about a single user, the last argument is nil.
func PutDevice(attrs pcommon.Map, d *gpudata.DeviceFrame, one *gpudata.User) {
	putDevice(attrs, d)
	attrs.PutStr(signal.HardwareType, signal.TypeGPU)
	putAllocation(attrs, &d.Allocation)
	if one != nil {
		putHolding(attrs, d, one)
	}
}
