package findings_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// This file generates random timelines, which model what GPUs do and what their exporters expose.
// The generator shares no code with the rules.

// load describes what a device is doing at a given time. All fields are ratios: for example,
// "power" is a fraction of the power limit, and "clock" is a fraction of the maximum clock
// frequency.
type load struct{ util, tensor, dram, pcie, nvlink, power, clock float64 }

// kind is the type of a job.
type kind int

const (
	training kind = iota
	inference
	notebook
	integer // kernels that use neither tensor pipes nor memory
	memoryBound
	timeSliced
	numKinds
)

// job describes a job that holds some of a node's devices for some time. Times are in seconds.
type job struct {
	kind       kind
	devices    []int
	begin, end float64
	users      []*gpudata.User // the pods that use each device of the job

	// Only training jobs use the following fields. A job trains for pauseEvery seconds and then
	// pauses for the duration in the pause field. During a pause, one rank saves a checkpoint or
	// evaluates the model while the other ranks wait. If spinsInPause is true, the other ranks wait
	// in a kernel. bubbles is the maximum fraction of time for which a device waits for another
	// stage of a training pipeline.
	pauseEvery, pause float64
	spinsInPause      bool
	bubbles           float64
	uneven            []float64 // the relative load on each device, up to 1
}

// fault describes an injected fault, which puts some devices into a state that a rule must detect.
type fault struct {
	rule       string
	devices    []int
	begin, end float64
	strength   float64 // from 0 (the weakest fault) to 1 (the strongest fault)
	variant    int
}

// board is a device of a node.
type board struct {
	id        string
	limit     float64 // In watts.
	idle      float64 // In watts.
	clock     float64 // Maximum clock frequency, in Hz.
	instances int     // Number of MIG instances.
	noise     float64 // Corrected errors per hour while there is no fault.

	energy, corrected, rows, throttled float64
	hot                                float64 // End of a short period with throttling.
	quiet                              float64 // End of a period without profiling values.
	shown                              shown
	shownAt                            float64 // time of the last update of the exposed values, or 0
	pending                            bool
	frame                              *gpudata.DeviceFrame
	parts                              []*gpudata.DeviceFrame
}

// The shown type contains the values that the exporter exposes for a device.
type shown struct {
	load
	watts, energy, sm, temp, throttled, corrected, rows float64
}

// world describes a node and its timeline.
type world struct {
	rng      *rand.Rand
	place    gpudata.Place
	every    float64 // Time between scrapes.
	refresh  float64 // Time between updates of the values that the exporter exposes.
	length   float64
	boards   []*board
	jobs     []*job
	faults   []fault
	gaps     [][2]float64 // Periods in which the exporter does not respond.
	restarts []float64    // Times of driver restarts, each at the end of a gap.
	// The following fields determine what the exporter exposes.
	energyCounter, integerWatts, nvlink, processes, holders, reasons, exactTimes bool
}

func (w *world) between(low, high float64) float64 { return low + (high-low)*w.rng.Float64() }

func (w *world) withProbability(p float64) bool { return w.rng.Float64() < p }

// newWorld returns a random node. If the seed is odd, the node has a fault.
func newWorld(seed uint64) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 42)), place: gpudata.Place{Node: fmt.Sprintf("n%d", seed)}}
	w.every = []float64{15, 15, 30, 60}[w.rng.IntN(4)]
	w.refresh = []float64{1, w.every, 30}[w.rng.IntN(3)]
	w.length = w.between(2, 5) * 3600
	w.energyCounter, w.integerWatts, w.nvlink = w.withProbability(0.85), w.withProbability(0.4), w.withProbability(0.7)
	w.processes, w.holders, w.reasons, w.exactTimes = w.withProbability(0.5), w.withProbability(0.8), w.withProbability(0.8), w.withProbability(0.6)
	limit := []float64{300, 400, 700, 1000}[w.rng.IntN(4)]
	for i := range 1 + w.rng.IntN(16) {
		b := &board{id: fmt.Sprintf("GPU-%d", i), limit: limit, idle: limit * w.between(0.06, 0.18), clock: 1.98e9, rows: float64(w.rng.IntN(3))}
		b.energy, b.corrected = w.between(0, 1e9), float64(w.rng.IntN(100))
		if w.withProbability(0.1) {
			b.noise = w.between(10, 800)
		}
		if w.withProbability(0.1) {
			b.instances = 2 + w.rng.IntN(3)
		}
		w.boards = append(w.boards, b)
	}
	if seed%2 == 1 {
		w.inject()
	}
	w.schedule()
	for w.withProbability(0.5) {
		begin := w.between(0, w.length)
		end := begin + w.between(45, 1200)
		w.gaps = append(w.gaps, [2]float64{begin, end})
		if w.withProbability(0.4) {
			w.restarts = append(w.restarts, end)
		}
	}
	return w
}

// schedule adds random jobs to the node. The added jobs do not overlap with existing jobs or with
// faults.
func (w *world) schedule() {
	n := len(w.boards)
	for at := 0.0; at < w.length; {
		first, count := w.rng.IntN(n), 1+w.rng.IntN(n)
		j := &job{kind: kind(w.rng.IntN(int(numKinds))), begin: at, end: at + w.between(600, 7200)}
		for i := range count {
			if d := (first + i) % n; w.free(d, j.begin, j.end) {
				j.devices = append(j.devices, d)
			}
		}
		w.start(j)
		at += w.between(60, 1800)
	}
}

// The free method reports whether a device is available for a job in a period. A device is
// available if no job uses it during the period and the device has no fault within 15 minutes of
// the period.
func (w *world) free(d int, begin, end float64) bool {
	overlaps := func(devices []int, b, e float64) bool {
		for _, o := range devices {
			if o == d && b < end && begin < e {
				return true
			}
		}
		return false
	}
	for _, j := range w.jobs {
		if overlaps(j.devices, j.begin, j.end) {
			return false
		}
	}
	for _, f := range w.faults {
		if overlaps(f.devices, f.begin-900, f.end+900) {
			return false
		}
	}
	return true
}

func (w *world) start(j *job) {
	if len(j.devices) == 0 {
		return
	}
	name, holders := fmt.Sprintf("job-%d", len(w.jobs)), 1
	if j.kind == timeSliced {
		holders = 2 + w.rng.IntN(3)
	}
	for k := range holders {
		j.users = append(j.users, &gpudata.User{
			Holder: gpudata.Holder{Namespace: "team", Pod: fmt.Sprintf("%s-%d", name, k), Container: "main"},
			Owner:  gpudata.NewOwner(gpudata.Ownership{WorkloadKind: "Job", Workload: name}), Holds: true,
		})
	}
	j.pauseEvery, j.pause = w.between(600, 2400), w.between(10, 270)
	if w.withProbability(0.3) {
		j.pauseEvery = j.pause + w.between(90, 300) // the job spends more time evaluating than training
	}
	j.spinsInPause, j.bubbles = w.withProbability(0.5), w.between(0, 0.4)
	for range j.devices {
		j.uneven = append(j.uneven, w.between(0.75, 1))
	}
	w.jobs = append(w.jobs, j)
}

// inject adds a random fault and a job that runs during the fault.
func (w *world) inject() {
	rules := []struct {
		rule string
		wait float64
	}{{"spinning", 300}, {"latched_utilization", 600}, {"slow_device", 180}, {"memory_degrading", 3600}, {"frozen_telemetry", 300}}
	r := rules[w.rng.IntN(len(rules))]
	f := fault{rule: r.rule, strength: w.rng.Float64(), variant: w.rng.IntN(3)}
	w.length = max(w.length, 4*r.wait+3600)
	f.begin = w.between(1200, w.length-3*r.wait-1200)
	f.end = f.begin + r.wait*w.between(1, 3)
	w.holders = w.holders || f.rule != "frozen_telemetry" && f.rule != "memory_degrading"
	all := w.rng.Perm(len(w.boards))
	j := &job{kind: training, begin: f.begin - 600, end: f.end + 600}
	switch f.rule {
	case "slow_device":
		for len(w.boards) < 4 {
			w.boards = append(w.boards, &board{id: fmt.Sprintf("GPU-%d", len(w.boards)), limit: w.boards[0].limit, idle: w.boards[0].idle, clock: 1.98e9})
		}
		all = w.rng.Perm(len(w.boards))
		j.devices, f.devices = all[:4+w.rng.IntN(len(all)-3)], all[:1]
		w.reasons = w.reasons || !w.exactTimes
	case "spinning":
		j.devices = all[:1+w.rng.IntN(len(all))]
		f.devices = j.devices
		if len(j.devices) > 1 && f.variant == 0 {
			f.devices = j.devices[1:] // the data loader of one rank hangs
		}
	case "latched_utilization":
		f.devices = all[:1]
		if f.variant == 0 { // a pod holds the device but runs no process
			w.processes, j.kind, j.devices = true, notebook, f.devices
		}
	case "frozen_telemetry":
		f.devices = all
		w.integerWatts = w.integerWatts && w.energyCounter
		j.devices = all[:1+w.rng.IntN(len(all))]
	default:
		f.devices = all[:1]
	}
	for _, d := range slices.Concat(f.devices, j.devices) {
		if f.rule != "memory_degrading" {
			w.boards[d].instances = 0
		}
	}
	if f.rule == "memory_degrading" {
		w.boards[f.devices[0]].noise = 0
	}
	w.start(j)
	w.faults = append(w.faults, f)
}

// The has method returns the fault that the given rule must detect on device d at time t, or nil if
// there is none.
func (w *world) has(rule string, d int, t float64) *fault {
	for i := range w.faults {
		if f := &w.faults[i]; f.rule == rule && t >= f.begin && t < f.end && slices.Contains(f.devices, d) {
			return f
		}
	}
	return nil
}

// jobOn returns the job that is running on a device at time t, and the device's rank in the job.
func (w *world) jobOn(d int, t float64) (*job, int) {
	for _, j := range w.jobs {
		for rank, o := range j.devices {
			if o == d && t >= j.begin && t < j.end {
				return j, rank
			}
		}
	}
	return nil, 0
}

// The idles method returns the load of a device that does no work. Callers pass the clock ratio,
// because a CUDA context on the device may keep the clock high.
func (w *world) idles(b *board, clock float64) load {
	return load{power: b.idle / b.limit * w.between(0.985, 1.01), clock: clock, dram: 0.0001}
}

// The waits method returns the load of a device on which a kernel polls while it waits for other
// ranks.
func (w *world) waits(strength float64) load {
	weak := 1 - strength
	return load{
		util: 1 - 0.04*weak*w.rng.Float64(), tensor: 0.009 * weak * w.rng.Float64(), dram: 0.019 * weak * w.rng.Float64(),
		pcie: 0.009 * weak * w.rng.Float64(), nvlink: 0.009 * weak * w.rng.Float64(), power: 0.2 + 0.195*weak*w.between(0.5, 1), clock: 1,
	}
}

// The does method returns the load of device d at time t, without the effects of faults.
func (w *world) does(b *board, d int, t float64) load {
	j, rank := w.jobOn(d, t)
	if j == nil {
		return w.idles(b, 0.17)
	}
	switch j.kind {
	case training:
		share := j.uneven[rank]
		if since := math.Mod(t-j.begin+j.pauseEvery/2, j.pauseEvery+j.pause); since > j.pauseEvery {
			switch {
			case rank == 0 && j.pauseEvery > 600:
				return load{util: w.between(0, 0.3), pcie: 0.3, power: 0.25, clock: 1} // the rank saves
			case rank == 0:
				return load{util: 0.9, tensor: w.between(0.05, 0.2), dram: 0.4, pcie: 0.02, power: 0.5, clock: 1} // the rank evaluates
			case j.spinsInPause:
				return w.waits(w.rng.Float64())
			}
			return w.idles(b, 1)
		}
		if w.withProbability(0.02) { // an all-reduce operation
			return load{util: 1, dram: 0.1, pcie: 0.05, nvlink: 0.6, power: 0.35, clock: 1}
		}
		return load{
			util: min(1, share*w.between(1-j.bubbles, 1.2)), tensor: share * w.between(0.2, 0.6), dram: share * w.between(0.3, 0.6),
			pcie: w.between(0.005, 0.1), nvlink: w.between(0.05, 0.4), power: share * w.between(0.75, 1), clock: w.between(0.93, 1),
		}
	case inference, timeSliced:
		busy := math.Pow(math.Abs(math.Sin(t/300+float64(d))), 2) * w.between(0.3, 1.3)
		if w.withProbability(0.3) {
			busy = w.rng.Float64() * 0.1
		}
		busy = min(1, busy)
		return load{util: busy, tensor: 0.1 * busy, dram: 0.7 * busy, pcie: 0.02 * busy, power: 0.2 + 0.5*busy, clock: 1}
	case notebook:
		if math.Mod(t+float64(d)*977, 1800) < 60 {
			return load{util: 1, tensor: w.between(0, 0.3), dram: w.between(0, 0.3), pcie: 0.001, power: w.between(0.3, 0.6), clock: 1}
		}
		return w.idles(b, 1)
	case integer:
		return load{util: 1, dram: w.between(0, 0.015), power: j.uneven[rank] * w.between(0.6, 0.95), clock: w.between(0.95, 1)}
	default:
		return load{util: 1, dram: w.between(0.5, 0.95), power: w.between(0.45, 0.8), clock: 1}
	}
}

// The down method reports whether the exporter is unresponsive at time t.
func (w *world) down(t float64) bool {
	for _, g := range w.gaps {
		if t >= g[0] && t < g[1] {
			return true
		}
	}
	return false
}
