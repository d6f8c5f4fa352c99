package store

import (
	"math"
	"slices"
)

var absent = float32(math.NaN())

// Series contains the windows of one device, or of one container on one device. The windows are
// sorted by end time.
type Series struct {
	// The ends slice contains the end times of the windows in Unix nanoseconds.
	ends []int64
	// The lengths slice contains the lengths of the windows in seconds.
	lengths []float32
	columns [][]float32 // columns, indexed by Field; a column is nil until it has a value
}

// Len returns the number of windows.
func (s *Series) Len() int { return len(s.ends) }

// End returns the end of window i in Unix nanoseconds.
func (s *Series) End(i int) int64 { return s.ends[i] }

// Length returns the length of window i in seconds.
func (s *Series) Length(i int) float32 { return s.lengths[i] }

// Value returns the value of a field in window i, or NaN if the value is absent.
func (s *Series) Value(i int, f Field) float32 {
	if len(s.columns) == 0 || s.columns[f] == nil {
		return absent
	}
	return s.columns[f][i]
}

// Values returns the values of window i, indexed by Field.
func (s *Series) Values(i int) Numbers {
	out := make(Numbers, NumFields)
	for f := range out {
		out[f] = s.Value(i, Field(f))
	}
	return out
}

// The row method returns the index of the window with the given end time. If the window does not
// exist, the row method creates the window and deletes the windows that end at or before the time
// in the oldest parameter.
func (s *Series) row(end int64, length float32, oldest int64) int {
	if n := len(s.ends); n > 0 && s.ends[n-1] == end {
		return n - 1
	}
	s.expire(oldest)
	i, found := slices.BinarySearch(s.ends, end)
	if found {
		return i
	}
	s.ends = slices.Insert(s.ends, i, end)
	s.lengths = slices.Insert(s.lengths, i, length)
	for f, c := range s.columns {
		if c != nil {
			s.columns[f] = slices.Insert(c, i, absent)
		}
	}
	return i
}

func (s *Series) set(i int, f Field, v float32) {
	if s.columns == nil {
		s.columns = make([][]float32, NumFields)
	}
	if s.columns[f] == nil {
		c := make([]float32, len(s.ends), cap(s.ends))
		for j := range c {
			c[j] = absent
		}
		s.columns[f] = c
	}
	s.columns[f][i] = v
}

// The expire method deletes the windows that end at or before the time in the oldest parameter.
func (s *Series) expire(oldest int64) {
	i := s.firstAfter(oldest)
	if i == 0 {
		return
	}
	s.ends = slices.Delete(s.ends, 0, i)
	s.lengths = slices.Delete(s.lengths, 0, i)
	for f, c := range s.columns {
		if c != nil {
			s.columns[f] = slices.Delete(c, 0, i)
		}
	}
}

// firstAfter returns the index of the first window that ends after t.
func (s *Series) firstAfter(t int64) int {
	i, _ := slices.BinarySearch(s.ends, t+1)
	return i
}

// Summary contains the combined values of several windows, possibly of several devices.
type Summary struct {
	// Start is the start of the earliest window, and End is the end of the latest window, in Unix
	// nanoseconds.
	Start, End int64
	// Observed is the observed time of all windows, and Length is the total length of all windows.
	// Observed and Length are in seconds, and are sums over all devices.
	Observed, Length float64
	acc              []accumulator // indexed by Field
}

// An accumulator contains the value of a field so far: a weighted sum, a maximum, or a plain sum. A
// weight of 0 means that there is no value yet.
type accumulator struct{ value, weight float64 }

func (a *accumulator) add(f Field, o accumulator) {
	switch {
	case o.weight == 0:
	case fields[f].fold != maximum:
		a.value += o.value
	case a.weight == 0:
		a.value = o.value
	default:
		a.value = max(a.value, o.value)
	}
	a.weight += o.weight
}

// The unobserved constant is the weight of a window that has samples but no observed time, as a
// fraction of the window's length. The weight is too small to matter if other windows are observed,
// but the weight ensures that the window counts if there are no other windows.
const unobserved = 1e-9

// Summarize combines the windows of one device whose end time is in the interval (firstAfter, to].
// The weight of a window is its observed time, which is the coverage multiplied by the length, or
// the full length if the coverage is unknown. Several series may be given if several containers
// hold the device. The series of each container repeats the windows of the device, so Summarize
// uses each window only once, from the first series that contains the window.
func Summarize(firstAfter, to int64, series ...*Series) *Summary {
	out := &Summary{acc: make([]accumulator, NumFields)}
	for n, s := range series {
		first, last := s.firstAfter(firstAfter), s.firstAfter(to)
		if first == last {
			continue
		}
		weights := make([]float64, last-first)
		for i := first; i < last; i++ {
			if n > 0 && slices.ContainsFunc(series[:n], func(o *Series) bool {
				_, found := slices.BinarySearch(o.ends, s.ends[i])
				return found
			}) {
				continue
			}
			length := float64(s.lengths[i])
			observed := length
			if c := float64(s.Value(i, Coverage)); !math.IsNaN(c) {
				observed *= c
			}
			weights[i-first] = max(observed, length*unobserved)
			out.Observed += observed
			out.Length += length
			start := s.ends[i] - int64(length*1e9)
			if out.End == 0 || start < out.Start {
				out.Start = start
			}
			out.End = max(out.End, s.ends[i])
		}
		for f, column := range s.columns {
			if column == nil {
				continue
			}
			for i, v := range column[first:last] {
				if v != v || weights[i] == 0 {
					continue
				}
				one := accumulator{float64(v), weights[i]}
				if fields[f].fold == mean {
					one.value *= one.weight
				}
				out.acc[f].add(Field(f), one)
			}
		}
	}
	return out
}

// Merge adds the summary of another device.
func (s *Summary) Merge(o *Summary) {
	if o.Length == 0 {
		return
	}
	if s.Length == 0 || o.Start < s.Start {
		s.Start = o.Start
	}
	s.End = max(s.End, o.End)
	s.Observed += o.Observed
	s.Length += o.Length
	if s.acc == nil {
		s.acc = make([]accumulator, NumFields)
	}
	for f, a := range o.acc {
		s.acc[f].add(Field(f), a)
	}
}

// Value returns the combined value of a field. The combined value is the mean weighted by observed
// time, the maximum, or the sum, depending on the field. Value returns false if no window has a
// value.
func (s *Summary) Value(f Field) (float64, bool) {
	if len(s.acc) == 0 || s.acc[f].weight == 0 {
		return 0, false
	}
	a := s.acc[f]
	if fields[f].fold == mean {
		return a.value / a.weight, true
	}
	return a.value, true
}
