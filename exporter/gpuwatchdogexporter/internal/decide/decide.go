package decide

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	// FutureTolerance is the maximum tolerated difference between the clocks of two nodes.
	FutureTolerance = 15 * time.Second

	// The rounding constant is the tolerance for comparing sums of memory sizes. Exporters round
	// memory sizes to MiB and read them at slightly different times.
	rounding = 64 << 20
	// A driver can plausibly reserve any amount of memory that is less than minReserve or less than
	// the floor.
	minReserve = 1 << 30
	// maxBytes is an amount of memory that no device exceeds.
	maxBytes = 1 << 50
	// minBudget is the smallest plausible budget. If a budget is smaller than minBudget, its unit
	// is probably missing, because budgets are declared in MiB or larger units.
	minBudget = 1 << 20
)

// Evaluate evaluates a device. If the decision contains an Action, the returned state already
// includes the action, so that the caller can store the state before carrying out the action. The
// caller then calls [Settle] to record the result. If the reason is PodUnknown, the caller reads
// the pod in Victim from the API server, adds the pod to in.Pods, and calls Evaluate again with the
// same state.
func Evaluate(s State, in Input, p Policy, now time.Time) (State, Decision) {
	s, d, over := judge(s, in, p, now)
	if d.Reason != "" {
		return s, d
	}
	for i := range over {
		v := &over[i]
		pod, known := in.Pods[v.UID]
		reason := exclude(s, in, v, pod, known, p, now)
		if reason == "" {
			d.Victim, d.Reason = v, Evicted
			if p.DryRun {
				d.Reason = WouldEvict
			}
			d.Action = &Action{
				ID: v.UID + "/" + now.UTC().Format(time.RFC3339Nano),
				At: now, Device: in.Device, Namespace: v.Namespace, Pod: v.Pod, UID: v.UID, Owner: pod.Owner, DryRun: p.DryRun,
			}
			s.Actions = append(slices.Clone(s.Actions), *d.Action)
			return s, d
		}
		if d.Victim == nil {
			d.Victim, d.Reason = v, reason
		}
		// Wait, because the pod's memory is being released, or because the pod's state is unknown.
		if reason == Terminating || reason == PodGone || reason == PodUnknown {
			d.Victim, d.Reason = v, reason
			return s, d
		}
	}
	return s, d
}

// Settle returns the state after an attempt to carry out the action. If the action was carried out
// or may have been carried out, the breach ends, and the next action requires a new series of
// consecutive breaches. If the action was not carried out, Settle removes the action and keeps the
// breach, so the next evaluation may retry the action.
func Settle(s State, a Action, done bool) State {
	if done {
		s.Breach.Count, s.Breach.Over = 0, nil
		return s
	}
	s.Actions = Without(s.Actions, a)
	return s
}

// The judge function makes the part of the decision that does not depend on the state of the pods.
// If the returned decision has no reason, the caller must evaluate the returned pods, which are
// over their budget, in the given order.
func judge(s State, in Input, p Policy, now time.Time) (State, Decision, []Victim) {
	s.Actions = Prune(s.Actions, p, now)
	d := Decision{Device: in.Device}
	s.Breach, d = follow(s.Breach, d, in.Sample, p, now)
	s.Actions = endedActions(s, in.Device, p)
	d.Breaches = s.Breach.Count
	if d.Reason != "" {
		return s, d, nil
	}

	over, enforced, unbudgeted := overBudget(in.Sample, p)
	d.Unbudgeted = unbudgeted
	enough := enough(over, p)
	history := s.history(p, now)
	switch {
	case s.Breach.Count < p.Breaches:
		d.Reason = BreachPending
	case len(over) == 0 && len(enforced) > 0:
		d.Reason, over = EnforcedBudget, enforced
	case len(over) == 0 && unbudgeted > 0:
		d.Reason = Unbudgeted
	case len(over) == 0:
		d.Reason = WithinBudget
	case len(enough) == 0:
		d.Reason = BelowMinOvershoot
	case countSince(history, p, now, p.DeviceCooldown, func(a Action) bool { return a.Device == in.Device }) > 0:
		d.Reason = DeviceCooldown
	case countSince(history, p, now, time.Hour, func(Action) bool { return true }) >= p.MaxActionsPerHour:
		d.Reason = HourlyCap
	}
	if d.Reason != "" && len(over) > 0 {
		d.Victim = &over[0]
	}
	return s, d, enough
}

// The follow function updates the device's breach after a sample. If the returned decision has no
// reason, the pods must also be evaluated.
func follow(b Breach, d Decision, sample *Sample, p Policy, now time.Time) (Breach, Decision) {
	// While the process was restarting, the clock may have been set back, or the floor may have
	// been changed.
	if b.LastAt.After(now.Add(FutureTolerance)) || b.Floor != p.Floor {
		b = Breach{Floor: p.Floor}
	}
	if sample == nil {
		d.Reason = TelemetryMissing
		return b, d
	}
	at := sample.At
	if !sample.Moved.IsZero() && sample.Moved.Before(at) {
		at = sample.Moved
	}
	switch age := now.Sub(sample.At); {
	case age > p.MaxDataAge:
		d.Reason = TelemetryStale
	case age < -FutureTolerance:
		d.Reason = TelemetryFuture
	case now.Sub(at) > p.MaxDataAge:
		d.Reason = TelemetryFrozen
	case !b.LastAt.IsZero() && at.Sub(b.LastAt) < p.Interval/2:
		d.Reason = cmp.Or(b.Doubt, NoNewSample)
	}
	if d.Reason != "" {
		return b, d
	}

	if at.Sub(b.LastAt) > p.Interval+p.MaxDataAge { // The device's state between the two samples is unknown.
		b = Breach{Floor: p.Floor}
	}
	b.LastAt, b.Doubt = at, ""
	clearSince := b.ClearSince
	b.ClearSince = time.Time{}
	// A breach ends unless the sample is usable and the free memory is below the clear floor.
	ended := Breach{LastAt: at, Doubt: doubt(sample, p), Floor: p.Floor}
	if ended.Doubt != TelemetryImpossible {
		d.Headroom, d.Usage, d.Limit = sample.Headroom, sample.Usage, sample.Limit
	}
	switch {
	case ended.Doubt != "":
		d.Reason = ended.Doubt
		return ended, d
	case sample.Headroom >= p.ClearFloor, sample.Headroom >= p.Floor && b.Count == 0:
		d.Reason = AboveFloor
		ended.ClearSince = clearSince
		if clearSince.IsZero() && sample.Headroom >= p.ClearFloor {
			ended.ClearSince = at
		}
		return ended, d
	case sample.Headroom >= p.Floor:
		d.Reason = BetweenFloors
		return b, d
	}

	b.Count = min(b.Count+1, p.Breaches)
	before := b.Over
	b.Over = map[string]int{}
	over, _, _ := overBudget(sample, p)
	for _, v := range over {
		b.Over[v.UID] = min(before[v.UID]+1, p.Breaches)
	}
	return b, d
}

// The doubt function returns the reason why no decision can be made from the sample, or "" if a
// decision can be made.
func doubt(s *Sample, p Policy) Reason {
	switch {
	case impossible(s, p):
		return TelemetryImpossible
	case s.Attribution == Invalid:
		return AttributionInvalid
	case s.Attribution == Partial:
		return AttributionPartial
	}
	return ""
}

// The impossible function reports whether the values in a sample contradict each other. An error in
// a single series can be detected, because the series depend on each other. The total memory is the
// sum of the used memory, the free memory and the small amount that the driver reserves. The
// containers together do not use more memory than the device.
func impossible(s *Sample, p Policy) bool {
	if s.Conflict || s.Limit <= 0 || s.Limit > maxBytes || s.Usage < 0 || s.Usage > s.Limit || s.Headroom < 0 || s.Headroom > s.Limit {
		return true
	}
	reserved := s.Limit - s.Usage - s.Headroom
	if reserved < -rounding || reserved >= max(p.Floor, minReserve) {
		return true
	}
	var sum int64
	for _, h := range s.Holders {
		if usage, ok := current(h.Usage, s); ok {
			if usage < 0 || usage > s.Limit {
				return true
			}
			sum += usage
		}
		if budget, ok := current(h.Budget, s); ok && (budget < 0 || budget > maxBytes || budget > 0 && budget < minBudget) {
			return true
		}
	}
	// If the tolerance hides an error, the error is smaller than the minimum overshoot, unless the
	// minimum overshoot is 64 MiB or less.
	return sum > s.Usage+max(rounding, p.MinOvershoot/2)
}

// The current function returns the number of bytes in a container's reading, and reports whether
// the reading has the same timestamp as the device's sample. If a reading is older than the sample,
// the container has ended or is no longer in telemetry.
func current(r Reading, s *Sample) (int64, bool) {
	return r.Bytes, r.At.Equal(s.At)
}

// overBudget returns the pods that use more than their budget, and the amount of memory that
// containers without a budget use. The over slice contains the pods that exceed a budget from one
// of the sources in Policy.BudgetSources. The enforced slice contains the pods that exceed a budget
// from another source by more than the minimum overshoot. Both slices are sorted by overshoot,
// largest first. The usage of a pod does not include the usage of its containers without a budget.
// If the usage of a container is unknown, overBudget assumes a usage of 0, so that the pod is not
// evicted because of unknown usage.
func overBudget(s *Sample, p Policy) (over, enforced []Victim, unbudgeted int64) {
	pods, others := map[string]*Victim{}, map[string]*Victim{}
	for _, h := range s.Holders {
		usage, observed := current(h.Usage, s)
		if !observed {
			usage = 0
		}
		budget, declared := current(h.Budget, s)
		if !declared || budget == 0 || h.UID == "" {
			unbudgeted += usage
			continue
		}
		of := pods
		if !slices.Contains(p.BudgetSources, h.Source) {
			of = others
		}
		v := of[h.UID]
		if v == nil {
			v = &Victim{Namespace: h.Namespace, Pod: h.Pod, UID: h.UID}
			of[h.UID] = v
		}
		v.Usage += usage
		v.Budget += budget
		if usage > 0 {
			v.Processes++
		}
	}
	return sorted(pods, s), enough(sorted(others, s), p), unbudgeted
}

// The sorted function returns the pods that are over their budget, sorted by overshoot, largest
// first.
func sorted(pods map[string]*Victim, s *Sample) (over []Victim) {
	for v := range maps.Values(pods) {
		v.Processes = max(v.Processes, s.Processes[v.UID])
		if v.Overshoot = v.Usage - v.Budget - s.Spare[v.UID]; v.Overshoot > 0 {
			over = append(over, *v)
		}
	}
	slices.SortFunc(over, func(a, b Victim) int {
		return cmp.Or(
			-cmp.Compare(a.Overshoot, b.Overshoot),
			cmp.Compare(a.Budget, b.Budget), // of pods with equal overshoots, the pod with the smallest budget comes first
			strings.Compare(a.UID, b.UID),
		)
	})
	return over
}

// The enough function returns the pods that exceed their budget by more than the minimum overshoot.
// The minimum is multiplied by the number of the pod's processes, because the device's memory usage
// includes a CUDA context for each process, and a budget usually does not include CUDA contexts.
func enough(over []Victim, p Policy) []Victim {
	return slices.DeleteFunc(slices.Clone(over), func(v Victim) bool {
		least := float64(p.MinOvershoot) * float64(max(v.Processes, 1))
		return float64(v.Overshoot) <= max(least, p.MinOvershootRatio*float64(v.Budget))
	})
}

// The exclude function returns the reason why the pod must not be evicted, or "" if the pod may be
// evicted.
func exclude(s State, in Input, v *Victim, pod Pod, known bool, p Policy, now time.Time) Reason {
	sameOwner := func(a Action) bool { return a.Owner == pod.Owner }
	history := s.history(p, now)
	switch {
	case !slices.Contains(p.Namespaces, v.Namespace):
		return NamespaceNotAllowed
	case slices.Contains(p.Denied, v.Namespace):
		return NoPermission
	case !known:
		return PodUnknown
	case !pod.Found, pod.UID != v.UID, pod.Node != in.Device.Node:
		return PodGone
	case pod.Terminating:
		return Terminating
	case !pod.Running:
		return NotRunning
	case pod.Mirror:
		return MirrorPod
	case pod.Owner == "":
		return NoOwner
	case !slices.Contains(p.OwnerKinds, pod.OwnerKind):
		return OwnerKind
	case pod.Protected:
		return Protected
	case pod.Priority > p.MaxPriority:
		return HighPriority
	case pod.Started.IsZero(), now.Sub(pod.Started) < p.MinPodAge:
		return PodTooYoung
	case s.Breach.Over[v.UID] < p.Breaches:
		return OverBudgetPending
	case !declaresNoMore(in.Sample, v, pod, p):
		return BudgetChanged
	case countSince(history, p, now, p.OwnerCooldown, sameOwner) > 0:
		return OwnerCooldown
	case !p.DryRun && countSince(history, p, now, ineffectivePeriod, func(a Action) bool { return sameOwner(a) && !a.Ended }) >= maxIneffective:
		return Ineffective
	}
	return ""
}
