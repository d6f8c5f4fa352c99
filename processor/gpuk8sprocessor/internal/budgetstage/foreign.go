package budgetstage

import (
	"cmp"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/budget"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/presets"
)

// rows takes over what a batch has of other exporters. Their metrics are not of the table
// of signals, so that frames do not hold them.
func (p *gpuBudget) rows(md pmetric.Metrics, now time.Time) {
	for _, rm := range md.ResourceMetrics().All() {
		for _, sm := range rm.ScopeMetrics().All() {
			for _, m := range sm.Metrics().All() {
				s, ok := p.foreign[m.Name()]
				if !ok {
					continue
				}
				for _, dp := range points.Of(m).All() {
					if why, ok := p.row(rm.Resource().Attributes(), &s, dp, now); !ok {
						p.dropped[why]++
					}
				}
			}
		}
	}
}

// row takes over a point of another exporter. It returns false, and why, for one that is
// not kept.
func (p *gpuBudget) row(resource pcommon.Map, s *ranked, dp pmetric.NumberDataPoint, now time.Time) (why pdatagpu.Drop, ok bool) {
	v, why, ok := pdatagpu.Observation(dp)
	clamped, plausible := false, true
	if ok && s.Scope == presets.Utilization {
		v, clamped, plausible = signal.Clamp(v / 100)
		v *= 100
	}
	switch {
	case !ok:
		return why, false
	case !plausible:
		return pdatagpu.Implausible, false
	case v < 0:
		return pdatagpu.OutOfRange, false
	case s.Scope == presets.DeviceDuplicate:
		return deviceDuplicate, false
	case clamped:
		p.clamped++
	}
	// The dcgm receiver puts an exporter's labels on the Resource.
	label := func(name string) string {
		return cmp.Or(pdatagpu.Text(dp.Attributes(), name), pdatagpu.Text(resource, name))
	}
	r, ok := s.Row(label)
	if !ok {
		return unidentified, false
	}
	// Several nodes can come through one collector between.
	node := cmp.Or(label("node"), label("NodeName"), pdatagpu.Text(resource, signal.K8sNodeName))
	key := budget.FrameKey{
		Order: s.order, Cluster: pdatagpu.Text(resource, signal.K8sClusterName),
		From: pdatagpu.Text(resource, "service.name") + "/" + pdatagpu.Text(resource, "service.instance.id") + "/" + node,
	}
	return noRoom, p.book.AddRow(key, s.Scope, int64(dp.Timestamp()), now, r, whole(v*s.Bytes))
}
