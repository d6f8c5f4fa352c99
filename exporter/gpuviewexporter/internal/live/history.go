package live

import (
	"math"
	"slices"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuviewexporter/internal/store"
)

// historyPoints is the maximum number of slots in a history.
const historyPoints = 120

// History contains the stored data of one device during the retention period.
type History struct {
	// End is the end of the last slot, in Unix seconds. Slot is the length of a slot, in seconds.
	End  float64 `json:"end"`
	Slot float64 `json:"slot"`
	// Values contains one list of slots for each field in the document's Fields. The slots are
	// sorted from oldest to newest. Each slot contains the highest value of all windows in the slot
	// or, for coverage and samples, the lowest value. A slot without a value contains null. If a
	// field was never observed, its list is empty.
	Values []store.Numbers `json:"v"`
	// Gauges contains one list of slots for each gauge in the document's Gauges. Only the lists for
	// power and temperature contain values.
	Gauges []store.Numbers `json:"g"`
	// For each slot, Throttled contains the largest share of a window during which the clocks were
	// throttled, like the Throttle field of [Device]. If all values in Throttled are shares of
	// samples, Sampled is true. If at least one value comes from an exact counter, Sampled is
	// false.
	Throttled store.Numbers `json:"throttled"`
	Sampled   bool          `json:"sampled"`
	// XIDs contains the increases in the XID error counts. Holders contains the time spans during
	// which containers held the device. Both lists are sorted from oldest to newest.
	XIDs    []store.Mark `json:"xids"`
	Holders []store.Span `json:"holders"`
	// Restarts contains the driver restarts, which are detected when the energy counter is reset.
	// Outages contains the time spans during which an exporter on the device's node did not answer.
	// If an outage has not ended, its To field is 0.
	Restarts []store.Restart `json:"restarts"`
	Outages  []store.Outage  `json:"outages"`
}

// maxSpans is the maximum number of holder spans in a history. Older spans are omitted.
const maxSpans = 256

// Trace returns the history of the device with the given number, or false if there is no such
// device.
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
			continue // The window ended before the start of the first slot.
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

// storeExtreme stores a value in a slot if the value is the highest value of the slot so far. If
// lowest is true, storeExtreme keeps the lowest value of the slot instead.
func storeExtreme(values *store.Numbers, slots, at int, value float32, lowest bool) {
	if *values == nil {
		*values = slices.Repeat(store.Numbers{float32(math.NaN())}, slots)
	}
	current := &(*values)[at]
	if *current != *current || value < *current == lowest {
		*current = value
	}
}
