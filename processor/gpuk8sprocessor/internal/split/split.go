package split

import (
	"math"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// Holder is a holder of a device.
type Holder struct {
	*gpudata.User

	// Power is the power that is charged to the container, in W.
	Power float64
	// Estimated is true if the power was divided equally because no measurement was available.
	Estimated bool

	processes int // number of processes that certainly belong to this container
}

// Process is a process that uses a device.
type Process struct {
	PID, ContainerID string
	// Holder is the container of the process. It is zero for a process on the host and for a
	// process in an unknown container.
	Holder gpudata.Holder
	// Utilization is the fraction of time, in [0, 1], during which the process used the device's
	// multiprocessors. It is NaN if it is unknown.
	Utilization float64

	// Power is the power that is charged to the process, in W, or NaN if it is unknown.
	Power     float64
	Estimated bool
}

// Device is a board or a MIG instance with its users.
type Device struct {
	Activity  Activity
	Holders   []Holder
	Processes []Process
}

// Instance is a MIG instance of a board.
type Instance struct {
	Device
	// Slices is the number of compute slices, or 0 if it is unknown.
	Slices int

	// Power is the instance's share of active power, in W.
	Power     float64
	Estimated bool
}

// Board is a board at one time, and how its power was divided.
type Board struct {
	// Device is the board itself. If MIG is enabled, no power is charged to the holders and
	// processes of the board itself, because their instance is unknown.
	Device
	// Measured is the power of the board, in W, at least 0.
	Measured float64
	// Idle is the baseline, in W, at least 0. Split lowers it to Measured if it is higher.
	Idle float64
	// Instances are the MIG instances, if any.
	Instances []*Instance

	// Active is Measured - Idle, in W.
	Active float64
	// Unattributed is the power that is charged to no container, in W: Active minus the power of
	// all holders.
	Unattributed float64
	// Source is the measurement by which power was divided among the instances.
	Source Source
	// Frozen marks the sources that were not used because their zeros were implausible.
	Frozen [NumSources]bool
}

// Split divides the board's power. It sets the results in the board and its devices.
//
// weighSlices multiplies the activity of an instance by its number of compute slices. Activity is
// relative to the instance: the activity of a fully busy instance is 1, regardless of its size.
// Without weighSlices, only activity counts, as in Kepler.
func (b *Board) Split(weighSlices bool) {
	b.Idle = math.Min(b.Idle, b.Measured)
	b.Active = b.Measured - b.Idle
	b.Source, b.Frozen = None, [NumSources]bool{}
	if len(b.Instances) == 0 {
		b.charge(b.Active, false)
		b.Unattributed = math.Max(0, b.Active-b.charged())
		return
	}
	b.chargeNothing()
	b.Source, b.Frozen = b.choose()
	weights, sum, guessed := b.weights(weighSlices)
	charged := 0.0
	for i, in := range b.Instances {
		in.Power, in.Estimated = 0, guessed
		if sum > 0 {
			in.Power = b.Active * (weights[i] / sum)
		}
		in.charge(in.Power, guessed)
		charged += in.charged()
	}
	b.Unattributed = math.Max(0, b.Active-charged)
}

// weights returns the weight of each instance and their sum. guessed is true if a required
// measurement is missing.
func (b *Board) weights(weighSlices bool) (weights []float64, sum float64, guessed bool) {
	sized := true
	for _, in := range b.Instances {
		sized = sized && in.Slices > 0
	}
	weigh := sized && (weighSlices || b.Source == Slices)
	weights = make([]float64, len(b.Instances))
	for i, in := range b.Instances {
		w := 1.0
		if b.Source != Slices {
			w = in.Activity.of(b.Source)
		}
		if weigh {
			w *= float64(in.Slices)
		}
		weights[i] = w
		sum += w
	}
	return weights, sum, b.Source == Slices || weighSlices && !sized
}

func (d *Device) charged() float64 {
	sum := 0.0
	for i := range d.Holders {
		sum += d.Holders[i].Power
	}
	return sum
}

func (d *Device) chargeNothing() {
	for i := range d.Holders {
		d.Holders[i].Power, d.Holders[i].Estimated = 0, false
	}
	for i := range d.Processes {
		d.Processes[i].Power, d.Processes[i].Estimated = math.NaN(), false
	}
}

// charge divides watts among the users of the device by the utilization of its processes. If the
// utilization is unknown, charge divides watts equally. guessed is true if watts is an estimate.
func (d *Device) charge(watts float64, guessed bool) {
	for i := range d.Holders {
		h := &d.Holders[i]
		h.Power, h.Estimated, h.processes = 0, guessed, 0
	}
	if len(d.Processes) == 0 {
		n := len(d.Holders)
		for i := range d.Holders {
			d.Holders[i].Power = watts / float64(n)
			d.Holders[i].Estimated = guessed || n > 1
		}
		return
	}

	sum := 0.0
	for i := range d.Processes {
		sum += d.Processes[i].Utilization // NaN if any utilization is unknown
	}
	measured := sum > 0
	equal := !measured && len(d.Processes) > 1
	for i := range d.Processes {
		p := &d.Processes[i]
		share := 1 / float64(len(d.Processes))
		if measured {
			share = p.Utilization / sum
		}
		p.Power, p.Estimated = watts*share, guessed || equal
		d.pass(p)
	}
	for i := range d.Holders {
		h := &d.Holders[i]
		// If all processes belong to one container, an equal split between them does not make the
		// container's power an estimate.
		if equal && h.processes != len(d.Processes) {
			h.Estimated = true
		}
	}
	d.passUnplaced()
}

// passUnplaced charges the power of unmatched processes to the only holder, if this holder has no
// process. No source could match these processes to a container, for example because their control
// group is not readable. They may also belong to the host, so the result is an estimate.
func (d *Device) passUnplaced() {
	if len(d.Holders) != 1 || d.Holders[0].processes > 0 {
		return
	}
	h := &d.Holders[0]
	for i := range d.Processes {
		if p := &d.Processes[i]; p.Holder.IsZero() {
			h.Power += p.Power
			h.Estimated = true
		}
	}
}

// pass charges the power of a process to its container. If several containers of its pod are
// possible, each is charged an equal part.
func (d *Device) pass(p *Process) {
	n := 0
	for i := range d.Holders {
		if p.Holder.MayBeSame(d.Holders[i].Holder) {
			n++
		}
	}
	for i := range d.Holders {
		h := &d.Holders[i]
		if !p.Holder.MayBeSame(h.Holder) {
			continue
		}
		h.Power += p.Power / float64(n)
		if n == 1 {
			h.processes++
		} else {
			h.Estimated = true
		}
	}
}
