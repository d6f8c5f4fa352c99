package store

import "github.com/otelcol-gpu/otelcol-gpu/internal/signal"

// Throttle is the greatest share of a window for which clocks were held down.
type Throttle struct {
	// Ratio is NaN where nothing was observed.
	Ratio float32 `json:"ratio"`
	// By is the policy or the reason.
	By string `json:"by"`
	// Sampled says that it is a share of samples: the exporter has no exact counter
	// for it.
	Sampled bool `json:"sampled,omitempty"`
}

// measure is one reason: its exact counter, and its share of samples.
type measure struct{ exact, sampled Field }

func violation(policy string) Field { return FieldOf(signal.ThrottleViolationRatio, policy) }

func sampled(reason string) Field { return FieldOf(signal.ThrottleReasonRatio, reason) }

func reason(name string) measure {
	return measure{FieldOf(signal.ThrottleTimeRatio, name), sampled(name)}
}

// policies are the policies that lower clocks, each with its reasons. The counter of a policy is
// exact and covers all its reasons. Without it a reason's exact counter is used, else the
// samples of the reason.
var policies = [...]struct {
	violation Field
	reasons   []measure
}{
	{violation("power"), []measure{reason("sw_power_cap"), reason("hw_power_brake")}},
	{violation("thermal"), []measure{reason("sw_thermal"), reason("hw_thermal")}},
	{violation("sync_boost"), []measure{reason("sync_boost")}},
	{violation("board_limit"), nil},
}

var (
	slowdown = sampled("hw_slowdown")
	// explained are the reasons that set the hardware slowdown's bit too.
	explained = [...]Field{sampled("hw_thermal"), sampled("hw_power_brake")}
)

// Throttled returns the greatest share of window i for which clocks were held down.
//
// The hardware slowdown has no counter, and its bit is set beside those of the
// thermal slowdown and the power brake, which are measured on their own: it counts
// for the share of samples that these two do not explain.
func (s *Series) Throttled(i int) Throttle {
	best := Throttle{Ratio: absent}
	offer := func(f Field, ratio float32, sampled bool) bool {
		if ratio != ratio {
			return false
		}
		if best.Ratio != best.Ratio || ratio > best.Ratio || ratio == best.Ratio && best.Sampled && !sampled {
			best = Throttle{ratio, f.Value(), sampled}
		}
		return true
	}
	for _, p := range &policies {
		if offer(p.violation, s.Value(i, p.violation), false) {
			continue
		}
		for _, r := range p.reasons {
			if !offer(r.exact, s.Value(i, r.exact), false) {
				offer(r.sampled, s.Value(i, r.sampled), true)
			}
		}
	}
	left := s.Value(i, slowdown)
	for _, f := range explained {
		if v := s.Value(i, f); v == v {
			left -= v
		}
	}
	offer(slowdown, max(left, 0), true)
	return best
}
