package gpupowerprocessor

import (
	"math"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpupowerprocessor/internal/split"
)

const scopeName = "github.com/otelcol-gpu/otelcol-gpu/processor/gpupowerprocessor"

// ownAttributes are those that tell the series of a sample metric on one device
// apart. They do not describe the device.
var ownAttributes = func() map[string]bool {
	keys := map[string]bool{}
	for _, m := range signal.All() {
		if m.Stage == signal.StageSample {
			for _, k := range m.Attributes {
				keys[k] = true
			}
		}
	}
	return keys
}()

// writer adds points to a batch, under the Resources that it has.
type writer struct {
	disabled map[*signal.Metric]bool
	version  string

	md        pmetric.Metrics
	scopes    map[pmetric.ResourceMetrics]pmetric.MetricSlice
	metrics   map[metricKey]pmetric.NumberDataPointSlice
	resources map[*processResource]pmetric.ResourceMetrics
}

type metricKey struct {
	resource pmetric.ResourceMetrics
	metric   *signal.Metric
}

func (w *writer) begin(md pmetric.Metrics) {
	w.md = md
	w.scopes = map[pmetric.ResourceMetrics]pmetric.MetricSlice{}
	w.metrics = map[metricKey]pmetric.NumberDataPointSlice{}
	w.resources = map[*processResource]pmetric.ResourceMetrics{}
}

// point adds a point that has no attributes yet. It reports false when the
// metric is switched off.
func (w *writer) point(rm pmetric.ResourceMetrics, s *signal.Metric, t int64, v float64) (pmetric.NumberDataPoint, bool) {
	if w.disabled[s] {
		return pmetric.NumberDataPoint{}, false
	}
	key := metricKey{rm, s}
	dps, ok := w.metrics[key]
	if !ok {
		dps = w.metric(rm, s)
		w.metrics[key] = dps
	}
	dp := dps.AppendEmpty()
	dp.SetTimestamp(pcommon.Timestamp(t))
	dp.SetDoubleValue(v)
	return dp, true
}

func (w *writer) metric(rm pmetric.ResourceMetrics, s *signal.Metric) pmetric.NumberDataPointSlice {
	ms, ok := w.scopes[rm]
	if !ok {
		sm := rm.ScopeMetrics().AppendEmpty()
		sm.Scope().SetName(scopeName)
		sm.Scope().SetVersion(w.version)
		ms = sm.Metrics()
		w.scopes[rm] = ms
	}
	return points.Begin(ms.AppendEmpty(), s)
}

// ofBoard adds a point of a board.
func (w *writer) ofBoard(b *board, s *signal.Metric, t int64, v float64) {
	dp, ok := w.point(b.resource, s, t, v)
	if !ok {
		return
	}
	b.attrs.CopyTo(dp.Attributes())
	if b.seen {
		return
	}
	// The power stood on a row of an instance.
	dp.Attributes().RemoveIf(func(k string, _ pcommon.Value) bool {
		switch k {
		case signal.HardwareParent, signal.MIGProfile, signal.MIGInstanceID, signal.MIGUUID:
			return true
		}
		return false
	})
	dp.Attributes().PutStr(signal.HardwareID, b.id)
}

// ofInstance adds the power of an instance, beside that of its board.
func (w *writer) ofInstance(b *board, i *instance, t int64) {
	dp, ok := w.point(b.resource, signal.GPUInstancePower, t, i.Power)
	if !ok {
		return
	}
	attrs := dp.Attributes()
	if i.seen {
		i.attrs.CopyTo(attrs)
		attrs.RemoveIf(func(k string, _ pcommon.Value) bool { return ownAttributes[k] })
	} else {
		// Only a holder names the instance.
		attrs.PutStr(signal.HardwareID, i.id)
		attrs.PutStr(signal.HardwareParent, b.id)
		if i.profile != "" {
			attrs.PutStr(signal.MIGProfile, i.profile)
		}
	}
	how(attrs, b.Source, i.Estimated)
}

// ofHolder adds the power of a container.
func (w *writer) ofHolder(b *board, h *split.Holder, by heldBy, t int64) {
	if dp, ok := w.point(by.resource, signal.K8sContainerGPUPower, t, h.Power); ok {
		holderAttributes(by, dp.Attributes())
		how(dp.Attributes(), b.Source, h.Estimated)
	}
}

// energy adds the energy of a container. How its power came about is not said: it
// may have changed along the way.
func (w *writer) energy(by heldBy, start, t int64, joules float64) {
	if dp, ok := w.point(by.resource, signal.K8sContainerGPUEnergy, t, joules); ok {
		dp.SetStartTimestamp(pcommon.Timestamp(start))
		holderAttributes(by, dp.Attributes())
	}
}

func holderAttributes(by heldBy, to pcommon.Map) {
	by.attrs.CopyTo(to)
	to.Remove(signal.HolderSource)
}

// ofProcess adds the power of a process, under a copy of its Resource: the
// process may have been named in an earlier batch.
func (w *writer) ofProcess(b *board, p *process, share *split.Process, t int64) {
	if w.disabled[signal.ProcessGPUPower] || math.IsNaN(share.Power) {
		return
	}
	rm, ok := w.resources[p.resource]
	if !ok {
		rm = w.md.ResourceMetrics().AppendEmpty()
		p.resource.attrs.CopyTo(rm.Resource().Attributes())
		w.resources[p.resource] = rm
	}
	dp, _ := w.point(rm, signal.ProcessGPUPower, t, share.Power)
	p.attrs.CopyTo(dp.Attributes())
	how(dp.Attributes(), b.Source, share.Estimated)
}

// how says how power was shared out.
func how(attrs pcommon.Map, s split.Source, estimated bool) {
	if s != split.None {
		attrs.PutStr(signal.PowerSource, s.String())
	}
	if estimated {
		attrs.PutBool(signal.PowerEstimated, true)
	}
}
