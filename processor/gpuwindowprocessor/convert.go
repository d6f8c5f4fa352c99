package gpuwindowprocessor

import (
	"math"
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor/internal/window"
)

// isUntouched reports whether a metric is passed on immediately and unchanged. This applies to the
// types without windows, and to the receiver's own metric for its last scrape.
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

// reader adds the points of metrics to the engine. Its slices are reused for every point and guarded
// by the engine's lock, which Begin takes.
type reader struct {
	// device has the attributes of a device that are on a Resource instead of the device's points.
	resource, device, scope, metadata, point []window.Attr
	last                                     *window.Series // of the last point
	delta                                    string         // the first signal of this project that had delta temporality
}

// read adds every metric that is not untouched to the engine.
func (r *reader) read(in *window.Ingest, md pmetric.Metrics) {
	for _, rm := range md.ResourceMetrics().All() {
		r.readResource(rm.Resource().Attributes())
		in.SetResource(r.resource, rm.SchemaUrl())
		for _, sm := range rm.ScopeMetrics().All() {
			r.scope = appendAttrs(r.scope[:0], sm.Scope().Attributes())
			in.SetScope(window.Scope{
				Name: sm.Scope().Name(), Version: sm.Scope().Version(), SchemaURL: sm.SchemaUrl(), Attrs: r.scope,
			})
			for _, m := range sm.Metrics().All() {
				switch {
				case !isUntouched(m):
					r.readMetric(in, m)
				case m.Name() == signal.GPUExporterUp.Name && m.Type() == pmetric.MetricTypeGauge:
					for _, dp := range m.Gauge().DataPoints().All() {
						in.RecordArrival(nanos(dp.Timestamp()))
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

// readResource divides the attributes of a Resource into its own and those of its device.
func (r *reader) readResource(attrs pcommon.Map) {
	r.resource, r.device = appendAttrs(r.resource[:0], attrs), r.device[:0]
	if _, ok := attrs.Get(gpuIdentity.Device); !ok {
		return
	}
	r.resource = slices.DeleteFunc(r.resource, func(a window.Attr) bool {
		isDeviceAttribute := a.Key == gpuIdentity.Device || window.Matches(gpuIdentity.Descriptive, a.Key)
		if isDeviceAttribute {
			r.device = append(r.device, a)
		}
		return isDeviceAttribute
	})
}

// readPoint reads the attributes of a point, and those of its device that are on its Resource.
func (r *reader) readPoint(attrs pcommon.Map) {
	r.point = appendAttrs(r.point[:0], attrs)
	for _, a := range r.device {
		if _, ok := attrs.Get(a.Key); !ok {
			r.point = append(r.point, a)
		}
	}
}

func (r *reader) readMetric(in *window.Ingest, m pmetric.Metric) {
	r.metadata = appendAttrs(r.metadata[:0], m.Metadata())
	kind := window.Gauge
	var points pmetric.NumberDataPointSlice
	if m.Type() == pmetric.MetricTypeGauge {
		points = m.Gauge().DataPoints()
	} else {
		points = m.Sum().DataPoints()
		kind = window.CumulativeSum
		if m.Sum().IsMonotonic() {
			kind = window.Counter
		}
	}
	in.SetMetric(window.Metric{
		Name: m.Name(), Unit: m.Unit(), Description: m.Description(), Kind: kind, Metadata: r.metadata,
	})
	for _, dp := range points.All() {
		r.readPoint(dp.Attributes())
		p := window.Point{Attrs: r.point, Time: nanos(dp.Timestamp()), Start: nanos(dp.StartTimestamp()), Value: window.Double(math.NaN())}
		switch {
		case dp.Flags().NoRecordedValue():
		case dp.ValueType() == pmetric.NumberDataPointValueTypeInt:
			p.Value = window.Int(dp.IntValue())
		case dp.ValueType() == pmetric.NumberDataPointValueTypeDouble:
			p.Value = window.Double(dp.DoubleValue())
		}
		r.last, _ = in.Resolve(&p)
	}
}

// nanos returns a timestamp for the engine. A timestamp that does not fit becomes one in the far
// future, which the engine drops.
func nanos(t pcommon.Timestamp) int64 { return int64(min(uint64(t), math.MaxInt64)) }

func appendAttrs(dst []window.Attr, m pcommon.Map) []window.Attr {
	for k, v := range m.All() {
		dst = append(dst, window.Attr{Key: k, Value: toValue(v)})
	}
	return dst
}

func toValue(v pcommon.Value) window.Value {
	switch v.Type() {
	case pcommon.ValueTypeStr:
		return window.String(v.Str())
	case pcommon.ValueTypeInt:
		return window.Value{Kind: window.IntValue, Num: uint64(v.Int())}
	case pcommon.ValueTypeBool:
		b := window.Value{Kind: window.BoolValue}
		if v.Bool() {
			b.Num = 1
		}
		return b
	default:
		return window.Value{Kind: window.OpaqueValue, Str: encodeOpaque(v)}
	}
}

// encodeOpaque encodes a value that is rare in attributes (a map, a list, a double) as OTLP. It
// encodes it as an attribute of a Resource, because pdata cannot encode a single value.
func encodeOpaque(v pcommon.Value) string {
	md := pmetric.NewMetrics()
	v.CopyTo(md.ResourceMetrics().AppendEmpty().Resource().Attributes().PutEmpty(""))
	// Values of pdata can always be encoded.
	b, _ := (&pmetric.ProtoMarshaler{}).MarshalMetrics(md)
	return string(b)
}

func decodeOpaque(s string, to pcommon.Value) {
	md, err := (&pmetric.ProtoUnmarshaler{}).UnmarshalMetrics([]byte(s))
	if err != nil || md.ResourceMetrics().Len() == 0 {
		return
	}
	if v, ok := md.ResourceMetrics().At(0).Resource().Attributes().Get(""); ok {
		v.CopyTo(to)
	}
}

func putAttrs(m pcommon.Map, attrs []window.Attr) {
	for i := range attrs {
		k, v := attrs[i].Key, attrs[i].Value
		switch v.Kind {
		case window.StringValue:
			m.PutStr(k, v.Str)
		case window.IntValue:
			m.PutInt(k, int64(v.Num))
		case window.BoolValue:
			m.PutBool(k, v.Num != 0)
		case window.OpaqueValue:
			decodeOpaque(v.Str, m.PutEmpty(k))
		}
	}
}

// writer converts the engine's rows to metrics.
type writer struct {
	// version is the version of the scope of the results of rules.
	version string
	// starts is true if the results of rules have a StartTimestamp.
	starts bool
	// onResources puts a device's attributes on its own Resource.
	onResources bool
	// flat copies the attributes of Resources to their points.
	flat bool
}

// write returns the rows as one batch. It has a ResourceMetrics for each Resource, or for each
// Resource and device, and in it a Metric for each name.
func (w *writer) write(rows []window.Row) pmetric.Metrics {
	md := pmetric.NewMetrics()
	var (
		rm     pmetric.ResourceMetrics
		sm     pmetric.ScopeMetrics
		points pmetric.NumberDataPointSlice
		last   window.Row
		// metrics is the number of metrics of the previous Resource, and ofMetric is the number of
		// points of the previous metric: usually the next one has as many.
		metrics, ofMetric int
	)
	devices := deviceAttrs{}
	for i := range rows {
		row := &rows[i]
		newResource := i == 0 || row.Resource != last.Resource || w.onResources && !sameDevice(row.Device, last.Device)
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

// sameDevice reports whether two rows have the same description of their device. Usually they share
// the list.
func sameDevice(a, b []window.Attr) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || slices.Equal(a, b))
}

// deviceAttrs are the attributes of the devices of one batch. Copying a map to each point is faster
// than adding its attributes one by one.
type deviceAttrs map[*window.Attr]pcommon.Map

func (d deviceAttrs) mapOf(row *window.Row) pcommon.Map {
	if len(row.Device) == 0 {
		return pcommon.NewMap()
	}
	// All rows of a device have the same attributes in the same place.
	m, ok := d[&row.Device[0]]
	if !ok {
		m = pcommon.NewMap()
		putAttrs(m, row.Device)
		d[&row.Device[0]] = m
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
	if info.Kind == window.Gauge {
		return m.SetEmptyGauge().DataPoints()
	}
	sum := m.SetEmptySum()
	sum.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	sum.SetIsMonotonic(info.Kind == window.Counter)
	return sum.DataPoints()
}

func (w *writer) writePoint(dp pmetric.NumberDataPoint, row *window.Row, devices deviceAttrs) {
	attrs := dp.Attributes()
	if w.onResources {
		attrs.EnsureCapacity(len(row.Own) + len(row.Extra))
	} else {
		attrs.EnsureCapacity(len(row.Own) + len(row.Device) + len(row.Extra))
		devices.mapOf(row).CopyTo(attrs)
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
