package pdatatest

import (
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// ofDevice reports whether an attribute identifies or describes a device or its allocation.
func ofDevice(key string, _ pcommon.Value) bool {
	return strings.HasPrefix(key, "hw.") && key != signal.State && key != signal.GPUTask && key != signal.SensorLocation ||
		strings.HasPrefix(key, "gpu.mig.") || strings.HasPrefix(key, "dra.") || strings.HasPrefix(key, "k8s.resourceclaim.") ||
		key == signal.SharingStrategy || key == signal.DeviceClassName
}

// DevicesOnResources returns a copy of a batch in which the attributes of devices have been moved
// from the points to their Resources.
func DevicesOnResources(md pmetric.Metrics) pmetric.Metrics { return moved(md, true) }

// DevicesOnPoints returns a copy of a batch in which the attributes of devices have been moved from
// Resources to points. It reverses DevicesOnResources.
func DevicesOnPoints(md pmetric.Metrics) pmetric.Metrics { return moved(md, false) }

func moved(md pmetric.Metrics, toResources bool) pmetric.Metrics {
	out := pmetric.NewMetrics()
	for _, rm := range md.ResourceMetrics().All() {
		for _, sm := range rm.ScopeMetrics().All() {
			for _, m := range sm.Metrics().All() {
				for i := range max(1, points.Of(m).Len()) { // if a metric has no numeric points, copy it once
					one := out.ResourceMetrics().AppendEmpty()
					rm.Resource().CopyTo(one.Resource())
					scope := one.ScopeMetrics().AppendEmpty()
					sm.Scope().CopyTo(scope.Scope())
					alone := scope.Metrics().AppendEmpty()
					m.CopyTo(alone)
					if points.Of(m).Len() == 0 {
						continue
					}
					nth := 0
					points.Of(alone).RemoveIf(func(pmetric.NumberDataPoint) bool {
						nth++
						return nth != i+1
					})
					from, to := points.Of(alone).At(0).Attributes(), one.Resource().Attributes()
					if !toResources {
						from, to = to, from
					}
					if _, device := from.Get(signal.HardwareID); device {
						for k, v := range from.All() {
							if ofDevice(k, v) {
								v.CopyTo(to.PutEmpty(k))
							}
						}
						from.RemoveIf(ofDevice)
					}
				}
			}
		}
	}
	return out
}
