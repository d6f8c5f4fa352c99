package synth

import (
	"math"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
)

// byteCounter contains the last value of a byte counter and the time of that value.
type byteCounter struct {
	time  int64
	value float64
}

// rate returns the mean rate since the counter's last value, in bytes per second. There is no rate
// for the first value of the counter, for the first value after a reset, or if t is not newer than
// the time of the last value.
func (c *byteCounter) rate(t int64, v float64) (float64, bool) {
	if t <= c.time {
		return 0, false
	}
	before := *c
	*c = byteCounter{t, v}
	if before.time == 0 || v < before.value {
		return 0, false
	}
	return (v - before.value) / (float64(t-before.time) / 1e9), true
}

// rate is the rate of a counter in the current scrape.
type rate struct {
	value float64
	ok    bool
}

// derive computes the rates of the counters, and drops values that are contradicted by other values
// of the device.
func (a *accumulator) derive(t int64) {
	counters := a.device.of.Rates
	a.rates = append(a.rates[:0], make([]rate, len(counters))...)
	for i, id := range counters {
		total, ok := a.get(id)
		if !ok {
			continue
		}
		if a.device.bytes == nil {
			a.device.bytes = make([]byteCounter, len(counters))
		}
		if v, ok := a.device.bytes[i].rate(t, total); ok {
			_, verdict := catalogue.BytePerSecond.Value(v)
			a.rates[i] = rate{v, verdict == catalogue.Valid}
			if verdict != catalogue.Valid {
				a.dropped[dropReasons[verdict]]++
			}
		}
	}
	a.device.of.DropContradicted(a)
}

// Value implements catalogue.Values.
func (a *accumulator) Value(id catalogue.ID, rate bool) (float64, bool) {
	if !rate {
		return a.get(id)
	}
	if f := catalogue.ByID(id); f.Rate != 0 {
		r := a.rates[f.Rate-1]
		return r.value, r.ok
	}
	return 0, false
}

// Capacity implements catalogue.Values.
func (a *accumulator) Capacity(s *catalogue.Signal) float64 {
	a.values = a.values[:0]
	for _, id := range s.Inputs {
		v, ok := a.get(id)
		if !ok {
			v = math.NaN()
		}
		a.values = append(a.values, v)
	}
	return s.Capacity(a.device.capacities(), a.values)
}

// contradicted is a value that was dropped because other values of the device contradict it.
type contradicted struct {
	id  catalogue.ID
	why catalogue.Contradiction
}

// contradictions maps each kind of contradiction to its drop reason.
var contradictions = [...]DropReason{
	catalogue.Frozen: DropFrozen, catalogue.Unread: DropUnread, catalogue.TooFast: DropImplausible,
}

// Drop implements catalogue.Values. If only the rate of a counter is impossible, the counter itself
// is still emitted.
func (a *accumulator) Drop(id catalogue.ID, why catalogue.Contradiction) {
	a.dropped[contradictions[why]]++
	a.contradicted = append(a.contradicted, contradicted{id, why})
	if f := catalogue.ByID(id); f.Rate != 0 {
		a.rates[f.Rate-1].ok = false
		if why == catalogue.TooFast {
			return
		}
	}
	*a.cell(id) = cell{}
}
