package stage

import (
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Batch contains the frames that a stage processes together. The frames may belong to several
// nodes.
type Batch struct {
	// Frames are sorted by time, oldest first. Their devices are sorted by ID. Use Append to add
	// frames.
	Frames []*gpudata.Frame

	appended []*gpudata.Frame
	counts   map[*signal.Metric]*ReadCounts // a metric without counts has no entry
}

// Append adds a frame to the batch.
func (b *Batch) Append(f *gpudata.Frame) {
	b.appended = append(b.appended, f)
	b.Frames = append(b.Frames, f)
}

// Appended returns the frames that were added with Append.
func (b *Batch) Appended() []*gpudata.Frame { return b.appended }

// Settle sets the scope of everything that was added since the last call. It removes the samples of
// disabled metrics that were added since then.
func (b *Batch) Settle(scope gpudata.Scope, disabled map[*signal.Metric]bool) {
	for _, f := range b.Frames {
		f.Settle(scope, disabled)
	}
}

// Sort restores the order of the batch. It ensures that the next stage does not depend on the order
// in which a stage has added frames, devices, users, and processes.
func (b *Batch) Sort() {
	for _, f := range b.Frames {
		f.Sort()
	}
	slices.SortStableFunc(b.Frames, (*gpudata.Frame).Compare)
}

// Drop is the reason why a data point is not an observation.
type Drop uint8

const (
	// NoValue data points are empty or mark the end of a series.
	NoValue Drop = iota
	// NoTime data points have no sample time.
	NoTime
	// OutOfRange data points have an impossible value: it is negative, NaN, infinite, or outside
	// the metric's range.
	OutOfRange
	// NoDevice data points do not name a GPU.
	NoDevice
	// NoHolder data points are about a holder but do not name it.
	NoHolder
	// Implausible data points have a ratio far outside [0, 1]. See [signal.Clamp].
	Implausible
	// Drops is the number of reasons.
	Drops
)

// String returns the reason as it appears in self-metrics.
func (d Drop) String() string {
	return [...]string{"no_value", "no_time", "out_of_range", "no_device", "no_holder", "implausible"}[d]
}

// ReadCounts counts the data points that were dropped or changed when they were read.
type ReadCounts struct {
	// Dropped counts the data points that are not observations, by reason.
	Dropped [Drops]int64
	// Clamped counts the ratios that were clamped to [0, 1].
	Clamped int64
}

// Counts returns the sum of the counts for the metrics that of selects. Only metrics that a stage
// uses are counted.
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

// CountsOf returns the counts for a metric. The reader of the batch increases them.
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
