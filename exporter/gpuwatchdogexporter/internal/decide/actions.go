package decide

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

const (
	// maxIneffective is the number of ineffective evictions after which the pods of an owner are no
	// longer evicted. If two evictions did not help, the shortage has another cause.
	maxIneffective = 2
	// ineffectivePeriod is the time after which an ineffective eviction no longer counts.
	ineffectivePeriod = 24 * time.Hour
)

// key identifies an action.
func (a *Action) key() string {
	if a.ID != "" {
		return a.ID
	}
	return a.UID + "/" + a.At.UTC().Format(time.RFC3339Nano)
}

// Shift adds a duration to the times of the actions. If the clock is set forward or back by some
// duration, call Shift with that duration, so that cool-downs do not become shorter or longer.
func Shift(actions []Action, step time.Duration) []Action {
	shifted := slices.Clone(actions)
	for i := range shifted {
		shifted[i].ID = shifted[i].key()
		shifted[i].At = shifted[i].At.Add(step)
	}
	return shifted
}

// Merge returns the union of both lists, sorted by time. If both lists contain the same action with
// different times, Merge keeps the later time, so that no cool-down becomes shorter.
func Merge(a, b []Action) []Action {
	var merged []Action
	index := map[string]int{}
	for _, action := range slices.Concat(a, b) {
		i, ok := index[action.key()]
		if !ok {
			index[action.key()] = len(merged)
			merged = append(merged, action)
			continue
		}
		if action.At.After(merged[i].At) {
			merged[i].ID, merged[i].At = action.key(), action.At
		}
		merged[i].Ended = merged[i].Ended || action.Ended
	}
	slices.SortStableFunc(merged, func(x, y Action) int { return cmp.Or(x.At.Compare(y.At), strings.Compare(x.UID, y.UID)) })
	return merged
}

// Without returns a copy of the list that does not contain the given action.
func Without(actions []Action, a Action) []Action {
	return slices.DeleteFunc(slices.Clone(actions), func(b Action) bool { return b.key() == a.key() })
}

// Prune returns the actions that can still affect decisions. If the time of an action is in the
// future, Prune sets that time to now.
func Prune(actions []Action, p Policy, now time.Time) []Action {
	longest := max(time.Hour, p.DeviceCooldown, p.OwnerCooldown)
	kept := slices.DeleteFunc(slices.Clone(actions), func(a Action) bool {
		age := now.Sub(a.At)
		return age >= longest && (a.Ended || a.DryRun || age >= ineffectivePeriod)
	})
	for i := range kept {
		if kept[i].At.After(now) {
			kept[i].ID, kept[i].At = kept[i].key(), now
		}
	}
	return kept
}

// Unrecorded reports whether one of the watchdog's own actions has ended a shortage and the shared
// record does not yet show that the shortage has ended.
func Unrecorded(own, recorded []Action) bool {
	return slices.ContainsFunc(own, func(a Action) bool {
		return a.Ended && slices.ContainsFunc(recorded, func(r Action) bool { return r.key() == a.key() && !r.Ended })
	})
}

// The history method returns all actions that can still affect decisions: the watchdog's own
// actions and the actions in the shared record.
func (s *State) history(p Policy, now time.Time) []Action {
	return Prune(Merge(s.Actions, s.Recorded), p, now)
}

// endedActions returns the watchdog's own actions, updated according to the device's newest sample.
// A shortage ends if the device's free memory reaches the clear floor and then does not fall below
// the floor for the length of the owner's cool-down. When a shortage has ended, endedActions sets
// Ended on all earlier actions on the device.
func endedActions(s State, device Device, p Policy) []Action {
	b := &s.Breach
	if b.ClearSince.IsZero() || b.LastAt.Sub(b.ClearSince) < p.OwnerCooldown {
		return s.Actions
	}
	var ended []Action
	for _, a := range slices.Concat(s.Actions, s.Recorded) {
		if a.Device == device && !a.Ended && a.At.Before(b.ClearSince) {
			a.Ended = true
			ended = append(ended, a)
		}
	}
	if ended == nil {
		return s.Actions
	}
	return Merge(s.Actions, ended)
}

// countSince returns the number of matching actions whose age is less than d. In a dry run, only
// dry-run actions are counted. Otherwise, only real actions are counted.
func countSince(actions []Action, p Policy, now time.Time, d time.Duration, match func(Action) bool) int {
	n := 0
	for _, a := range actions {
		if a.DryRun == p.DryRun && now.Sub(a.At) < d && match(a) {
			n++
		}
	}
	return n
}
