package gpuwindowprocessor

import (
	"math"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor/internal/window"
)

// isUntouched reports whether a metric is forwarded immediately and unchanged. Untouched metrics
// are gpu.exporter.up, Sums that are not cumulative, and all metrics that are neither a Gauge nor a
// Sum.
func isUntouched(m pmetric.Metric) bool {
	switch m.Type() {
	case pmetric.MetricTypeGauge:
		return m.Name() == signal.GPUExporterUp.Name
	case pmetric.MetricTypeSum:
		return m.Sum().AggregationTemporality() != pmetric.AggregationTemporalityCumulative ||
			m.Name() == signal.GPUExporterUp.Name
	default:
		return true
	}
}

// onlyUntouched returns a copy of the untouched metrics in md.
func onlyUntouched(md pmetric.Metrics) pmetric.Metrics {
	untouched := pmetric.NewMetrics()
	for _, rm := range md.ResourceMetrics().All() {
		var rmOut pmetric.ResourceMetrics
		placed := false
		for _, sm := range rm.ScopeMetrics().All() {
			var smOut pmetric.ScopeMetrics
			scoped := false
			for _, m := range sm.Metrics().All() {
				if !isUntouched(m) {
					continue
				}
				if !placed {
					rmOut, placed = untouched.ResourceMetrics().AppendEmpty(), true
					rm.Resource().CopyTo(rmOut.Resource())
					rmOut.SetSchemaUrl(rm.SchemaUrl())
				}
				if !scoped {
					smOut, scoped = rmOut.ScopeMetrics().AppendEmpty(), true
					sm.Scope().CopyTo(smOut.Scope())
					smOut.SetSchemaUrl(sm.SchemaUrl())
				}
				m.CopyTo(smOut.Metrics().AppendEmpty())
			}
		}
	}
	return untouched
}

// reader adds the points of metrics to the engine. The slices of a reader are reused for every
// point.
type reader struct {
	resource placedResource
	texts    []byte // reusable buffer for the encoded attributes of a scope or a metric
	point    window.Point
	// conflicts checks the error and energy counters. If the counters are not checked, conflicts is
	// nil.
	conflicts *conflictDetector
	now       time.Time
	delta     string // name of the first GPU signal with delta temporality, or empty
}

// The read method adds the points of all metrics to the engine, except metrics that are forwarded
// unchanged.
func (r *reader) read(in *window.Ingest, md pmetric.Metrics, now time.Time) {
	r.now = now
	for _, rm := range md.ResourceMetrics().All() {
		r.resource.set(rm.Resource().Attributes(), rm.SchemaUrl())
		for _, sm := range rm.ScopeMetrics().All() {
			in.SetScope(window.Scope{
				Name: sm.Scope().Name(), Version: sm.Scope().Version(), SchemaURL: sm.SchemaUrl(), Attrs: r.encode(sm.Scope().Attributes()),
			})
			for _, m := range sm.Metrics().All() {
				switch {
				case !isUntouched(m):
					r.readMetric(in, m)
				case m.Name() == signal.GPUExporterUp.Name && m.Type() == pmetric.MetricTypeGauge:
					for _, dp := range m.Gauge().DataPoints().All() {
						in.RecordArrival(r.resource.ofDevices.Key.Place.Node, nanos(dp.Timestamp()))
					}
				case r.delta == "" && m.Type() == pmetric.MetricTypeSum:
					if _, ours := signal.Lookup(m.Name()); ours {
						r.delta = m.Name()
					}
				}
			}
		}
	}
}

// encode encodes attributes. Each call allocates a new string, so the encode method is used only
// where attributes are rare.
func (r *reader) encode(attrs pcommon.Map) window.Attrs {
	r.texts = appendAttrs(r.texts[:0], attrs)
	return window.Attrs(r.texts)
}

func (r *reader) readMetric(in *window.Ingest, m pmetric.Metric) {
	kind := signal.Gauge
	var points pmetric.NumberDataPointSlice
	if m.Type() == pmetric.MetricTypeGauge {
		points = m.Gauge().DataPoints()
	} else {
		points = m.Sum().DataPoints()
		kind = signal.UpDownCounter
		if m.Sum().IsMonotonic() {
			kind = signal.Counter
		}
	}
	in.SetMetric(window.Metric{
		Name: m.Name(), Unit: m.Unit(), Description: m.Description(), Kind: kind, Metadata: r.encode(m.Metadata()),
	})
	energy := m.Name() == signal.HwEnergy.Name
	checked := r.conflicts != nil && kind != signal.Gauge && (energy || m.Name() == signal.HwErrors.Name)
	for _, dp := range points.All() {
		r.resource.setPoint(in, &r.point, dp.Attributes())
		r.point.Time, r.point.Start, r.point.Value = nanos(dp.Timestamp()), nanos(dp.StartTimestamp()), window.Double(math.NaN())
		switch {
		case dp.Flags().NoRecordedValue():
		case dp.ValueType() == pmetric.NumberDataPointValueTypeInt:
			r.point.Value = window.Int(dp.IntValue())
		case dp.ValueType() == pmetric.NumberDataPointValueTypeDouble:
			r.point.Value = window.Double(dp.DoubleValue())
		}
		in.Resolve(&r.point)
		if checked {
			r.conflicts.check(&r.resource.ofDevices.Key, energy, &r.point, r.now)
		}
	}
}

// nanos converts a timestamp for the engine. If a timestamp is too large for an int64, nanos
// returns the maximum, and the engine drops the sample because it is in the future.
func nanos(t pcommon.Timestamp) int64 { return int64(min(uint64(t), math.MaxInt64)) }
