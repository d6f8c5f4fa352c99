package window

import (
	"math"
	"slices"
	"time"
)

// function is the state of a rule's function over one window. The exported fields of the state are
// stored, so that the window survives a restart. The state does not contain the parameter of the
// function, because the rule passes the parameter to each call.
type function interface {
	// add adds a sample and reports whether it was accepted. Impossible steps, and samples that
	// cannot be stored, are not accepted.
	add(o observation, parameter float64) bool
	// result returns the value of the function. The second result is false if the function has no
	// value.
	result(parameter float64) (float64, bool)
	// reset prepares the state for a new window.
	reset()
}

// observation is one sample, with all values scaled.
type observation struct {
	value float64 // The value of the sample. Not set for counters.
	// If first is true, the sample is the baseline of a counter, and the following fields must not
	// be used.
	first          bool
	increase       float64 // Increase in a counter since its last sample.
	elapsed, still int64   // Nanoseconds since the last sample (elapsed), and since the last change in the value (still).
}

// functionKind describes a function.
type functionKind struct {
	name   string
	counts bool // Whether the function uses the increases in a counter instead of its values.
	ratio  bool // Whether the result is a ratio, which is limited to [0, 1].
	make   func() function
}

// Functions with a parameter.
const (
	ShareAtLeast = "share_at_least" // threshold
	Quantile     = "quantile"       // quantile
)

var functionKinds = []functionKind{
	{name: "mean", make: func() function { return &mean{} }},
	{name: "max", make: func() function { return &maximum{} }},
	{name: ShareAtLeast, ratio: true, make: func() function { return &share{} }},
	{name: Quantile, make: func() function { return &quantile{} }},
	{name: "increase", counts: true, make: func() function { return &increase{} }},
	{name: "rate", counts: true, make: func() function { return &rate{} }},
	{name: "time_ratio", counts: true, ratio: true, make: func() function { return &timeRatio{} }},
}

// Functions returns the names of all functions.
func Functions() []string {
	names := make([]string, len(functionKinds))
	for i := range functionKinds {
		names[i] = functionKinds[i].name
	}
	return names
}

// mean is the mean of the samples. The samples are not weighted by time. In PromQL:
//
//	avg_over_time(m[1m])
type mean struct{ Mean, Samples float64 }

// The add method uses a running mean instead of a sum. As a result, the mean of equal samples is
// exactly the value of these samples, and rounding cannot cause the mean to exceed the maximum.
func (f *mean) add(o observation, _ float64) bool {
	f.Samples++
	f.Mean += (o.value - f.Mean) / f.Samples
	return true
}

func (f *mean) result(_ float64) (float64, bool) { return f.Mean, f.Samples > 0 }

func (f *mean) reset() { *f = mean{} }

// maximum is the maximum of the samples. In PromQL:
//
//	max_over_time(m[1m])
type maximum struct {
	Greatest float64
	Observed bool
}

func (f *maximum) add(o observation, _ float64) bool {
	if !f.Observed || o.value > f.Greatest {
		f.Greatest = o.value
	}
	f.Observed = true
	return true
}

func (f *maximum) result(_ float64) (float64, bool) { return f.Greatest, f.Observed }

func (f *maximum) reset() { *f = maximum{} }

// share is the share of samples at or above a threshold. In PromQL:
//
//	avg_over_time((m >= bool 0.9)[1m:15s])
type share struct{ High, Samples float64 }

func (f *share) add(o observation, threshold float64) bool {
	if o.value >= threshold {
		f.High++
	}
	f.Samples++
	return true
}

func (f *share) result(_ float64) (float64, bool) { return f.High / f.Samples, f.Samples > 0 }

func (f *share) reset() { *f = share{} }

// MaxQuantileSamples is the maximum number of samples that a quantile stores for one result series
// in one window. The stored samples use at most 64 KiB. The limit is sufficient for two hours with
// one sample per second, or for one day with one sample every 11 seconds.
const MaxQuantileSamples = 1 << 13

// quantile is the value that a given share of the samples does not exceed, interpolated between the
// two nearest samples. If the window has more samples than can be stored, there is no result,
// because the quantile of only some of the samples may be wrong. In PromQL:
//
//	quantile_over_time(0.95, m[1m])
type quantile struct {
	Samples  []float64 // Values of the samples, in order of arrival.
	Overflow bool      // Whether some samples are not in Samples.
}

func (f *quantile) add(o observation, _ float64) bool {
	if len(f.Samples) >= MaxQuantileSamples {
		f.Overflow = true
		return false
	}
	f.Samples = append(f.Samples, o.value)
	return true
}

// The result is limited to [low, high], so that the quantile of equal samples is exactly the value
// of these samples.
func (f *quantile) result(q float64) (float64, bool) {
	if len(f.Samples) == 0 || f.Overflow {
		return 0, false
	}
	// The order of arrival no longer matters, because no samples are added to a closed window.
	slices.Sort(f.Samples)
	rank := q * float64(len(f.Samples)-1)
	below, weight := math.Modf(rank)
	low, high := f.Samples[int(below)], f.Samples[int(math.Ceil(rank))]
	return min(max(low*(1-weight)+high*weight, low), high), true
}

func (f *quantile) reset() { *f = quantile{Samples: f.Samples[:0]} }

// increase is the sum of a counter's increases. The sum is 0 if the counter was observed but did
// not increase. In PromQL:
//
//	increase(m[1m] anchored)
type increase struct {
	Sum      float64
	Observed bool
}

func (f *increase) add(o observation, _ float64) bool {
	if !o.first {
		f.Sum += o.increase
	}
	f.Observed = true
	return true
}

func (f *increase) result(_ float64) (float64, bool) { return f.Sum, f.Observed }

func (f *increase) reset() { *f = increase{} }

// rate is the sum of a counter's increases, divided by the time between the samples in seconds. In
// PromQL:
//
//	increase(m[1m] anchored) / 60
type rate struct {
	Sum     float64
	Elapsed int64
}

func (f *rate) add(o observation, _ float64) bool {
	if !o.first {
		f.Sum += o.increase
		f.Elapsed += o.elapsed
	}
	return true
}

func (f *rate) result(_ float64) (float64, bool) {
	return f.Sum / time.Duration(f.Elapsed).Seconds(), f.Elapsed > 0
}

func (f *rate) reset() { *f = rate{} }

// timeRatio is the increase in a counter of seconds, divided by the time between the samples.
// Impossible steps are excluded. In PromQL:
//
//	increase(m[1m] anchored) / 60
type timeRatio struct{ Rate rate }

// impossibleFactor is the maximum plausible ratio of the increase in a counter of seconds to the
// elapsed time. The elapsed time is measured from the last change in the counter, because exporters
// repeat cached values.
const impossibleFactor = 1.05

func (f *timeRatio) add(o observation, _ float64) bool {
	if !o.first && o.increase*float64(time.Second) > impossibleFactor*float64(o.still) {
		return false
	}
	return f.Rate.add(o, 0)
}

func (f *timeRatio) result(_ float64) (float64, bool) { return f.Rate.result(0) }

func (f *timeRatio) reset() { f.Rate.reset() }
