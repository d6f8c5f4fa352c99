package gpuwindowprocessor

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor/internal/window"
)

// writer converts the engine's rows to metrics.
type writer struct {
	// version is the version of the instrumentation scope for the results of rules.
	version string
	// The starts field is true if the results of rules have a StartTimestamp.
	starts bool
	// onResources is true if each device has a separate Resource that contains the device's
	// attributes.
	onResources bool
	// The flat field is true if the attributes of each Resource are copied to its points.
	flat bool
	// The fit field is the estimated number of rows that fit in the next batch, or 0 before the
	// first batch.
	fit int
}

// maxBatchBytes is the maximum size of a batch that is encoded as OTLP. By default, a gRPC server
// accepts messages of up to 4 MiB. A limit on the number of points is not enough, because long
// labels are repeated on each point.
const maxBatchBytes = 3 << 20

// writeBatch returns as many of the first rows as fit in a batch of maxBatchBytes, and the number
// of these rows. If the first row alone is larger, the batch contains only that row.
func (w *writer) writeBatch(rows []window.Row) (md pmetric.Metrics, n int) {
	n = len(rows)
	if w.fit > 0 {
		n = min(n, w.fit)
	}
	for {
		md = w.write(rows[:n])
		size := (&pmetric.ProtoMarshaler{}).MetricsSize(md)
		w.fit = max(1, n*(maxBatchBytes/10*9)/size)
		if size <= maxBatchBytes || n == 1 {
			return md, n
		}
		n = min(n-1, w.fit)
	}
}

// The write method returns the rows as one batch. The batch contains one ResourceMetrics for each
// Resource or, if onResources is set, for each combination of Resource and device. Each
// ResourceMetrics contains one Metric for each metric of each scope.
func (w *writer) write(rows []window.Row) pmetric.Metrics {
	md := pmetric.NewMetrics()
	var (
		rm     pmetric.ResourceMetrics
		sm     pmetric.ScopeMetrics
		points pmetric.NumberDataPointSlice
		last   window.Row
		// The number of metrics of the previous Resource (metrics) and the number of points of the
		// previous metric (ofMetric). Both numbers are used as capacities, because the next
		// Resource usually has the same number of metrics, and the next metric usually has the same
		// number of points.
		metrics, ofMetric int
	)
	devices := deviceAttrs{}
	for i := range rows {
		row := &rows[i]
		newResource := i == 0 || row.Resource != last.Resource || w.onResources && row.Device != last.Device
		newScope := newResource || row.Scope != last.Scope
		if newResource {
			rm = md.ResourceMetrics().AppendEmpty()
			rm.SetSchemaUrl(row.Resource.SchemaURL)
			putAttrs(rm.Resource().Attributes(), row.Resource.Attrs)
			if w.onResources {
				putAttrs(rm.Resource().Attributes(), row.Device)
			}
		}
		if newScope {
			if i > 0 {
				metrics = sm.Metrics().Len()
			}
			sm = rm.ScopeMetrics().AppendEmpty()
			sm.Metrics().EnsureCapacity(metrics)
			w.writeScope(sm, row.Scope)
		}
		if newScope || row.Metric != last.Metric {
			if i > 0 {
				ofMetric = points.Len()
			}
			points = w.writeMetric(sm.Metrics().AppendEmpty(), row.Metric)
			points.EnsureCapacity(ofMetric)
		}
		w.writePoint(points.AppendEmpty(), row, devices)
		last = *row
	}
	if w.flat {
		pdatagpu.Flatten(md)
	}
	return md
}

// deviceAttrs contains the decoded attributes of the devices in one batch. Copying a decoded map to
// each point is faster than decoding the attributes for each point.
type deviceAttrs map[window.Attrs]pcommon.Map

func (d deviceAttrs) mapOf(row *window.Row) pcommon.Map {
	m, ok := d[row.Device]
	if !ok {
		m = pcommon.NewMap()
		putAttrs(m, row.Device)
		d[row.Device] = m
	}
	return m
}

func (w *writer) writeScope(sm pmetric.ScopeMetrics, s *window.Scope) {
	if s == nil {
		sm.Scope().SetName(metadata.ScopeName)
		sm.Scope().SetVersion(w.version)
		return
	}
	sm.SetSchemaUrl(s.SchemaURL)
	sm.Scope().SetName(s.Name)
	sm.Scope().SetVersion(s.Version)
	putAttrs(sm.Scope().Attributes(), s.Attrs)
}

func (w *writer) writeMetric(m pmetric.Metric, info *window.Metric) pmetric.NumberDataPointSlice {
	m.SetName(info.Name)
	m.SetUnit(info.Unit)
	m.SetDescription(info.Description)
	putAttrs(m.Metadata(), info.Metadata)
	if info.Kind == signal.Gauge {
		return m.SetEmptyGauge().DataPoints()
	}
	sum := m.SetEmptySum()
	sum.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	sum.SetIsMonotonic(info.Kind == signal.Counter)
	return sum.DataPoints()
}

func (w *writer) writePoint(dp pmetric.NumberDataPoint, row *window.Row, devices deviceAttrs) {
	attrs := dp.Attributes()
	if !w.onResources {
		device := devices.mapOf(row)
		attrs.EnsureCapacity(device.Len() + row.Own.Len() + row.Extra.Len())
		device.CopyTo(attrs)
	}
	putAttrs(attrs, row.Own)
	putAttrs(attrs, row.Extra)
	dp.SetTimestamp(pcommon.Timestamp(row.Time))
	if row.Scope != nil || w.starts {
		dp.SetStartTimestamp(pcommon.Timestamp(row.Start))
	}
	switch {
	case row.Ended:
		dp.SetFlags(pmetric.DefaultDataPointFlags.WithNoRecordedValue(true))
	case row.Value.Integer:
		dp.SetIntValue(int64(row.Value.Bits))
	default:
		dp.SetDoubleValue(row.Value.Float())
	}
}
