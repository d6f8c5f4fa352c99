package live

import (
	"math"
	"slices"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuviewexporter/internal/store"
)

// historyPoints is the maximum number of points of a history.
const historyPoints = 120

// History has the retained data of one device.
type History struct {
	// End is the end of the last slot in Unix seconds, Slot the length of a slot in seconds.
	End  float64 `json:"end"`
	Slot float64 `json:"slot"`
	// Values has the slots of each field of a document's Fields, oldest first. A slot has
	// the highest value of its windows, or the lowest for coverage and samples. Null means
	// absent. A field that was never observed is empty.
	Values []store.Numbers `json:"v"`
	// Gauges has the slots of each gauge of a document's Gauges. Only power and temperature have values.
	Gauges []store.Numbers `json:"g"`
	// Throttled has the largest share of time throttled in the slots, like [Device].Throttle. Sampled is true
	// if all of them are shares of samples.
	Throttled store.Numbers `json:"throttled"`
	Sampled   bool          `json:"sampled"`
	// XIDs are the increases of XID codes, Holders the time spans of the device's holders, oldest first.
	XIDs    []store.Mark `json:"xids"`
	Holders []store.Span `json:"holders"`
	// Restarts are starts of the driver, detected as resets of the energy counter. Outages are time spans in
	// which an exporter at the device's place did not answer. To is 0 if the outage has not ended.
	Restarts []store.Restart `json:"restarts"`
	Outages  []store.Outage  `json:"outages"`
}

// maxSpans is the maximum number of holder spans of a history. Older spans are omitted.
const maxSpans = 256

// Trace returns the history of the device with the given number, and false if there is
// none.
func Trace(s *store.Store, now time.Time, number uint64) (out *History, ok bool) {
	s.Read(now, func(v *store.View) {
		if d := v.Device(number); d != nil {
			out, ok = history(v, d), true
		}
	})
	return out, ok
}

func history(v *store.View, d *store.Device) *History {
	newest, step := v.Newest()
	spans := d.Spans()
	out := &History{
		Values: make([]store.Numbers, store.NumFields), Gauges: make([]store.Numbers, store.ContainerMemoryUsage),
		XIDs: d.Marks(), Holders: spans[max(0, len(spans)-maxSpans):], Restarts: v.Restarts(d), Outages: v.Outages(d),
	}
	n := d.Len()
	if n == 0 {
		return out
	}
	width := double(max(step, time.Second), historyPoints, newest-d.End(0))
	slots := int(min(historyPoints, (newest-d.End(0))/int64(width)+1))
	out.End, out.Slot = seconds(newest), width.Seconds()
	out.Sampled = true
	slot := func(end int64) int { return slots - 1 - int((newest-end)/int64(width)) }
	for i := range n {
		at := slot(d.End(i))
		if at < 0 {
			continue // The value belongs to the slot before the first one.
		}
		for f := range store.NumFields {
			if value := d.Value(i, f); value == value {
				storeExtreme(&out.Values[f], slots, at, value, f == store.Coverage || f == store.Samples)
			}
		}
		if t := d.Throttled(i); t.Ratio == t.Ratio {
			storeExtreme(&out.Throttled, slots, at, t.Ratio, false)
			out.Sampled = out.Sampled && t.Sampled
		}
	}
	for g := range out.Gauges {
		d.Past(store.Gauge(g), func(end int64, value float32) {
			if at := slot(end); at >= 0 && at < slots {
				storeExtreme(&out.Gauges[g], slots, at, value, false)
			}
		})
	}
	return out
}

// storeExtreme stores a value in its slot if it is the highest so far, or the lowest if lowest is true.
func storeExtreme(values *store.Numbers, slots, at int, value float32, lowest bool) {
	if *values == nil {
		*values = slices.Repeat(store.Numbers{float32(math.NaN())}, slots)
	}
	current := &(*values)[at]
	if *current != *current || value < *current == lowest {
		*current = value
	}
}
