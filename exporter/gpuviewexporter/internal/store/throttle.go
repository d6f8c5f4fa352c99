package store

import (
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Throttle contains the largest share of a window during which the clocks were throttled by a
// single policy or for a single reason.
type Throttle struct {
	// Ratio is NaN if nothing was observed.
	Ratio float32 `json:"ratio"`
	// By is the policy that throttled the clocks, or the reason why the clocks were throttled.
	By string `json:"by"`
	// Sampled is true if Ratio is a share of samples, because the exporter does not provide an
	// exact counter for the reason.
	Sampled bool `json:"sampled,omitempty"`
}

// A measure contains the two fields for a reason: one that comes from an exact counter, and one
// that is a share of samples.
type measure struct{ exact, sampled Field }

func violation(policy string) Field { return FieldOf(signal.ThrottleViolationRatio, policy) }

func sampled(reason string) Field { return FieldOf(signal.ThrottleReasonRatio, reason) }

func reason(name string) measure {
	return measure{FieldOf(signal.ThrottleTimeRatio, name), sampled(name)}
}

// The policy type describes a policy that throttles the clocks, and the reasons that belong to the
// policy.
type policy struct {
	violation Field
	reasons   []measure
}

// The policies slice contains the policies that NVIDIA boards report. The counter of a policy is
// exact and covers all of the policy's reasons. If the counter of a policy is missing, the exact
// counters of its reasons are used. If the exact counter of a reason is missing, the share of
// samples is used.
var policies = []policy{
	{violation("power"), []measure{reason("sw_power_cap"), reason("hw_power_brake")}},
	{violation("thermal"), []measure{reason("sw_thermal"), reason("hw_thermal")}},
	{violation("sync_boost"), []measure{reason("sync_boost")}},
	{violation("board_limit"), nil},
}

var (
	slowdown = sampled("hw_slowdown")
	// The explained array lists the reasons for which NVIDIA drivers also set the hardware slowdown
	// bit.
	explained = [...]Field{sampled("hw_thermal"), sampled("hw_power_brake")}
)

// otherPolicies and otherReasons are the policies and reasons of other vendors. The policies of
// other vendors do not cover any reasons.
var otherPolicies, otherReasons = func() (fields []Field, reasons []measure) {
	known := []Field{slowdown}
	for _, p := range policies {
		known = append(known, p.violation)
		for _, r := range p.reasons {
			known = append(known, r.sampled)
		}
	}
	for _, f := range FieldsOf(signal.ThrottleViolationRatio) {
		if !slices.Contains(known, f) {
			fields = append(fields, f)
		}
	}
	for _, f := range FieldsOf(signal.ThrottleReasonRatio) {
		if !slices.Contains(known, f) {
			reasons = append(reasons, reason(f.Value()))
		}
	}
	return fields, reasons
}()

// Throttled returns the largest share of window i during which the clocks were throttled by a
// single policy or for a single reason.
//
// There is no exact counter for hardware slowdown. The hardware slowdown bit is also set during a
// thermal slowdown or a power brake, which have fields of their own. Throttled therefore subtracts
// the shares of thermal slowdown and power brake from the share of hardware slowdown.
func (s *Series) Throttled(i int) Throttle {
	best := Throttle{Ratio: absent}
	consider := func(f Field, ratio float32, sampled bool) bool {
		if ratio != ratio {
			return false
		}
		if best.Ratio != best.Ratio || ratio > best.Ratio || ratio == best.Ratio && best.Sampled && !sampled {
			best = Throttle{ratio, f.Value(), sampled}
		}
		return true
	}
	considerPolicy := func(f Field) bool { return consider(f, s.Value(i, f), false) }
	considerReasons := func(reasons []measure) {
		for _, r := range reasons {
			if !consider(r.exact, s.Value(i, r.exact), false) {
				consider(r.sampled, s.Value(i, r.sampled), true)
			}
		}
	}
	for i := range policies {
		p := &policies[i]
		if !considerPolicy(p.violation) {
			considerReasons(p.reasons)
		}
	}
	for _, f := range otherPolicies {
		considerPolicy(f)
	}
	considerReasons(otherReasons)
	unexplained := s.Value(i, slowdown)
	for _, f := range explained {
		if v := s.Value(i, f); v == v {
			unexplained -= v
		}
	}
	consider(slowdown, max(unexplained, 0), true)
	return best
}
