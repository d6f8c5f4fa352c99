package live

import (
	"math"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuviewexporter/internal/store"
)

// historyPoints is the most points of a history.
const historyPoints = 120

// History is the kept time of one device.
type History struct {
	// End is the end of the last slot and Slot the time of one, in seconds.
	End  float64 `json:"end"`
	Slot float64 `json:"slot"`
	// Values has for each of a snapshot's Fields the slots, oldest first: of each
	// the highest window, of coverage and samples the lowest. Null is absent; a
	// field that was never observed is empty.
	Values []numbers `json:"v"`
}

// Trace returns the history of the device with that number; false when there is
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
	out := &History{Values: make([]numbers, store.NumFields)}
	n := d.Len()
	if n == 0 {
		return out
	}
	width := double(max(step, time.Second), historyPoints, newest-d.End(0))
	slots := int(min(historyPoints, (newest-d.End(0))/int64(width)+1))
	out.End, out.Slot = seconds(newest), width.Seconds()
	for i := range n {
		at := slots - 1 - int((newest-d.End(i))/int64(width))
		if at < 0 {
			continue // it ends where the first slot begins
		}
		for f := range store.NumFields {
			value := d.Value(i, f)
			if value != value {
				continue
			}
			if out.Values[f] == nil {
				out.Values[f] = make(numbers, slots)
				for j := range out.Values[f] {
					out.Values[f][j] = float32(math.NaN())
				}
			}
			held := &out.Values[f][at]
			lowest := f == store.Coverage || f == store.Samples
			if *held != *held || value < *held == lowest {
				*held = value
			}
		}
	}
	return out
}
