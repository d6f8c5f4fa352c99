package store

import (
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Throttle describes the largest share of a window during which the clocks were throttled.
type Throttle struct {
	// Ratio is NaN if nothing was observed.
	Ratio float32 `json:"ratio"`
	// By is the policy or the reason that caused the throttling.
	By string `json:"by"`
	// Sampled is true if Ratio is a share of samples. Such a ratio is used if the exporter has no
	// exact counter for the reason.
	Sampled bool `json:"sampled,omitempty"`
}

// measure contains the two fields of a reason: its exact counter and its share of samples.
type measure struct{ exact, sampled Field }

func violation(policy string) Field { return FieldOf(signal.ThrottleViolationRatio, policy) }

func sampled(reason string) Field { return FieldOf(signal.ThrottleReasonRatio, reason) }

func reason(name string) measure {
	return measure{FieldOf(signal.ThrottleTimeRatio, name), sampled(name)}
}

// policy contains a policy that lowers clocks, and the reasons that belong to the policy.
type policy struct {
	violation Field
	reasons   []measure
}

// policies are NVIDIA's policies. A policy's counter is exact and covers all reasons of the policy.
// Without this counter, the exact counter of each reason is used. If that is also missing, the
// share of samples is used.
var policies = []policy{
	{violation("power"), []measure{reason("sw_power_cap"), reason("hw_power_brake")}},
	{violation("thermal"), []measure{reason("sw_thermal"), reason("hw_thermal")}},
	{violation("sync_boost"), []measure{reason("sync_boost")}},
	{violation("board_limit"), nil},
}

var (
	slowdown = sampled("hw_slowdown")
	// explained are the reasons for which the hardware slowdown bit is also set.
	explained = [...]Field{sampled("hw_thermal"), sampled("hw_power_brake")}
)

// otherPolicies and otherReasons are the policies and reasons of other vendors. A policy in
// otherPolicies does not cover any reason.
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

// Throttled returns the largest share of window i during which the clocks were throttled.
//
// Hardware slowdown has no counter. The hardware slowdown bit is also set during a thermal slowdown
// and a power brake, which have their own fields. Only the share of samples that these two reasons
// do not explain counts as hardware slowdown.
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
