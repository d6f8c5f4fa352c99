package decide

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The days function evaluates a device once per minute for the given number of minutes. The results
// are the minutes in which a pod was evicted, and the reason from the last evaluation. The free
// function returns the device's free memory in MiB, given the current minute and the number of
// minutes since the last eviction.
func days(t *testing.T, p Policy, minutes int, free func(minute, since int) int64) (evictions []int, last Reason) {
	t.Helper()
	var s State
	since := minutes
	for minute := range minutes {
		at := t0.Add(time.Duration(minute) * time.Minute)
		left := free(minute, since)
		svc := holder("a", 3600, 3000)
		if left > 2048 {
			svc = holder("a", 100, 3000)
		}
		pod := running("a")
		pod.Started = t0.Add(-time.Hour)
		var d Decision
		s, d = Evaluate(s, Input{device, card(at, left*mib, svc), map[string]Pod{"uid-a": pod}}, p, at)
		last = d.Reason
		since++
		if d.Action != nil {
			s = Settle(s, *d.Action, true)
			evictions = append(evictions, minute)
			since = 0
		}
	}
	return evictions, last
}

// A pod without a budget fills the device, and another pod is slightly over its budget.
func TestOwnerIsEvictedAtMostTwiceWithoutEffect(t *testing.T) {
	const day = 24 * 60
	t.Run("the device stays full", func(t *testing.T) {
		evictions, last := days(t, policy(), day, func(int, int) int64 { return 900 })
		assert.Equal(t, []int{0, 30}, evictions)
		assert.Equal(t, Ineffective, last)
		assert.True(t, last.Complete())
	})
	t.Run("the memory is free until the pod is replaced", func(t *testing.T) {
		evictions, last := days(t, policy(), day, func(_, since int) int64 {
			if since < 5 {
				return 4000
			}
			return 900
		})
		assert.Len(t, evictions, 2)
		assert.Equal(t, Ineffective, last)
	})
	t.Run("an eviction after which memory is free for hours may be repeated", func(t *testing.T) {
		evictions, _ := days(t, policy(), day, func(minute, since int) int64 {
			if minute > 0 && since < 180 {
				return 4000
			}
			return 900
		})
		assert.Len(t, evictions, day/180)
	})
	t.Run("the owner is evicted again after the shortage ended for another reason", func(t *testing.T) {
		evictions, _ := days(t, policy(), day, func(minute, _ int) int64 {
			if minute >= 300 && minute < 340 { // for the length of the owner's cool-down
				return 4000
			}
			return 900
		})
		assert.Equal(t, []int{0, 30, 340, 370}, evictions)
	})
	t.Run("in a dry run no eviction could have ended the shortage", func(t *testing.T) {
		evictions, _ := days(t, policy(func(p *Policy) { p.DryRun = true }), 240, func(int, int) int64 { return 900 })
		assert.Len(t, evictions, 8)
	})
}

// Other watchdogs evicted pods of the same owner and of other owners.
func TestActionsOfOtherWatchdogsCount(t *testing.T) {
	other := func(node string, minutesAgo int, owner string) Action {
		return Action{
			ID: node, At: t0.Add(-time.Duration(minutesAgo) * time.Minute), Device: Device{node, "GPU-9"}, UID: "uid-" + node, Owner: owner,
		}
	}
	for name, tc := range map[string]struct {
		recorded []Action
		want     Reason
	}{
		"nothing":                                     {nil, Evicted},
		"the same owner, recently":                    {[]Action{other("gpu-2", 5, "ai/Deployment/a")}, OwnerCooldown},
		"the same owner, an hour ago":                 {[]Action{other("gpu-2", 61, "ai/Deployment/a")}, Evicted},
		"another owner":                               {[]Action{other("gpu-2", 5, "ai/Deployment/b")}, Evicted},
		"the maximum number of other owners":          {[]Action{other("gpu-2", 5, "ai/Deployment/b"), other("gpu-3", 5, "ai/Deployment/c")}, HourlyCap},
		"the same owner twice without effect":         {[]Action{other("gpu-2", 90, "ai/Deployment/a"), other("gpu-3", 200, "ai/Deployment/a")}, Ineffective},
		"the same owner twice, two days ago":          {[]Action{other("gpu-2", 2880, "ai/Deployment/a"), other("gpu-3", 2890, "ai/Deployment/a")}, Evicted},
		"a watchdog whose clock is ahead":             {[]Action{other("gpu-2", -5, "ai/Deployment/a")}, OwnerCooldown},
		"the watchdog's own actions are counted once": {[]Action{{ID: "own", At: t0.Add(-40 * time.Minute), Device: device, UID: "uid-o", Owner: "ai/Deployment/b"}}, Evicted},
	} {
		t.Run(name, func(t *testing.T) {
			s := State{Recorded: tc.recorded}
			if strings.HasPrefix(name, "its own") {
				s.Actions = tc.recorded
			}
			_, d := Evaluate(s, Input{device, card(t0, gib, holder("a", 9000, 3000)), everyone}, policy(), t0)
			assert.Equal(t, tc.want, d.Reason)
			assert.Equal(t, tc.want == OwnerCooldown || tc.want == HourlyCap || tc.want == Ineffective, d.Reason.Recorded())
		})
	}
}

// After a restart without a storage extension, a watchdog knows about earlier actions only from the
// record.
func TestRecordedEvictionEndsTheShortageOnceTheDeviceIsClear(t *testing.T) {
	recorded := []Action{
		{ID: "1", At: t0.Add(-2 * time.Hour), Device: device, UID: "uid-1", Owner: "ai/Deployment/a"},
		{ID: "2", At: t0.Add(-3 * time.Hour), Device: Device{"gpu-2", "GPU-0"}, UID: "uid-2", Owner: "ai/Deployment/a"},
	}
	s := State{Recorded: recorded}
	for minute := range 31 {
		at := t0.Add(time.Duration(minute) * time.Minute)
		require.False(t, Unrecorded(s.Actions, s.Recorded), "minute %d", minute)
		s, _ = Evaluate(s, Input{device, card(at, 4*gib), nil}, policy(), at)
	}
	assert.True(t, Unrecorded(s.Actions, s.Recorded))
	all := Merge(s.Recorded, s.Actions)
	require.Len(t, all, 2)
	assert.Equal(t, "2", all[0].ID)
	assert.False(t, all[0].Ended, "on another device")
	assert.True(t, all[1].Ended)
	assert.False(t, Unrecorded(s.Actions, all), "after the end was recorded")
}

// For any two lists of recorded actions, Merge is commutative and never shortens a cool-down.
func TestMergeIsCommutativeAndNeverShortensACooldown(t *testing.T) {
	action := rapid.Custom(func(t *rapid.T) Action {
		return Action{
			ID:  rapid.SampledFrom([]string{"", "1", "2", "3"}).Draw(t, "id"),
			UID: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "uid"),
			At:  t0.Add(time.Duration(rapid.IntRange(-9, 9).Draw(t, "minute")) * time.Minute), Ended: rapid.Bool().Draw(t, "ended"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.SliceOfN(action, 0, 6).Draw(t, "a"), rapid.SliceOfN(action, 0, 6).Draw(t, "b")
		merged := map[string]Action{}
		for _, m := range Merge(a, b) {
			_, twice := merged[m.key()]
			assert.False(t, twice)
			merged[m.key()] = m
		}
		for _, m := range Merge(b, a) {
			assert.Equal(t, merged[m.key()].At, m.At)
			assert.Equal(t, merged[m.key()].Ended, m.Ended)
		}
		for _, x := range append(a, b...) {
			assert.False(t, merged[x.key()].At.Before(x.At))
			assert.True(t, merged[x.key()].Ended || !x.Ended)
		}
	})
}

func TestTheLaterTimeOfAnActionIsKeptAfterAClockChange(t *testing.T) {
	a := Action{At: t0, UID: "a", Owner: "ai/Deployment/a"}
	shifted := Shift([]Action{a}, time.Hour)
	merged := Merge([]Action{a}, shifted)
	require.Len(t, merged, 1)
	assert.Equal(t, t0.Add(time.Hour), merged[0].At)
	assert.Empty(t, Without(merged, a))
}
