package stage

import (
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Batch contains frames that a stage processes together. The frames may belong to several nodes.
type Batch struct {
	// Frames contains the frames sorted by time, oldest first. The devices in each frame are sorted
	// by ID. Use Append to add frames.
	Frames []*gpudata.Frame

	appended []*gpudata.Frame
	counts   map[*signal.Metric]*ReadCounts // there is no entry for a metric without counts
}

// Append adds a frame to the batch.
func (b *Batch) Append(f *gpudata.Frame) {
	b.appended = append(b.appended, f)
	b.Frames = append(b.Frames, f)
}

// Appended returns the frames that were added with Append.
func (b *Batch) Appended() []*gpudata.Frame { return b.appended }

// Settle sets the scope of everything that was added to the batch since the last call to Settle.
// Settle also removes the samples of disabled metrics that were added since that call.
func (b *Batch) Settle(scope gpudata.Scope, disabled map[*signal.Metric]bool) {
	for _, f := range b.Frames {
		f.Settle(scope, disabled)
	}
}

// Sort restores the order of the batch. Sorting ensures that the output of the next stage does not
// depend on the order in which the current stage has added frames, devices, users, and processes.
func (b *Batch) Sort() {
	for _, f := range b.Frames {
		f.Sort()
	}
	slices.SortStableFunc(b.Frames, (*gpudata.Frame).Compare)
}

// Drop is the reason why a data point does not count as an observation and is dropped.
type Drop uint8

const (
	// NoValue means that the data point is empty or marks the end of a series.
	NoValue Drop = iota
	// NoTime means that the data point has no sample time.
	NoTime
	// OutOfRange means that the data point has an impossible value, which is negative, NaN,
	// infinite, or outside the metric's range.
	OutOfRange
	// NoDevice means that the data point does not name a GPU, or that the data point is about a
	// process but does not contain the process ID.
	NoDevice
	// NoHolder means that the data point is about a holder but does not name the holder.
	NoHolder
	// Implausible means that the data point contains a ratio far outside [0, 1]. See
	// [signal.Clamp].
	Implausible
	// Drops is the number of reasons to drop a data point.
	Drops
)

// String returns the reason as it appears in self-metrics.
func (d Drop) String() string {
	return [...]string{"no_value", "no_time", "out_of_range", "no_device", "no_holder", "implausible"}[d]
}

// ReadCounts counts the data points that were dropped or changed when they were read.
type ReadCounts struct {
	// Dropped contains the number of dropped data points for each reason.
	Dropped [Drops]int64
	// Clamped is the number of ratios that were clamped to [0, 1].
	Clamped int64
}

// Counts returns the sum of the counts for all metrics for which the given function returns true.
// Callers use the given function to select the metrics that a stage uses.
func (b *Batch) Counts(of func(*signal.Metric) bool) (sum ReadCounts) {
	for m, c := range b.counts {
		if !of(m) {
			continue
		}
		sum.Clamped += c.Clamped
		for d, n := range c.Dropped {
			sum.Dropped[d] += n
		}
	}
	return sum
}

// CountsOf returns the counts for a metric. The code that reads the batch increments these counts.
func (b *Batch) CountsOf(m *signal.Metric) *ReadCounts {
	c := b.counts[m]
	if c == nil {
		c = &ReadCounts{}
		if b.counts == nil {
			b.counts = map[*signal.Metric]*ReadCounts{}
		}
		b.counts[m] = c
	}
	return c
}
