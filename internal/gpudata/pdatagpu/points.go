package pdatagpu

import (
	"cmp"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Point is a data point of a Gauge or a Sum. Components that also read windows use Points instead
// of frames, because a window has a start and an end but a frame has only one time.
type Point struct {
	Place  gpudata.Place
	Holder gpudata.Holder
	Metric string
	// Start is 0 if the data point has no start time. Ended is true if the data point has no value.
	Start, Time int64
	Value       float64
	Ended       bool
	// First is true for the first point of each Resource.
	First bool

	own, resource pcommon.Map
}

// Own returns the string value of one of the data point's own attributes, or "" if the attribute
// does not exist.
func (p *Point) Own(key string) string { return Text(p.own, key) }

// Text returns the string value of one of the device's attributes. In window metrics, the attribute
// may be on the Resource instead of the data point.
func (p *Point) Text(key string) string { return cmp.Or(p.Own(key), Text(p.resource, key)) }

// OwnAttributes calls f with each of the data point's own attributes.
func (p *Point) OwnAttributes(f func(key, text string)) { each(p.own, f) }

// ResourceAttributes calls f with each attribute of the data point's Resource.
func (p *Point) ResourceAttributes(f func(key, text string)) { each(p.resource, f) }

// PodLabels returns the pod labels on the data point's Resource.
func (p *Point) PodLabels() gpudata.Labels { return podLabels(p.resource) }

func each(m pcommon.Map, f func(key, text string)) {
	for k, v := range m.All() {
		f(k, v.AsString())
	}
}

// Counts counts the data points that EachPoint skipped or changed.
type Counts struct {
	// Others counts data points of unwanted metrics, of Sums with delta temporality, and of metrics
	// that are neither a Gauge nor a Sum.
	Others int
	// Implausible counts data points whose ratio is far outside [0, 1]. See [signal.Clamp].
	Implausible int
	// Clamped counts data points that were passed to f with a ratio that was clamped to [0, 1].
	Clamped int
}

// EachPoint calls f with each data point of the wanted metrics. EachPoint clamps ratios to [0, 1]
// and skips data points with an implausible ratio. The Point is valid only until f returns.
func EachPoint(md pmetric.Metrics, wants func(metric string) bool, f func(*Point)) (counts Counts) {
	counts.Others = md.DataPointCount()
	var p Point
	for _, rm := range md.ResourceMetrics().All() {
		attrs := rm.Resource().Attributes()
		p = Point{Place: PlaceOf(attrs), Holder: HolderOf(attrs), First: true, resource: attrs}
		for _, sm := range rm.ScopeMetrics().All() {
			for _, m := range sm.Metrics().All() {
				if p.Metric = m.Name(); !wants(p.Metric) || points.IsDelta(m) {
					continue
				}
				known, ok := signal.Lookup(p.Metric)
				ratio := ok && known.IsRatio()
				of := points.Of(m)
				counts.Others -= of.Len()
				for _, dp := range of.All() {
					p.own, p.Start, p.Time, p.Value = dp.Attributes(), int64(dp.StartTimestamp()), int64(dp.Timestamp()), points.Value(dp)
					p.Ended = dp.Flags().NoRecordedValue() || dp.ValueType() == pmetric.NumberDataPointValueTypeEmpty
					if ratio && !p.Ended {
						v, clamped, plausible := signal.Clamp(p.Value)
						if !plausible {
							counts.Implausible++
							continue
						}
						if p.Value = v; clamped {
							counts.Clamped++
						}
					}
					f(&p)
					p.First = false
				}
			}
		}
	}
	return counts
}
