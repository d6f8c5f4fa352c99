package synth

import (
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
)

// part is one of several rows from which the value of a field is computed.
type part struct {
	field *catalogue.Field
	key   partKey
	value float64
	held  bool
}

// partKey identifies a part of a field by its exposed name and a label.
type partKey struct {
	alias uint8
	label string
}

// maxParts is the maximum number of parts of one field of a device.
const maxParts = 128

// foldParts computes the values of fields that are split into several rows.
func (a *accumulator) foldParts(at int64) {
	for len(a.parts) > 0 {
		f, held := a.parts[0].field, a.parts[0].held
		own := func(p part) bool { return p.field == f && p.held == held }
		if v, ok := a.fromParts(f, own, at); ok {
			a.add(f, v, held)
		}
		a.parts = slices.DeleteFunc(a.parts, own)
	}
}

func (a *accumulator) fromParts(f *catalogue.Field, own func(part) bool, at int64) (float64, bool) {
	var values map[partKey]float64
	for _, p := range a.parts {
		if own(p) && len(values) < maxParts {
			if values == nil {
				values = map[partKey]float64{}
			}
			values[p.key] = max(values[p.key], p.value)
		}
	}
	if f.Parts == catalogue.Sum && f.Kind == catalogue.Counter {
		return a.device.sum(f.ID).add(at, values, f.Rate != 0)
	}
	total := 0.0
	for _, v := range values {
		total += v
	}
	if f.Parts == catalogue.Mean {
		total /= float64(len(values))
	}
	return total, true
}

// sum is the state of a counter that is the sum of several counters.
type sum struct {
	time    int64 // Time of the last scrape.
	lastSum int64 // Time of the last scrape for which the add method returned a sum.
	parts   map[partKey]counted
}

// counted is the state of one counter in a sum: its last value, the baseline that is subtracted
// from the value, and the time of the value.
type counted struct {
	last, base float64
	at         int64
}

func (d *Device) sum(id catalogue.ID) *sum {
	if d.sums == nil {
		d.sums = map[catalogue.ID]*sum{}
	}
	if d.sums[id] == nil {
		d.sums[id] = &sum{}
	}
	return d.sums[id]
}

// add adds the values of one scrape and returns the sum. If the scrape is not newer than the
// previous scrape, add returns false. If rate is true, add also returns false for the first scrape
// in which a known part is missing. If that part reappears after add has returned a later sum, the
// increase in the part since its last value is not counted.
func (s *sum) add(at int64, values map[partKey]float64, rate bool) (total float64, ok bool) {
	if at <= s.time {
		return 0, false
	}
	before, first := s.time, s.time == 0
	s.time = at
	if first {
		s.parts = map[partKey]counted{}
	}
	for key, v := range values {
		p, known := s.parts[key]
		switch {
		case !known && len(s.parts) >= maxParts:
			continue
		case !known && !first:
			p.base = v // the earlier increase was not observed
		case known && rate && p.at < s.lastSum:
			p.base += v - p.last
		case v < p.last:
			p.base = 0 // the counter was reset
		}
		p.last, p.at = v, at
		s.parts[key] = p
	}
	for _, p := range s.parts {
		total += p.last - p.base
		if rate && p.at == before {
			return 0, false
		}
	}
	s.lastSum = at
	return total, true
}
