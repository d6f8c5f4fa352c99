package events

import "slices"

// share computes the fraction of recent time during which a condition was true. A share also
// records whether the condition is active. A condition is active if the start of the condition was
// reported but the end was not.
type share struct {
	// Last is the time of the last sample.
	Last int64
	// Raw is the value of the last sample of a counter.
	Raw float64
	// Moved is the time of the counter's last change.
	Moved int64
	// Open is the time at which the condition started, or 0 if the condition is not active.
	Open  int64  `json:",omitempty"`
	Parts []part `json:",omitempty"`
}

// part is the contribution of one sample to a share.
type part struct {
	Time int64
	// Observed is the time since the previous sample.
	Observed int64
	// Value is the part of Weight during which the condition was true.
	Value  float64
	Weight float64
}

// add adds a sample and drops the parts that are older than the given span. If the time since the
// last sample exceeds the maximum gap, add drops all earlier parts.
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

// maxStep is the maximum increase per second of a counter that counts seconds. A value above 1
// allows for small differences between clocks.
const maxStep = 1.05

// counter adds a sample of a counter that counts seconds. An increase that exceeds the time since
// the counter's last change is impossible. If the increase is impossible, neither the increase nor
// the time since the last sample counts.
func (s *share) counter(t int64, v float64, span, maxGap int64) {
	if s.Last == 0 {
		s.Last, s.Raw, s.Moved = t, v, t
		return
	}
	p := part{Time: t, Observed: t - s.Last, Weight: seconds(t - s.Last), Value: v - s.Raw}
	if v < s.Raw { // the counter was reset to zero
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

// ratio returns the share, or false if less than half of the given span was observed.
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

// bounds contains two limits for a share. A condition starts when the share is at least the start
// limit, and ends when the share is below the end limit.
type bounds struct{ start, end float64 }

// turn compares a condition's share with the bounds and reports whether the condition started or
// ended. The last result is the share.
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
