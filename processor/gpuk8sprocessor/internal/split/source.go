package split

import (
	"math"
	"slices"
)

// Source is the measure by which a MIG board's active power is shared out to its
// instances.
type Source uint8

// The sources, best first.
const (
	// None is a board without instances: there is nothing to choose.
	None Source = iota
	// Engine is GR_ENGINE_ACTIVE.
	Engine
	// SM is SM_ACTIVE, clamped: above 1 has been seen on instances.
	SM
	// TensorDRAM is the sum of PIPE_TENSOR_ACTIVE and DRAM_ACTIVE.
	TensorDRAM
	// Slices is no activity at all: the size of the instances alone.
	Slices

	// NumSources is the number of sources.
	NumSources
)

// String returns the value of gpu.power.source.
func (s Source) String() string {
	return [...]string{"", "gr_engine_active", "sm_active", "tensor_dram", "slices"}[s]
}

// A source that says exactly 0 is frozen, and invalid, when the board draws at
// least FrozenPower times its idle baseline and something else saw the same
// device at least FrozenUtilization busy. DCGM is known to serve zeros of
// GR_ENGINE_ACTIVE for weeks on a busy board.
const (
	FrozenPower       = 1.5
	FrozenUtilization = 0.5
)

// Activity is how busy a board or an instance was, each in [0, 1] and relative
// to the device itself. NaN is unknown.
type Activity struct {
	Engine, SM, Tensor, DRAM float64
	// Utilization is hw.gpu.utilization of the general task.
	Utilization float64
}

// Unknown returns an unknown Activity.
func Unknown() Activity {
	nan := math.NaN()
	return Activity{nan, nan, nan, nan, nan}
}

// of returns what the source says; NaN when it says nothing.
func (a *Activity) of(s Source) float64 {
	switch s {
	case Engine:
		return clamp(a.Engine)
	case SM:
		return clamp(a.SM)
	case TensorDRAM:
		return clamp(a.Tensor) + clamp(a.DRAM)
	default:
		return math.NaN()
	}
}

// Known reports whether any measure is known.
func (a *Activity) Known() bool { return !math.IsNaN(a.Busiest()) }

// Busiest returns the highest known measure; NaN when none is known.
func (a *Activity) Busiest() float64 {
	busiest := math.NaN()
	for _, v := range [...]float64{a.Engine, a.SM, a.Tensor, a.DRAM, a.Utilization} {
		if !(v <= busiest) && !math.IsNaN(v) {
			busiest = v
		}
	}
	return busiest
}

// clamp keeps NaN.
func clamp(v float64) float64 { return math.Max(0, math.Min(1, v)) }

// choose returns the best source that every instance has and none contradicts,
// and which sources were frozen. One board never mixes sources.
func (b *Board) choose() (chosen Source, frozen [NumSources]bool) {
	for s := Engine; s < Slices; s++ {
		if !b.has(s) {
			continue
		}
		if frozen[s] = b.frozen(s); !frozen[s] {
			return s, frozen
		}
	}
	return Slices, frozen
}

func (b *Board) has(s Source) bool {
	return !slices.ContainsFunc(b.Instances, func(in *Instance) bool { return math.IsNaN(in.Activity.of(s)) })
}

func (b *Board) frozen(s Source) bool {
	if b.Active <= 0 || b.Measured < FrozenPower*b.Idle {
		return false
	}
	all := true
	for _, in := range b.Instances {
		if in.Activity.of(s) > 0 {
			all = false
		} else if in.busy() {
			return true
		}
	}
	return all && b.busy()
}

// busy reports whether any measure or process saw the device busy.
func (d *Device) busy() bool {
	return d.Activity.Busiest() >= FrozenUtilization ||
		slices.ContainsFunc(d.Processes, func(p Process) bool { return p.Utilization >= FrozenUtilization })
}
