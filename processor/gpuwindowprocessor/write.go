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
	// version is the scope version for the results of rules.
	version string
	// starts is true if the results of rules have a StartTimestamp.
	starts bool
	// onResources is true if each device has a Resource with the device's attributes.
	onResources bool
	// flat is true if the attributes of Resources are copied to their points.
	flat bool
	// fit is the estimated number of rows that fit in the next batch, or 0 before the first batch.
	fit int
}

// maxBatchBytes limits the OTLP size of a batch. By default, a gRPC server accepts 4 MiB. The limit
// is needed because long labels are repeated on each point.
const maxBatchBytes = 3 << 20

// writeBatch returns the first rows as one batch of at most maxBatchBytes, or only the first row if
// that row alone is larger. n is the number of rows in the batch.
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

// write returns the rows as one batch. The batch has one ResourceMetrics for each Resource, or for
// each Resource and device. Each ResourceMetrics has one Metric for each name.
func (w *writer) write(rows []window.Row) pmetric.Metrics {
	md := pmetric.NewMetrics()
	var (
		rm     pmetric.ResourceMetrics
		sm     pmetric.ScopeMetrics
		points pmetric.NumberDataPointSlice
		last   window.Row
		// metrics is the number of metrics of the previous Resource, and ofMetric is the number of
		// points of the previous metric. They are used as capacities, because the next Resource or
		// metric usually has the same number.
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

// deviceAttrs are the decoded attributes of the devices of one batch. Copying a map to each point
// is faster than decoding its attributes.
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
