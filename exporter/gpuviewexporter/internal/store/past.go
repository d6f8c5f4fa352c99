package store

import (
	"cmp"
	"slices"
)

// A track contains the history of a gauge. Time is divided into slots that are as long as a window,
// and only the highest value in each slot is kept.
type track struct {
	ends   []int64 // The times of the values, in Unix nanoseconds.
	values []float32
}

func (t *track) add(at int64, v float32, step int64) {
	n := len(t.ends)
	switch {
	case n == 0 || at/step > t.ends[n-1]/step:
		t.ends, t.values = append(t.ends, at), append(t.values, v)
	case at/step == t.ends[n-1]/step:
		t.ends[n-1], t.values[n-1] = max(at, t.ends[n-1]), max(v, t.values[n-1])
	}
}

func (t *track) expire(oldest int64) {
	i, _ := slices.BinarySearch(t.ends, oldest+1)
	t.ends, t.values = slices.Delete(t.ends, 0, i), slices.Delete(t.values, 0, i)
}

// Past calls f for each value in the history of a gauge, oldest first. Times are in Unix
// nanoseconds. Only power and the GPU temperature have a history.
func (d *Device) Past(g Gauge, f func(at int64, value float32)) {
	if g < numTracked {
		for i, at := range d.tracks[g].ends {
			f(at, d.tracks[g].values[i])
		}
	}
}

// Span is a time span during which a container held a device.
type Span struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Container string `json:"container"`
	From      Time   `json:"from"`
	To        Time   `json:"to"`
}

// Spans returns the time spans during which containers held the device, sorted by start time. If a
// window is missing, the span ends, and a new span starts after the gap.
func (d *Device) Spans() []Span {
	out := []Span{}
	for _, h := range d.Holders() {
		var open *Span
		for i := range h.Len() {
			end, length := Time(h.End(i)), Time(float64(h.Length(i))*1e9)
			if open == nil || end-open.To > length+length/2 {
				out = append(out, Span{Namespace: h.Namespace, Pod: h.Pod, Container: h.Container, From: end - length})
				open = &out[len(out)-1]
			}
			open.To = end
		}
	}
	slices.SortStableFunc(out, func(a, b Span) int { return cmp.Compare(a.From, b.From) })
	return out
}
