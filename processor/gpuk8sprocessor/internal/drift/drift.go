// Package drift keeps how much memory a container used over a long time in a few hundred bytes,
// and computes percentiles.
//
// A value falls into a bin that is 2 % wide, so a percentile is within 1 % of the true one. The
// window is made of slots; the oldest slot is forgotten as a whole, so a percentile covers the
// last 23 to 24 twenty-fourths of the window.
package drift

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

const (
	// slots is how many parts a window has.
	slots = 24
	// smallest is the lower end of the first bin in bytes; less is in bin 0.
	smallest = 1 << 20
	// width is the ratio of a bin's ends.
	width = 1.02
	// maxBin holds everything from about a pebibyte on.
	maxBin = 1051
)

// Sketch is the distribution of a number of bytes over a window. The zero value
// is empty.
type Sketch struct {
	// Slots are the parts of the window, the oldest first.
	Slots []Slot `json:"slots"`
}

// Slot is the distribution in one part of the window.
type Slot struct {
	// Start is its beginning in nanoseconds since the epoch.
	Start int64 `json:"start"`
	// Bins are how many values fell into each bin.
	Bins map[int]uint32 `json:"bins"`
}

func binOf(bytes int64) int {
	if bytes < smallest {
		return 0
	}
	return min(1+int(math.Log(float64(bytes)/smallest)/math.Log(width)), maxBin)
}

// middle is the value that stands for a bin: the geometric mean of its ends.
func middle(bin int) float64 {
	if bin == 0 {
		return 0
	}
	return smallest * math.Pow(width, float64(bin)-0.5)
}

// Add takes over a value of time t, in nanoseconds since the epoch. Values that
// are older than the newest slot count in that one.
func (s *Sketch) Add(t, bytes int64, window time.Duration) {
	length := int64(window) / slots
	start := t - t%length
	// Slots of the future are left by a clock that was set back.
	s.Slots = slices.DeleteFunc(s.Slots, func(x Slot) bool {
		return x.Start <= start-int64(window) || x.Start >= start+int64(window)
	})
	if n := len(s.Slots); n == 0 || s.Slots[n-1].Start < start {
		s.Slots = append(s.Slots, Slot{Start: start, Bins: map[int]uint32{}})
		s.Slots = s.Slots[max(0, len(s.Slots)-slots-1):] // more are of a window that was shorter
	}
	last := &s.Slots[len(s.Slots)-1]
	if bin := binOf(bytes); last.Bins[bin] < math.MaxUint32 {
		last.Bins[bin]++
	}
}

// Quantile returns the value that a share q of all values do not exceed, and
// how many values there are. It is 0 while there are none.
func (s *Sketch) Quantile(q float64) (bytes float64, values uint64) {
	bins := map[int]uint64{}
	for i := range s.Slots {
		for bin, n := range s.Slots[i].Bins {
			bins[bin] += uint64(n)
			values += uint64(n)
		}
	}
	rank := uint64(math.Ceil(q * float64(values)))
	var seen uint64
	for _, bin := range slices.Sorted(maps.Keys(bins)) {
		if seen += bins[bin]; seen >= rank {
			return middle(bin), values
		}
	}
	return 0, values
}

// Validate reports what a sketch from elsewhere cannot be.
func (s *Sketch) Validate() error {
	if len(s.Slots) > slots+1 {
		return fmt.Errorf("%d slots", len(s.Slots))
	}
	for i := range s.Slots {
		if s.Slots[i].Bins == nil || i > 0 && s.Slots[i].Start <= s.Slots[i-1].Start {
			return fmt.Errorf("slot %d", i)
		}
		for bin := range s.Slots[i].Bins {
			if bin < 0 || bin > maxBin {
				return fmt.Errorf("bin %d", bin)
			}
		}
	}
	return nil
}
