package decide

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

// t0 is the time of the first evaluation.
var t0 = time.Date(2026, 6, 2, 8, 0, 0, 0, time.UTC)

func policy(change ...func(*Policy)) Policy {
	p := Policy{
		Interval: time.Minute, Floor: 1536 * mib, ClearFloor: 2 * gib, Breaches: 1,
		DeviceCooldown: 10 * time.Minute, OwnerCooldown: 30 * time.Minute, MaxActionsPerHour: 2,
		MinPodAge: 5 * time.Minute, Namespaces: []string{"ai"}, MaxPriority: 1_000_000_000,
		MaxDataAge: 90 * time.Second, MinOvershoot: 512 * mib, MinOvershootRatio: 0.05,
		OwnerKinds: []string{"Deployment"}, BudgetSources: []gpushare.BudgetSource{gpushare.BudgetResource},
	}
	for _, c := range change {
		c(&p)
	}
	return p
}

var device = Device{Node: "gpu-1", ID: "GPU-0"}

// The card function returns a sample of a device with 15360 MiB of memory and the given amount of
// free memory.
func card(at time.Time, free int64, holders ...Holder) *Sample {
	const total, reserved = 15360 * mib, 256 * mib
	for i := range holders {
		holders[i].Usage.At, holders[i].Budget.At = at, at
	}
	return &Sample{At: at, Headroom: free, Usage: total - reserved - free, Limit: total, Attribution: Valid, Holders: holders}
}

// The holder function returns a container with the given usage and budget in MiB. A negative number
// means that the value was not observed.
func holder(pod string, used, declared int64) Holder {
	return Holder{
		Holder: gpudata.Holder{Namespace: "ai", Pod: pod, UID: "uid-" + pod, Container: "main"},
		Usage:  Reading{Bytes: used * mib}, Budget: Reading{Bytes: declared * mib}, Source: gpushare.BudgetResource,
	}
}

// The unseen function removes the usage of the pod's container from the sample.
func unseen(s *Sample, pod string) *Sample {
	for i := range s.Holders {
		if s.Holders[i].Pod == pod {
			s.Holders[i].Usage = Reading{}
		}
	}
	return s
}

// The undeclared function removes the budget of the pod's container from the sample.
func undeclared(s *Sample, pod string) *Sample {
	for i := range s.Holders {
		if s.Holders[i].Pod == pod {
			s.Holders[i].Budget = Reading{}
		}
	}
	return s
}

func running(pod string) Pod {
	return Pod{Found: true, UID: "uid-" + pod, Node: "gpu-1", Running: true, Started: t0.Add(-time.Hour), Owner: "ai/Deployment/" + pod, OwnerKind: "Deployment"}
}

func runningPods(pods ...string) map[string]Pod {
	facts := map[string]Pod{}
	for _, pod := range pods {
		facts["uid-"+pod] = running(pod)
	}
	return facts
}

var everyone = runningPods("immich-ml", "llama-swap", "frigate", "a", "b", "c")

func victim(d Decision) string {
	if d.Victim == nil {
		return ""
	}
	return d.Victim.Pod
}

// The budget function returns the budget, in MiB, that gpushare reads from a container's resource
// limit.
func budget(t *testing.T, quantity string) int64 {
	t.Helper()
	q, err := resource.ParseQuantity(quantity)
	if err != nil {
		return 0 // the API server rejects this quantity
	}
	main := corev1.Container{Name: "main"}
	main.Resources.Limits = corev1.ResourceList{"example.com/gpumem": q}
	budgets, err := gpushare.Budgets(&corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{main}}}, gpushare.BudgetOptions{Resources: map[string]int64{"example.com/gpumem": mib}})
	require.NoError(t, err)
	if len(budgets) == 0 {
		return 0
	}
	return budgets[0].MemoryBytes / mib
}

// The test cases come from the test suite of an earlier system, which the rules of this watchdog
// are based on.
func TestTheEightRowsOfTheOriginalSystem(t *testing.T) {
	evict := func(s *Sample) Decision {
		_, d := Evaluate(State{}, Input{device, s, everyone}, policy(), t0)
		return d
	}
	for quantity, want := range map[string]int64{
		"3000": 3000, "14000": 14000, // 1. Plain integers.
		"5k": 5000, "3k": 3000, "2k": 2000, "14k": 14000, // 2. Decimal suffixes.
		"1Ki": 1024, "2Ki": 2048, // 3. Binary suffixes.
		"": 0, "abc": 0, "5x": 0, // 4. Malformed quantities.
	} {
		t.Run("the quantity "+quantity, func(t *testing.T) {
			declared := budget(t, quantity)
			assert.Equal(t, want, declared)
			d := evict(card(t0, 300*mib, holder("a", want+800, declared)))
			if want == 0 {
				assert.Equal(t, Unbudgeted, d.Reason)
				return
			}
			assert.Equal(t, Evicted, d.Reason)
			d = evict(card(t0, 300*mib, holder("a", want, declared)))
			assert.Equal(t, WithinBudget, d.Reason)
		})
	}
	for name, tc := range map[string]struct {
		free    int64
		holders []Holder
		reason  Reason
		victim  string
	}{
		"5. no action above the floor": {
			1537 * mib, []Holder{holder("immich-ml", 6750, 2500)}, AboveFloor, "",
		},
		"5. no action at the floor": {
			1536 * mib, []Holder{holder("immich-ml", 6750, 2500)}, AboveFloor, "",
		},
		"6. the pod over its budget is chosen, not another large pod": {
			900 * mib, []Holder{holder("llama-swap", 4400, 4500), holder("immich-ml", 6750, 2500)}, Evicted, "immich-ml",
		},
		"7. no action if all pods are within their budgets": {
			900 * mib, []Holder{holder("llama-swap", 4400, 4500), holder("immich-ml", 2400, 2500)}, WithinBudget, "",
		},
		"8. the larger of two overshoots": {
			900 * mib, []Holder{holder("a", 4000, 2000), holder("b", 6000, 3000)}, Evicted, "b",
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := evict(card(t0, tc.free, tc.holders...))
			assert.Equal(t, tc.reason, d.Reason)
			assert.Equal(t, tc.victim, victim(d))
			assert.Equal(t, tc.reason == Evicted, d.Action != nil)
		})
	}
}

// These failures occurred in an earlier system, which the rules of this watchdog are based on.
func TestTheFourteenFailuresOfTheOriginalSystem(t *testing.T) {
	over := func() Holder { return holder("a", 9000, 3000) }
	evaluate := func(s *Sample, pods map[string]Pod, change ...func(*Policy)) Decision {
		_, d := Evaluate(State{}, Input{device, s, pods}, policy(change...), t0)
		return d
	}
	t.Run("1. a pod with a budget of 5k is not ignored", func(t *testing.T) {
		d := evaluate(card(t0, gib, holder("a", 9000, budget(t, "5k"))), everyone)
		assert.Equal(t, Evicted, d.Reason)
		assert.EqualValues(t, 5000*mib, d.Victim.Budget)
	})
	t.Run("2. an evaluation without data from the API server is not complete", func(t *testing.T) {
		d := evaluate(card(t0, gib, over()), nil)
		assert.Equal(t, PodUnknown, d.Reason)
		assert.False(t, d.Reason.Complete())
		assert.False(t, NoPermission.Complete())
		assert.Nil(t, d.Action)
	})
	t.Run("3. missing telemetry does not mean an empty device", func(t *testing.T) {
		d := evaluate(nil, everyone)
		assert.Equal(t, TelemetryMissing, d.Reason)
		assert.False(t, d.Reason.Complete())
	})
	t.Run("4. each device is evaluated with its own memory and size", func(t *testing.T) {
		other := card(t0, 14*gib)
		p := policy()
		s, d := Evaluate(State{}, Input{Device{"gpu-1", "GPU-1"}, other, everyone}, p, t0)
		assert.Equal(t, AboveFloor, d.Reason)
		_, d = Evaluate(State{Actions: s.Actions}, Input{device, card(t0, gib, over()), everyone}, p, t0)
		assert.Equal(t, Evicted, d.Reason)
	})
	t.Run("5. free memory is that of the device, not the rest after the pods' usage", func(t *testing.T) {
		d := evaluate(card(t0, gib, holder("a", 100, 3000)), everyone)
		assert.Equal(t, WithinBudget, d.Reason, "a breach although pods use 100 MiB of 15 GiB")
	})
	t.Run("6. pods without a budget are reported as the cause", func(t *testing.T) {
		d := evaluate(undeclared(card(t0, gib, holder("b", 1000, 3000), over()), "a"), everyone)
		assert.Equal(t, Unbudgeted, d.Reason)
		assert.EqualValues(t, 9000*mib, d.Unbudgeted)
	})
	t.Run("7. a small overshoot causes no eviction, and a large one is reported in a dry run", func(t *testing.T) {
		d := evaluate(card(t0, gib, holder("a", 5200, 5000)), everyone)
		assert.Equal(t, BelowMinOvershoot, d.Reason)
		d = evaluate(card(t0, gib, holder("a", 7000, 5000)), everyone, func(p *Policy) { p.DryRun = true })
		assert.Equal(t, WouldEvict, d.Reason)
		assert.True(t, d.Action.DryRun)
	})
	t.Run("8. the replacement of the evicted pod is not evicted during the cool-down", func(t *testing.T) {
		p := policy()
		s, d := Evaluate(State{}, Input{device, card(t0, gib, over()), everyone}, p, t0)
		require.Equal(t, Evicted, d.Reason)
		s = Settle(s, *d.Action, true)
		again, pod := over(), running("a")
		again.UID, pod.UID = "uid-a2", "uid-a2"
		pods := map[string]Pod{"uid-a2": pod}
		for minute, want := range map[int]Reason{1: DeviceCooldown, 9: DeviceCooldown, 11: OwnerCooldown, 29: OwnerCooldown, 31: Evicted} {
			at := t0.Add(time.Duration(minute) * time.Minute)
			_, d = Evaluate(s, Input{device, card(at, gib, again), pods}, p, at)
			assert.Equal(t, want, d.Reason, "after %d min", minute)
		}
	})
	t.Run("9. all containers of a pod are added, and a pod that has ended is not evicted", func(t *testing.T) {
		side := holder("a", 100, 7000)
		side.Container = "sidecar"
		assert.Equal(t, WithinBudget, evaluate(card(t0, gib, over(), side), everyone).Reason)
		ended := running("a")
		ended.Running = false
		assert.Equal(t, NotRunning, evaluate(card(t0, gib, over()), map[string]Pod{"uid-a": ended}).Reason)
	})
	t.Run("10. a pod whose budget is missing has no budget and is not over its budget", func(t *testing.T) {
		assert.Equal(t, Unbudgeted, evaluate(undeclared(card(t0, gib, over()), "a"), everyone).Reason)
		assert.Equal(t, Unbudgeted, evaluate(card(t0, gib, holder("a", 9000, 0)), everyone).Reason)
	})
	t.Run("11. two exporters that contradict each other suspend the decision", func(t *testing.T) {
		s := card(t0, gib, over())
		s.Conflict = true
		assert.Equal(t, TelemetryImpossible, evaluate(s, everyone).Reason)
	})
	t.Run("12. the memory of invisible processes is not free", func(t *testing.T) {
		s := card(t0, gib, holder("a", 0, 3000), holder("b", 0, 3000))
		s.Attribution = Invalid
		d := evaluate(s, everyone)
		assert.Equal(t, AttributionInvalid, d.Reason)
		assert.False(t, d.Reason.Complete())
	})
	t.Run("13. one missing value does not affect others", func(t *testing.T) {
		d := evaluate(unseen(card(t0, gib, holder("b", 9000, 3000), over()), "b"), everyone)
		assert.Equal(t, Evicted, d.Reason)
		assert.Equal(t, "a", victim(d))
	})
	t.Run("14. between the floors the count neither increases nor restarts", func(t *testing.T) {
		p := policy(func(p *Policy) { p.Breaches = 3 })
		var s State
		var reasons []Reason
		for i, free := range []int64{1500, 1600, 1500, 1900, 1500, 1500} {
			at := t0.Add(time.Duration(i) * time.Minute)
			var d Decision
			s, d = Evaluate(s, Input{device, card(at, free*mib, over()), everyone}, p, at)
			reasons = append(reasons, d.Reason)
			if d.Action != nil {
				s = Settle(s, *d.Action, true)
			}
		}
		assert.Equal(t, []Reason{BreachPending, BetweenFloors, BreachPending, BetweenFloors, Evicted, BreachPending}, reasons)
	})
}

func TestImplausibleSampleSuspendsTheDecision(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Sample)
		want   Reason
	}{
		"stale":                                         {func(s *Sample) { s.At = t0.Add(-91 * time.Second) }, TelemetryStale},
		"the energy counter does not increase":          {func(s *Sample) { s.Moved = t0.Add(-91 * time.Second) }, TelemetryFrozen},
		"the energy counter increased recently":         {func(s *Sample) { s.Moved = t0.Add(-30 * time.Second) }, Evicted},
		"from the future":                               {func(s *Sample) { s.At = t0.Add(16 * time.Second) }, TelemetryFuture},
		"negative free":                                 {func(s *Sample) { s.Headroom = -1 }, TelemetryImpossible},
		"free above the size":                           {func(s *Sample) { s.Headroom = 16 * gib }, TelemetryImpossible},
		"no free memory although most memory is unused": {func(s *Sample) { s.Headroom, s.Usage = 0, 5*gib }, TelemetryImpossible},
		"used doubled":                                  {func(s *Sample) { s.Usage *= 2 }, TelemetryImpossible},
		"size doubled":                                  {func(s *Sample) { s.Limit *= 2 }, TelemetryImpossible},
		"no size":                                       {func(s *Sample) { s.Limit = 0 }, TelemetryImpossible},
		"17 TB in a container":                          {func(s *Sample) { s.Holders[0].Usage.Bytes = 17 << 40 }, TelemetryImpossible},
		"a container's usage is doubled":                {func(s *Sample) { s.Holders[0].Usage.Bytes *= 2 }, TelemetryImpossible},
		"a negative usage":                              {func(s *Sample) { s.Holders[0].Usage.Bytes = -1 }, TelemetryImpossible},
		"a negative budget":                             {func(s *Sample) { s.Holders[0].Budget.Bytes = -1 }, TelemetryImpossible},
		"a budget without its unit":                     {func(s *Sample) { s.Holders[0].Budget.Bytes = 3000 }, TelemetryImpossible},
		"a budget above the size of any device":         {func(s *Sample) { s.Holders[0].Budget.Bytes = 1 << 62 }, TelemetryImpossible},
		"attribution invalid":                           {func(s *Sample) { s.Attribution = Invalid }, AttributionInvalid},
		"attribution partial":                           {func(s *Sample) { s.Attribution = Partial }, AttributionPartial},
		"usage from another time":                       {func(s *Sample) { s.Holders[0].Usage.At = t0.Add(-time.Second) }, WithinBudget},
		"budget from another time":                      {func(s *Sample) { s.Holders[0].Budget.At = t0.Add(-time.Second) }, Unbudgeted},
		"a plausible sample: the pod is chosen":         {func(*Sample) {}, Evicted},
	} {
		t.Run(name, func(t *testing.T) {
			s := card(t0, gib, holder("a", 9000, 3000))
			tc.change(s)
			_, d := Evaluate(State{}, Input{device, s, everyone}, policy(), t0)
			assert.Equal(t, tc.want, d.Reason)
			assert.Equal(t, tc.want == Evicted, d.Action != nil)
		})
	}
}

func TestProtectedPodIsSkippedOrDelaysTheDecision(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Pod)
		want   Reason
		waits  bool // the watchdog waits instead of evaluating the next pod
	}{
		"protected":               {func(p *Pod) { p.Protected = true }, Protected, false},
		"a mirror pod":            {func(p *Pod) { p.Mirror = true }, MirrorPod, false},
		"with a high priority":    {func(p *Pod) { p.Priority = 2_000_000_000 }, HighPriority, false},
		"without an owner":        {func(p *Pod) { p.Owner = "" }, NoOwner, false},
		"of a Job":                {func(p *Pod) { p.Owner, p.OwnerKind = "ai/Job/train", "Job" }, OwnerKind, false},
		"too young":               {func(p *Pod) { p.Started = t0.Add(-4 * time.Minute) }, PodTooYoung, false},
		"of unknown age":          {func(p *Pod) { p.Started = time.Time{} }, PodTooYoung, false},
		"not running":             {func(p *Pod) { p.Running = false }, NotRunning, false},
		"terminating":             {func(p *Pod) { p.Terminating = true }, Terminating, true},
		"gone":                    {func(p *Pod) { p.Found = false }, PodGone, true},
		"replaced by another pod": {func(p *Pod) { p.UID = "uid-new" }, PodGone, true},
		"on another node":         {func(p *Pod) { p.Node = "gpu-2" }, PodGone, true},
	} {
		t.Run(name, func(t *testing.T) {
			pod := running("a")
			tc.change(&pod)
			pods := map[string]Pod{"uid-a": pod, "uid-b": running("b")}

			_, d := Evaluate(State{}, Input{device, card(t0, gib, holder("a", 6000, 3000)), pods}, policy(), t0)
			assert.Equal(t, tc.want, d.Reason)
			assert.Nil(t, d.Action)

			_, d = Evaluate(State{}, Input{device, card(t0, gib, holder("a", 6000, 3000), holder("b", 4000, 3000)), pods}, policy(), t0)
			if tc.waits {
				assert.Equal(t, tc.want, d.Reason)
				assert.Nil(t, d.Action)
				return
			}
			assert.Equal(t, Evicted, d.Reason)
			assert.Equal(t, "b", victim(d))
		})
	}
}

func TestBudgetForSeveralDevicesIsComparedWithTheTotalUse(t *testing.T) {
	for spare, want := range map[int64]Reason{0: Evicted, 2 * gib: Evicted, 2800 * mib: BelowMinOvershoot, 3 * gib: WithinBudget} {
		s := card(t0, gib, holder("a", 6*1024, 3*1024))
		s.Spare = map[string]int64{"uid-a": spare}
		_, d := Evaluate(State{}, Input{device, s, everyone}, policy(), t0)
		assert.Equal(t, want, d.Reason, "with %d MiB unused on the other device", spare/mib)
	}
}

func TestUnlistedNamespaceIsSkippedWithoutReadingThePod(t *testing.T) {
	h := holder("a", 6000, 3000)
	h.Namespace = "kube-system"
	_, d := Evaluate(State{}, Input{device, card(t0, gib, h, holder("b", 4000, 3000)), runningPods("b")}, policy(), t0)
	assert.Equal(t, "b", victim(d))
	_, d = Evaluate(State{}, Input{device, card(t0, gib, h), nil}, policy(func(p *Policy) { p.Namespaces = nil }), t0)
	assert.Equal(t, NamespaceNotAllowed, d.Reason)
	assert.Equal(t, "a", victim(d))
}

// A step is an evaluation in the given minute.
type step struct {
	minute int
	sample func(at time.Time) *Sample
	want   Reason
}

func walk(t *testing.T, s State, p Policy, steps []step) State {
	t.Helper()
	for _, st := range steps {
		at := t0.Add(time.Duration(st.minute) * time.Minute)
		var d Decision
		s, d = Evaluate(s, Input{device, st.sample(at), everyone}, p, at)
		require.Equal(t, st.want, d.Reason, "minute %d", st.minute)
		if d.Action != nil {
			s = Settle(s, *d.Action, true)
		}
	}
	return s
}

func TestOnlyConsecutiveBreachesCount(t *testing.T) {
	breach := func(at time.Time) *Sample { return card(at, gib, holder("a", 9000, 3000)) }
	relaxed := func(at time.Time) *Sample { return card(at, 3*gib, holder("a", 9000, 3000)) }
	none := func(time.Time) *Sample { return nil }
	wrong := func(at time.Time) *Sample {
		s := breach(at)
		s.Usage *= 2
		return s
	}
	first := func(time.Time) *Sample { return breach(t0) }
	later := func(time.Time) *Sample { return breach(t0.Add(29 * time.Second)) }
	// The exporter repeats old values, so the board's energy counter does not increase.
	frozen := func(at time.Time) *Sample {
		s := breach(at)
		s.Moved = t0
		return s
	}
	within := func(at time.Time) *Sample { return card(at, gib, holder("a", 2000, 3000)) }
	three := policy(func(p *Policy) { p.Breaches = 3 })
	for name, steps := range map[string][]step{
		"three consecutive breaches": {
			{0, breach, BreachPending}, {1, breach, BreachPending}, {2, breach, Evicted}, {3, breach, BreachPending},
		},
		"free memory resets the count": {
			{0, breach, BreachPending}, {1, breach, BreachPending}, {2, relaxed, AboveFloor}, {3, breach, BreachPending},
		},
		"wrong data resets the count": {
			{0, breach, BreachPending}, {1, breach, BreachPending}, {2, wrong, TelemetryImpossible}, {3, breach, BreachPending},
		},
		"the reason of a bad sample remains until the next sample": {
			{0, wrong, TelemetryImpossible}, {1, func(time.Time) *Sample { return wrong(t0) }, TelemetryImpossible}, {2, breach, BreachPending},
		},
		"one missing sample does not reset the count": {
			{0, breach, BreachPending}, {1, breach, BreachPending}, {2, none, TelemetryMissing}, {3, breach, Evicted},
		},
		"a long gap resets the count": {
			{0, breach, BreachPending}, {1, breach, BreachPending}, {2, none, TelemetryMissing}, {3, none, TelemetryMissing}, {4, breach, BreachPending},
		},
		"a sample counts once": {
			{0, first, BreachPending}, {1, first, NoNewSample}, {2, breach, BreachPending}, {3, breach, Evicted},
		},
		"samples within a short time count as one": {
			{0, first, BreachPending}, {1, later, NoNewSample}, {2, breach, BreachPending},
		},
		"a repeated response counts once": {
			{0, frozen, BreachPending}, {1, frozen, NoNewSample}, {2, frozen, TelemetryFrozen}, {3, frozen, TelemetryFrozen},
		},
		"the pod must be over its budget in each evaluation": {
			{0, within, BreachPending}, {1, within, BreachPending}, {2, breach, OverBudgetPending}, {3, breach, OverBudgetPending}, {4, breach, Evicted},
		},
	} {
		t.Run(name, func(t *testing.T) { walk(t, State{}, three, steps) })
	}
}

func TestBreachesSurviveARestart(t *testing.T) {
	breach := func(at time.Time) *Sample { return card(at, gib, holder("a", 9000, 3000)) }
	three := policy(func(p *Policy) { p.Breaches = 3 })
	s := walk(t, State{}, three, []step{{0, breach, BreachPending}, {1, breach, BreachPending}})
	text, err := json.Marshal(s)
	require.NoError(t, err)
	var restored State
	require.NoError(t, json.Unmarshal(text, &restored))
	walk(t, restored, three, []step{{2, breach, Evicted}})
}

// The floor may have been changed in the configuration when the collector was restarted.
func TestBreachesOfAnotherFloorDoNotCount(t *testing.T) {
	p := policy(func(p *Policy) { p.Breaches = 3 })
	var s State
	for i := range 2 {
		at := t0.Add(time.Duration(i) * time.Minute)
		s, _ = Evaluate(s, Input{device, card(at, gib, holder("a", 9000, 3000)), everyone}, p, at)
	}
	require.Equal(t, 2, s.Breach.Count)
	p.Floor = gib / 2
	at := t0.Add(2 * time.Minute)
	_, d := Evaluate(s, Input{device, card(at, gib/4, holder("a", 9000, 3000)), everyone}, p, at)
	assert.Equal(t, BreachPending, d.Reason)
	assert.Equal(t, 1, d.Breaches)
}

func TestHourlyCap(t *testing.T) {
	var s State
	p := policy()
	for i, want := range []Reason{Evicted, Evicted, HourlyCap} {
		at := t0.Add(time.Duration(i) * time.Minute)
		pod := string(rune('a' + i))
		var d Decision
		in := Input{Device{"gpu-1", pod}, card(at, gib, holder(pod, 9000, 3000)), everyone}
		s, d = Evaluate(State{Actions: s.Actions}, in, p, at)
		assert.Equal(t, want, d.Reason)
	}
	assert.Len(t, s.Actions, 2)
}

func TestDryRunAndRealActionsDoNotCountAgainstEachOther(t *testing.T) {
	in := Input{device, card(t0, gib, holder("a", 9000, 3000)), everyone}
	s, d := Evaluate(State{}, in, policy(func(p *Policy) { p.DryRun = true }), t0)
	require.Equal(t, WouldEvict, d.Reason)
	_, d = Evaluate(State{Actions: s.Actions}, in, policy(), t0)
	assert.Equal(t, Evicted, d.Reason)
}

func TestFailedActionIsRetried(t *testing.T) {
	p := policy(func(p *Policy) { p.Breaches = 2 })
	breach := func(at time.Time) *Sample { return card(at, gib, holder("a", 9000, 3000)) }
	s := walk(t, State{}, p, []step{{0, breach, BreachPending}})
	at := t0.Add(time.Minute)
	s, d := Evaluate(s, Input{device, breach(at), everyone}, p, at)
	require.Equal(t, Evicted, d.Reason)
	require.Len(t, s.Actions, 1, "the action is in the state before it is carried out")
	s = Settle(s, *d.Action, false)
	assert.Empty(t, s.Actions)
	walk(t, s, p, []step{{2, breach, Evicted}, {3, breach, BreachPending}})
}

func TestCooldownsSurviveClockChanges(t *testing.T) {
	breach := func(at time.Time) *Sample { return card(at, gib, holder("a", 9000, 3000)) }
	acted := State{Actions: []Action{{At: t0, Device: device, UID: "uid-x", Owner: "ai/Deployment/a"}}}
	reason := func(s State, at time.Time) Reason {
		_, d := Evaluate(s, Input{device, breach(at), everyone}, policy(), at)
		return d.Reason
	}
	t.Run("set forward by a day while the process runs", func(t *testing.T) {
		s := State{Actions: Shift(acted.Actions, 24*time.Hour)}
		assert.Equal(t, DeviceCooldown, reason(s, t0.Add(24*time.Hour+5*time.Minute)))
		assert.Equal(t, Evicted, reason(s, t0.Add(24*time.Hour+31*time.Minute)))
	})
	t.Run("set back by a day during a restart", func(t *testing.T) {
		back := t0.Add(-24 * time.Hour)
		s, d := Evaluate(acted, Input{device, breach(back), everyone}, policy(), back)
		assert.Equal(t, DeviceCooldown, d.Reason)
		later := back.Add(31 * time.Minute)
		pods := runningPods("a")
		_, d = Evaluate(s, Input{device, breach(later), pods}, policy(func(p *Policy) { p.MinPodAge = -100 * time.Hour }), later)
		assert.Equal(t, Evicted, d.Reason, "the cool-down counts from the restart, not for a day")
	})
	t.Run("a breach in the future is ignored", func(t *testing.T) {
		s := State{Breach: Breach{Count: 2, LastAt: t0.Add(time.Hour), Over: map[string]int{"uid-a": 2}}}
		three := policy(func(p *Policy) { p.Breaches = 3 })
		_, d := Evaluate(s, Input{device, breach(t0), everyone}, three, t0)
		assert.Equal(t, BreachPending, d.Reason)
		assert.Equal(t, 1, d.Breaches)
	})
}

func TestEvaluateDoesNotModifyItsArguments(t *testing.T) {
	s := State{
		Breach:  Breach{Count: 2, LastAt: t0, Over: map[string]int{"uid-a": 2}},
		Actions: []Action{{At: t0.Add(-2 * time.Hour), UID: "old"}, {At: t0.Add(time.Hour), UID: "ahead"}},
	}
	before, err := json.Marshal(s)
	require.NoError(t, err)
	at := t0.Add(time.Minute)
	in := Input{device, card(at, gib, holder("a", 9000, 3000)), everyone}
	after, d := Evaluate(s, in, policy(), at)
	require.NotNil(t, d.Action)
	Settle(after, *d.Action, false)
	Merge(s.Actions, after.Actions)
	Shift(s.Actions, time.Hour)
	unchanged, err := json.Marshal(s)
	require.NoError(t, err)
	assert.Equal(t, string(before), string(unchanged))
	again, same := Evaluate(s, in, policy(), at)
	assert.Equal(t, d, same)
	assert.Equal(t, after, again)
}

func TestMergeKeepsEachActionOnce(t *testing.T) {
	a := Action{At: t0, UID: "a"}
	b := Action{At: t0.Add(time.Minute), UID: "b"}
	assert.Equal(t, []Action{a, b}, Merge([]Action{b}, []Action{a, b}))
	assert.Empty(t, Merge(nil, nil))
}

func BenchmarkEvaluate(b *testing.B) {
	in := Input{device, card(t0, gib, holder("a", 6000, 3000), holder("b", 4000, 3000), holder("c", 2000, 3000)), everyone}
	p := policy()
	b.ReportAllocs()
	for b.Loop() {
		Evaluate(State{}, in, p, t0)
	}
}
