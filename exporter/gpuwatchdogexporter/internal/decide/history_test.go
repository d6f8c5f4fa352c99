package decide

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
)

// histories is the number of random histories to simulate.
const histories = 120_000

// The truth type contains the actual state of a device at the time of a sample.
type truth struct {
	at       time.Time // the sample time, according to the wall clock
	headroom int64
	over     map[string]bool // Whether each pod is over its budget, keyed by pod UID.
	sample   *Sample         // A sample without faults.
}

// A tenant is a pod that uses the device.
type tenant struct {
	pod                 Pod
	name                string
	used, budget, drift int64
	context             int64 // memory that counts toward the device's usage but not toward the pod's usage
}

// The evaluation type describes the input of one evaluation of the device.
type evaluation struct {
	origin *truth    // The actual state at the time of the sample, or nil.
	sound  bool      // Whether the sample is on time and without faults.
	wall   time.Time // The wall clock time of the evaluation.
}

// The history type simulates a device and a watchdog. The simulation includes random faults in the
// telemetry, the API server, the clock and the process. The expected results are computed from the
// actual states of the device, never from the watchdog's state.
type history struct {
	r       *rand.Rand
	p       Policy
	faults  bool
	tenants []*tenant
	limit   int64
	reserve int64
	wall    time.Time     // The wall clock.
	real    time.Duration // The time that has actually passed.

	state        State
	evaluations  []evaluation // all evaluations since the simulation last reset the device's breach
	observations []*truth
	evicted      []realAction
	blind        bool // true if the state was lost, or if the clock was set while no watchdog was running
	evictions    int
}

type realAction struct {
	at    time.Duration
	owner string
}

func newHistory(seed uint64, faults bool) *history {
	r := rand.New(rand.NewPCG(seed, 1))
	h := &history{
		r: r, faults: faults, wall: t0,
		limit:   int64(16+r.IntN(65)) * gib,
		reserve: r.Int64N(900 * mib),
	}
	h.p = policy(func(p *Policy) {
		p.Breaches = 1 + r.IntN(3)
		p.Floor = gib + r.Int64N(2*gib)
		p.ClearFloor = p.Floor + r.Int64N(gib)
		p.MaxActionsPerHour = 1 + r.IntN(3)
		p.DeviceCooldown = time.Duration(r.IntN(15)) * time.Minute
		p.OwnerCooldown = time.Duration(r.IntN(30)) * time.Minute
	})
	for i := range 1 + r.IntN(4) {
		h.tenants = append(h.tenants, h.newTenant(i))
	}
	return h
}

func (h *history) newTenant(i int) *tenant {
	share := h.limit / 5
	t := &tenant{
		name:    fmt.Sprint("pod-", i),
		budget:  gib/4 + h.r.Int64N(share)*h.r.Int64N(3),
		used:    h.r.Int64N(share),
		context: h.r.Int64N(60 * mib),
		drift:   h.r.Int64N(3*gib) - gib/2,
	}
	t.pod = Pod{
		Found: true, UID: fmt.Sprintf("uid-%d-%d", i, h.r.Uint64()), Node: device.Node, Running: true,
		Started: h.wall.Add(-time.Hour), Owner: "ai/Deployment/" + t.name, OwnerKind: "Deployment",
	}
	return t
}

// The advance method simulates a minute in which tenants grow and shrink within the device's
// memory.
func (h *history) advance() *truth {
	h.wall, h.real = h.wall.Add(time.Minute), h.real+time.Minute
	free := h.limit - h.reserve
	for _, t := range h.tenants {
		free -= t.used + t.context
	}
	for i, t := range h.tenants {
		if h.withProbability(0.05) {
			*t = *h.newTenant(i)
			t.used, t.context, t.drift, t.pod.Started = 0, 0, 0, h.wall.Add(-time.Hour*time.Duration(h.r.IntN(2)))
			return h.advance()
		}
		if h.withProbability(0.2) {
			t.drift = h.r.Int64N(4*gib) - 2*gib
		}
		grow := min(max(t.drift, -t.used), max(free, 0))
		t.used += grow
		free -= grow
	}
	if free < 0 { // this happens only at the start of a history
		h.tenants[0].used = max(0, h.tenants[0].used+free)
		return h.advance()
	}
	now := &truth{at: h.wall.Add(-time.Duration(h.r.IntN(10)) * time.Second), headroom: free, over: map[string]bool{}}
	now.sample = &Sample{At: now.at, Headroom: free, Usage: h.limit - h.reserve - free, Limit: h.limit, Attribution: Valid}
	for _, t := range h.tenants {
		now.over[t.pod.UID] = t.used > t.budget
		now.sample.Holders = append(now.sample.Holders, Holder{
			Holder: gpudata.Holder{Namespace: "ai", Pod: t.name, UID: t.pod.UID, Container: "main"},
			Usage:  Reading{t.used, now.at}, Budget: Reading{t.budget, now.at}, Source: gpushare.BudgetResource,
		})
	}
	h.observations = append(h.observations, now)
	return now
}

func (h *history) withProbability(p float64) bool { return h.r.Float64() < p }

// The observe method returns the telemetry for the given actual state. The telemetry may contain a
// fault.
func (h *history) observe(now *truth) (sample *Sample, e evaluation) {
	if !h.faults || h.withProbability(0.5) {
		return now.sample, evaluation{origin: now, sound: true}
	}
	reported := *now.sample
	reported.Holders = slices.Clone(reported.Holders)
	one := &reported.Holders[h.r.IntN(len(reported.Holders))]
	e = evaluation{origin: now}
	switch h.r.IntN(21) {
	case 0: // missing
		return nil, evaluation{}
	case 1: // stale
		old := h.observations[h.r.IntN(len(h.observations))]
		return old.sample, evaluation{origin: old}
	case 2: // the previous sample again
		if len(h.observations) > 1 {
			old := h.observations[len(h.observations)-2]
			return old.sample, evaluation{origin: old}
		}
	case 3:
		reported.At = reported.At.Add(time.Duration(h.r.IntN(3600)) * time.Second)
		for i := range reported.Holders {
			reported.Holders[i].Usage.At, reported.Holders[i].Budget.At = reported.At, reported.At
		}
		if reported.At.Sub(h.wall) <= FutureTolerance { // A small clock difference is not a fault.
			return now.sample, evaluation{origin: now, sound: true}
		}
	case 4:
		one.Usage = Reading{}
	case 5:
		one.Budget = Reading{}
	case 6:
		reported.Holders = slices.Delete(reported.Holders, 0, 1)
	case 7: // doubled
		reported.Usage *= 2
	case 8: // the usage is doubled, and the free memory is computed from the doubled usage
		reported.Usage *= 2
		reported.Headroom = reported.Limit - reported.Usage
		h.attribute(&reported)
	case 9:
		reported.Headroom *= 2
	case 10:
		reported.Limit *= 2
	case 11:
		one.Usage.Bytes *= 2
	case 12:
		for i := range reported.Holders {
			reported.Holders[i].Usage.Bytes *= 2
		}
		reported.Usage *= 2
	case 13: // impossible
		one.Usage.Bytes = []int64{-1, 17 << 40, -1 << 63, 1<<63 - 1}[h.r.IntN(4)]
	case 14:
		one.Budget.Bytes = []int64{-1, 0, 1, 5000, 1<<63 - 1}[h.r.IntN(5)]
	case 15:
		reported.Headroom = []int64{0, -1, 17 << 40, -1 << 63, 1<<63 - 1}[h.r.IntN(5)]
	case 16: // false zeros
		for i := range reported.Holders {
			reported.Holders[i].Usage.Bytes = 0
		}
		h.attribute(&reported)
	case 17: // one container's series is frozen
		one.Usage = h.before(one.UID, one.Usage)
	case 18: // a source is frozen, and gpu_k8s has detected the problem
		for i := range reported.Holders {
			reported.Holders[i].Usage.Bytes = h.before(reported.Holders[i].UID, reported.Holders[i].Usage).Bytes
		}
		reported.Attribution = Invalid
	case 19: // two sources contradict each other
		reported.Headroom, reported.Conflict = reported.Headroom/2, true
	case 20: // telemetry still contains the last values of a container that has ended
		for _, holder := range h.observations[max(0, len(h.observations)-2)].sample.Holders {
			if !slices.ContainsFunc(reported.Holders, func(o Holder) bool { return o.UID == holder.UID }) {
				reported.Holders = append(reported.Holders, holder)
			}
		}
	}
	return &reported, e
}

// The before method returns the usage that a container had a few minutes ago. If the container did
// not exist at that time, the method returns the current usage.
func (h *history) before(uid string, now Reading) Reading {
	for _, holder := range h.observations[max(0, len(h.observations)-5)].sample.Holders {
		if holder.UID == uid {
			return holder.Usage
		}
	}
	return now
}

// The attribute method sets the attribution state that gpu_k8s would report for the values in the
// sample.
func (h *history) attribute(s *Sample) {
	sum := int64(0)
	for _, holder := range s.Holders {
		sum += holder.Usage.Bytes
	}
	switch {
	case sum > s.Usage+s.Usage/20:
		s.Attribution = Invalid
	case s.Usage-sum > int64(len(s.Holders))*512*mib:
		s.Attribution = Partial
	}
}

// The facts method returns the state of the pods, as reported by the API server. The state may
// contain a fault.
func (h *history) facts() map[string]Pod {
	if h.faults && h.withProbability(0.05) {
		return nil
	}
	facts := map[string]Pod{}
	for _, t := range h.tenants {
		pod := t.pod
		if h.faults && h.withProbability(0.1) {
			switch h.r.IntN(7) {
			case 0:
				pod.Found = false
			case 1:
				pod.UID = "another"
			case 2:
				pod.Terminating = true
			case 3:
				pod.Protected = true
			case 4:
				pod.Owner = ""
			case 5:
				pod.Mirror = true
			case 6:
				pod.Started = h.wall
			}
		}
		facts[t.pod.UID] = pod
	}
	return facts
}

// The disturb method sometimes restarts the process or sets the clock.
func (h *history) disturb() error {
	if !h.faults {
		return nil
	}
	if h.withProbability(0.05) { // a restart with stored state
		text, err := json.Marshal(h.state)
		if err != nil {
			return err
		}
		h.state = State{}
		if err := json.Unmarshal(text, &h.state); err != nil {
			return err
		}
		if h.withProbability(0.1) { // with another configuration
			h.p.Floor = gib + h.r.Int64N(h.p.ClearFloor-gib+1)
		}
		if h.withProbability(0.2) {
			h.wall = h.wall.Add(time.Duration(h.r.Int64N(int64(4*time.Hour))) - 2*time.Hour)
			h.blind = true
		}
	}
	if h.withProbability(0.01) { // a restart without stored state
		h.state, h.evaluations, h.blind = State{}, nil, true
	}
	if h.withProbability(0.03) { // the clock is set while the process is running
		step := time.Duration(h.r.Int64N(int64(4*time.Hour))) - 2*time.Hour
		h.wall = h.wall.Add(step)
		h.state = State{Actions: Shift(h.state.Actions, step)}
		h.evaluations = nil
	}
	return nil
}

// The minute method simulates one minute, which includes an evaluation. If the result of the
// evaluation is wrong, the method returns an error.
func (h *history) minute() error {
	now := h.advance()
	if err := h.disturb(); err != nil {
		return err
	}
	sample, e := h.observe(now)
	e.wall = h.wall
	h.evaluations = append(h.evaluations, e)
	facts := h.facts()
	state, d := Evaluate(h.state, Input{device, sample, facts}, h.p, h.wall)
	h.state = state
	if d.Action == nil {
		return nil
	}
	h.evictions++
	if err := h.judge(d, facts); err != nil {
		return err
	}
	evicted := !h.withProbability(0.2)
	h.state = Settle(h.state, *d.Action, evicted)
	if !evicted {
		return nil
	}
	h.evaluations = nil
	h.evicted = append(h.evicted, realAction{h.real, d.Action.Owner})
	for i, tenant := range h.tenants {
		if tenant.pod.UID == d.Action.UID {
			h.tenants[i] = h.newTenant(i)
			h.tenants[i].used, h.tenants[i].pod.Started = 0, h.wall
		}
	}
	return nil
}

// The judge method uses the actual states of the device to check an eviction, and returns an error
// if the eviction was wrong.
func (h *history) judge(d Decision, facts map[string]Pod) error {
	last := h.evaluations[len(h.evaluations)-1].origin
	if !last.over[d.Action.UID] {
		return fmt.Errorf("%s was not over its budget", d.Action.Pod)
	}
	pod := facts[d.Action.UID]
	if !pod.Found || pod.UID != d.Action.UID || pod.Terminating || pod.Protected || pod.Mirror || pod.Owner == "" ||
		h.wall.Sub(pod.Started) < h.p.MinPodAge {
		return fmt.Errorf("%s may not be evicted: %+v", d.Action.Pod, pod)
	}

	// An eviction requires enough consecutive samples below the floor. All samples must be fresh,
	// and no sample counts twice. Between the samples below the floor, there must not be a
	// fault-free sample at or above the clear floor.
	var low []*truth
	for i := len(h.evaluations) - 1; i >= 0 && len(low) < h.p.Breaches; i-- {
		e := h.evaluations[i]
		switch {
		case e.origin == nil || slices.Contains(low, e.origin):
		case e.sound && e.origin.headroom >= h.p.ClearFloor:
			return fmt.Errorf("the device had %d MiB free between the breaches", e.origin.headroom/mib)
		case e.origin.headroom < h.p.Floor && e.wall.Sub(e.origin.at) <= h.p.MaxDataAge:
			low = append(low, e.origin)
		}
	}
	if len(low) < h.p.Breaches {
		return fmt.Errorf("the device was below the floor in %d evaluations of %d", len(low), h.p.Breaches)
	}

	if h.blind {
		return nil // The watchdog does not know when the last action took place.
	}
	hour := 0
	for _, a := range h.evicted {
		ago := h.real - a.at
		if ago < h.p.DeviceCooldown || a.owner == d.Action.Owner && ago < h.p.OwnerCooldown {
			return fmt.Errorf("the last action was %s ago", ago)
		}
		if ago < time.Hour {
			hour++
		}
	}
	if hour >= h.p.MaxActionsPerHour {
		return fmt.Errorf("%d actions within the hour", hour)
	}
	return nil
}

// Despite faults and restarts, the watchdog must evict a pod only if the device was actually below
// the floor for the required number of evaluations and the pod was actually over its budget. The
// faults include errors in a single series and in the series that are derived from that series. The
// watchdog cannot detect a consistent error in all series.
func TestNoRandomHistoryCausesAWrongEviction(t *testing.T) {
	n := uint64(histories)
	if testing.Short() {
		n /= 20
	}
	const workers = 4
	var evictions atomic.Int64
	var running sync.WaitGroup
	for worker := range uint64(workers) {
		running.Go(func() {
			for seed := worker; seed < n; seed += workers {
				h := newHistory(seed, true)
				for minute := range 30 {
					if err := h.minute(); err != nil {
						t.Errorf("seed %d, minute %d: %v", seed, minute, err)
						return
					}
				}
				evictions.Add(int64(h.evictions))
			}
		})
	}
	running.Wait()
	t.Logf("%d histories, %d evictions", n, evictions.Load())
	assert.Greater(t, evictions.Load(), int64(n/10), "some histories must have evictions")
}

// If there are no faults, a pod is evicted in the Nth evaluation in which the pod is over its
// budget and the device is below the floor. N is the required number of breaches.
func TestAGrowingPodIsEvictedInTheNthEvaluation(t *testing.T) {
	for n := 1; n <= 5; n++ {
		p := policy(func(p *Policy) { p.Breaches = n })
		var s State
		var decisions []Reason
		used := int64(3 * gib) // the pod's usage, which increases by 1 GiB/s until the device is full
		for i := range n + 1 {
			at := t0.Add(time.Duration(i) * time.Minute)
			sample := card(at, 15360*mib-256*mib-used-4*gib, holder("a", used/mib, 3000), holder("b", 4096, 4096))
			var d Decision
			s, d = Evaluate(s, Input{device, sample, everyone}, p, at)
			decisions = append(decisions, d.Reason)
			used = min(used+60*gib, 15360*mib-256*mib-4*gib)
		}
		assert.Equal(t, AboveFloor, decisions[0])
		for _, d := range decisions[1:n] {
			assert.Equal(t, BreachPending, d, "reported at the first evaluation below the floor")
		}
		assert.Equal(t, Evicted, decisions[n])
	}
}
