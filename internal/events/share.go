package events

import "slices"

// share is how much of the last time something was the case, and whether that is open: begun
// and not yet over.
type share struct {
	Last  int64   // time of the last sample
	Raw   float64 // value of the last sample, of a counter
	Moved int64   // when the counter last moved
	Open  int64   `json:",omitempty"` // when it began, 0: it is not open
	Parts []part  `json:",omitempty"`
}

// part is what one sample adds.
type part struct {
	Time     int64
	Observed int64   // since the sample before
	Value    float64 // of Weight
	Weight   float64
}

// add adds a sample and forgets what is older than span. After a gap it begins anew.
func (s *share) add(p part, span, maxGap int64) {
	if s.Last != 0 && p.Time-s.Last > maxGap {
		s.Parts, p.Observed = nil, 0
	}
	s.Last = p.Time
	s.Parts = append(slices.DeleteFunc(s.Parts, func(o part) bool { return o.Time <= p.Time-span }), p)
}

// flag adds a sample that is 0 or 1.
func (s *share) flag(t int64, on bool, span, maxGap int64) {
	p := part{Time: t, Weight: 1}
	if s.Last != 0 {
		p.Observed = t - s.Last
	}
	if on {
		p.Value = 1
	}
	s.add(p, span, maxGap)
}

// maxStep is by how much a counter of seconds may grow in a second: clocks differ a little.
const maxStep = 1.05

// counter adds a sample of a counter of seconds. A step larger than the time since the counter
// last moved is impossible and dropped, with its time.
func (s *share) counter(t int64, v float64, span, maxGap int64) {
	if s.Last == 0 {
		s.Last, s.Raw, s.Moved = t, v, t
		return
	}
	p := part{Time: t, Observed: t - s.Last, Weight: seconds(t - s.Last), Value: v - s.Raw}
	if v < s.Raw { // it started anew from zero
		p.Value = v
	}
	if p.Value > maxStep*seconds(t-s.Moved) || t-s.Last > maxGap {
		p.Observed, p.Weight, p.Value = 0, 0, 0
	}
	if v != s.Raw {
		s.Moved = t
	}
	s.Raw = v
	s.add(p, span, maxGap)
}

// ratio returns the share; false where less than half of span was observed.
func (s *share) ratio(span int64) (r float64, known bool) {
	var observed int64
	var value, weight float64
	for _, p := range s.Parts {
		observed += p.Observed
		value += p.Value
		weight += p.Weight
	}
	if 2*observed < span || weight <= 0 {
		return 0, false
	}
	return min(value/weight, 1), true
}

// bounds are the shares at which something starts and below which it ends.
type bounds struct{ start, end float64 }

// turn opens or ends a share and reports whether it did.
func (s *share) turn(t int64, b bounds, span int64) (started, ended bool, ratio float64) {
	r, known := s.ratio(span)
	switch {
	case !known:
	case s.Open == 0 && r >= b.start:
		s.Open = t
		return true, false, r
	case s.Open != 0 && r < b.end:
		return false, true, r
	}
	return false, false, r
}

func seconds(ns int64) float64 { return float64(ns) / 1e9 }
