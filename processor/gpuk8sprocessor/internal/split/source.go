package split

import (
	"math"
	"slices"
)

// Source is the measurement that determines how a board's active power is divided among the board's
// MIG instances.
type Source uint8

// The sources, from best to worst.
const (
	// None is the source of a board without instances.
	None Source = iota
	// Engine is GR_ENGINE_ACTIVE.
	Engine
	// SM is SM_ACTIVE. Values are limited to 1, because some recordings of instances contain values
	// above 1.
	SM
	// TensorDRAM is the sum of PIPE_TENSOR_ACTIVE and DRAM_ACTIVE.
	TensorDRAM
	// Slices is the number of compute slices of each instance. The instances' activity is not taken
	// into account.
	Slices

	// NumSources is the number of sources.
	NumSources
)

// String returns the value of gpu.power.source.
func (s Source) String() string {
	return [...]string{"", "gr_engine_active", "sm_active", "tensor_dram", "slices"}[s]
}

// DCGM can report a GR_ENGINE_ACTIVE of 0 for weeks even though the board is busy. A source that
// reports 0 even though the device is busy is called frozen, and is not used. A source is frozen if
// the board draws at least FrozenPower times its idle power, and the source reports 0 for a busy
// instance or for all instances of a busy board. A device is busy if another measurement of the
// device is at least FrozenUtilization.
const (
	FrozenPower       = 1.5
	FrozenUtilization = 0.5
)

// Activity describes how busy a board or an instance was. Each value is a fraction of the capacity
// of the device itself, in [0, 1], or NaN if unknown.
type Activity struct {
	Engine, SM, Tensor, DRAM float64
	// Utilization is hw.gpu.utilization for the general task.
	Utilization float64
}

// Unknown returns an Activity whose values are all unknown.
func Unknown() Activity {
	nan := math.NaN()
	return Activity{nan, nan, nan, nan, nan}
}

// The of method returns the activity that the source s reports, or NaN if unknown.
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

// IsKnown reports whether at least one value is known.
func (a *Activity) IsKnown() bool { return !math.IsNaN(a.Busiest()) }

// Busiest returns the highest known value, or NaN if no value is known.
func (a *Activity) Busiest() float64 {
	busiest := math.NaN()
	for _, v := range [...]float64{a.Engine, a.SM, a.Tensor, a.DRAM, a.Utilization} {
		if !(v <= busiest) && !math.IsNaN(v) {
			busiest = v
		}
	}
	return busiest
}

// clamp limits v to the range [0, 1]. If v is NaN, the result is NaN.
func clamp(v float64) float64 { return math.Max(0, math.Min(1, v)) }

// choose returns the best source that is not frozen and that has values for all instances. The
// chosen source is used for all instances of the board. The frozen result shows which sources are
// frozen.
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

// busy reports whether any activity value of the device, or the utilization of any process, shows
// that the device was busy.
func (d *Device) busy() bool {
	return d.Activity.Busiest() >= FrozenUtilization ||
		slices.ContainsFunc(d.Processes, func(p Process) bool { return p.Utilization >= FrozenUtilization })
}
