package split

import (
	"math"
	"slices"
)

// Source is the measurement by which a MIG board's active power is divided among its instances.
type Source uint8

// The sources, from best to worst.
const (
	// None is the source of a board without instances.
	None Source = iota
	// Engine is GR_ENGINE_ACTIVE.
	Engine
	// SM is SM_ACTIVE, limited to 1, because values above 1 were recorded on instances.
	SM
	// TensorDRAM is the sum of PIPE_TENSOR_ACTIVE and DRAM_ACTIVE.
	TensorDRAM
	// Slices is the size of the instances. It does not depend on their activity.
	Slices

	// NumSources is the number of sources.
	NumSources
)

// String returns the value of gpu.power.source.
func (s Source) String() string {
	return [...]string{"", "gr_engine_active", "sm_active", "tensor_dram", "slices"}[s]
}

// A source is frozen if all its values are 0, the board draws at least FrozenPower times its idle
// power, and another measurement of the same device is at least FrozenUtilization. A frozen source
// is not used. DCGM can report a GR_ENGINE_ACTIVE of 0 for weeks on a busy board.
const (
	FrozenPower       = 1.5
	FrozenUtilization = 0.5
)

// Activity is how busy a board or an instance was. Values are in [0, 1] relative to the device
// itself, or NaN if unknown.
type Activity struct {
	Engine, SM, Tensor, DRAM float64
	// Utilization is hw.gpu.utilization for the general task.
	Utilization float64
}

// Unknown returns an Activity in which all values are unknown.
func Unknown() Activity {
	nan := math.NaN()
	return Activity{nan, nan, nan, nan, nan}
}

// of returns the value for a source, or NaN.
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

// IsKnown reports whether any value is known.
func (a *Activity) IsKnown() bool { return !math.IsNaN(a.Busiest()) }

// Busiest returns the highest known value, or NaN.
func (a *Activity) Busiest() float64 {
	busiest := math.NaN()
	for _, v := range [...]float64{a.Engine, a.SM, a.Tensor, a.DRAM, a.Utilization} {
		if !(v <= busiest) && !math.IsNaN(v) {
			busiest = v
		}
	}
	return busiest
}

// clamp limits v to [0, 1] and keeps NaN.
func clamp(v float64) float64 { return math.Max(0, math.Min(1, v)) }

// choose returns the best source that is not frozen and has values for all instances. It also
// returns which sources are frozen. All instances of a board use the same source.
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

// busy reports whether any measurement or process shows that the device was busy.
func (d *Device) busy() bool {
	return d.Activity.Busiest() >= FrozenUtilization ||
		slices.ContainsFunc(d.Processes, func(p Process) bool { return p.Utilization >= FrozenUtilization })
}
