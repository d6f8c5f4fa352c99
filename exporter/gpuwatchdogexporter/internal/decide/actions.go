package decide

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

const (
	// maxIneffective is the number of ineffective evictions after which the pods of an owner are no
	// longer evicted. The shortage then has another cause.
	maxIneffective = 2
	// ineffectivePeriod is the age above which ineffective evictions no longer count.
	ineffectivePeriod = 24 * time.Hour
)

// key identifies an action.
func (a *Action) key() string {
	if a.ID != "" {
		return a.ID
	}
	return a.UID + "/" + a.At.UTC().Format(time.RFC3339Nano)
}

// Shift adds step to the times of the actions. Call it after the clock was changed by step, so that
// cool-downs do not become longer or shorter.
func Shift(actions []Action, step time.Duration) []Action {
	shifted := slices.Clone(actions)
	for i := range shifted {
		shifted[i].ID = shifted[i].key()
		shifted[i].At = shifted[i].At.Add(step)
	}
	return shifted
}

// Merge returns the union of both lists, sorted by time. If they contain the same action with
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

// Without returns the actions without the action a.
func Without(actions []Action, a Action) []Action {
	return slices.DeleteFunc(slices.Clone(actions), func(b Action) bool { return b.key() == a.key() })
}

// Prune returns the actions that the rules still need. If the time of an action is in the future,
// Prune sets it to now.
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

// Unrecorded reports whether one of the watchdog's own actions has ended a shortage, but the record
// does not show this yet.
func Unrecorded(own, recorded []Action) bool {
	return slices.ContainsFunc(own, func(a Action) bool {
		return a.Ended && slices.ContainsFunc(recorded, func(r Action) bool { return r.key() == a.key() && !r.Ended })
	})
}

// history returns all actions to which the rules apply, both the watchdog's own actions and the
// recorded actions.
func (s *State) history(p Policy, now time.Time) []Action {
	return Prune(Merge(s.Actions, s.Recorded), p, now)
}

// endedActions returns the watchdog's own actions, updated after a sample of the device. If the
// device's free memory has stayed at or above the clear floor for the owner's cool-down,
// endedActions marks all actions on the device as having ended the shortage.
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

// countSince returns the number of matching actions in the time d before now. In a dry run, it
// counts only dry-run actions; otherwise, it counts only real actions.
func countSince(actions []Action, p Policy, now time.Time, d time.Duration, match func(Action) bool) int {
	n := 0
	for _, a := range actions {
		if a.DryRun == p.DryRun && now.Sub(a.At) < d && match(a) {
			n++
		}
	}
	return n
}
