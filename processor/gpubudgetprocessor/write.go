package gpubudgetprocessor

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpubudgetprocessor/internal/budget"
)

const scopeName = "github.com/otelcol-gpu/otelcol-gpu/processor/gpubudgetprocessor"

// writer adds points to a batch.
type writer struct {
	disabled map[*signal.Metric]bool
	version  string

	md      pmetric.Metrics
	scopes  map[pmetric.ResourceMetrics]pmetric.MetricSlice
	metrics map[metricKey]pmetric.NumberDataPointSlice
	added   map[addedKey]pmetric.ResourceMetrics
}

type metricKey struct {
	resource pmetric.ResourceMetrics
	metric   *signal.Metric
}

// addedKey is a Resource of a container that the batch does not have.
type addedKey struct {
	place     pmetric.ResourceMetrics
	container budget.Container
}

// target is where points go, and what describes them.
type target struct {
	resource pmetric.ResourceMetrics
	attrs    pcommon.Map
	holder   bool
}

func (w *writer) begin(md pmetric.Metrics) {
	w.md = md
	w.scopes = map[pmetric.ResourceMetrics]pmetric.MetricSlice{}
	w.metrics = map[metricKey]pmetric.NumberDataPointSlice{}
	w.added = map[addedKey]pmetric.ResourceMetrics{}
}

// target returns where the points of a user go: to its own Resource, or for one
// that the batch does not name to a new one beside the device's.
func (w *writer) target(d *device, u *budget.User, of *user) target {
	if of != nil {
		return target{of.resource, of.attrs, true}
	}
	attrs := d.attrs
	if !d.seen {
		attrs = pcommon.NewMap()
		attrs.PutStr(signal.HardwareID, d.ID)
		if d.Board != "" {
			attrs.PutStr(signal.HardwareParent, d.Board)
		}
	}
	key := addedKey{d.resource, u.Container}
	rm, ok := w.added[key]
	if !ok {
		rm = w.md.ResourceMetrics().AppendEmpty()
		resource := rm.Resource().Attributes()
		for _, k := range []string{signal.HostName, signal.K8sNodeName, signal.K8sClusterName} {
			put(resource, k, text(d.resource.Resource().Attributes(), k))
		}
		put(resource, signal.K8sNamespaceName, u.Namespace)
		put(resource, signal.K8sPodName, u.Pod)
		put(resource, signal.K8sPodUID, u.UID)
		put(resource, signal.K8sContainerName, u.Name)
		w.added[key] = rm
	}
	return target{rm, attrs, false}
}

// put sets an attribute that is known.
func put(attrs pcommon.Map, key, value string) {
	if value != "" {
		attrs.PutStr(key, value)
	}
}

// point adds a point with what describes its device. It reports false when the
// metric is switched off.
func (w *writer) point(to target, s *signal.Metric, t int64, from budget.Source) (pmetric.NumberDataPoint, bool) {
	if w.disabled[s] {
		return pmetric.NumberDataPoint{}, false
	}
	key := metricKey{to.resource, s}
	dps, ok := w.metrics[key]
	if !ok {
		dps = w.metric(to.resource, s)
		w.metrics[key] = dps
	}
	dp := dps.AppendEmpty()
	dp.SetTimestamp(pcommon.Timestamp(t))
	to.attrs.CopyTo(dp.Attributes())
	if to.holder {
		dp.Attributes().Remove(signal.HolderSource)
	}
	if from != budget.NoSource {
		dp.Attributes().PutStr(signal.BudgetSource, from.String())
	}
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

func (w *writer) bytes(to target, s *signal.Metric, t, v int64, from budget.Source) {
	if dp, ok := w.point(to, s, t, from); ok {
		dp.SetIntValue(v)
	}
}

func (w *writer) ratio(to target, s *signal.Metric, t int64, v float64, from budget.Source) {
	if dp, ok := w.point(to, s, t, from); ok {
		dp.SetDoubleValue(v)
	}
}

// state writes a point for every reason: one that ends must not linger in
// backends that know no end of a series.
func (w *writer) state(to target, t int64, holds budget.Reason) {
	for r := range budget.NumReasons {
		dp, ok := w.point(to, signal.GPUMemoryAttributionState, t, budget.NoSource)
		if !ok {
			return
		}
		v := int64(0)
		if r == holds {
			v = 1
		}
		dp.SetIntValue(v)
		dp.Attributes().PutStr(signal.State, r.State().String())
		dp.Attributes().PutStr(signal.Reason, r.String())
	}
}
