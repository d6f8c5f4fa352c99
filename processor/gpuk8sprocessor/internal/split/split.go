package split

import (
	"math"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// Holder is a container that holds a device.
type Holder struct {
	*gpudata.User

	// Power is the power that is charged to the container, in W.
	Power float64
	// Estimated is true if Power is an estimate, because a measurement was missing.
	Estimated bool

	processes int // processes is the number of processes that are known to belong to the container.
}

// Process is a process that uses a device.
type Process struct {
	PID, ContainerID string
	// Holder is the container of the process. If the process runs on the host, or if its container
	// is unknown, Holder is the zero value.
	Holder gpudata.Holder
	// Utilization is the fraction of time, in [0, 1], during which the process used the device's
	// multiprocessors. Utilization is NaN if unknown.
	Utilization float64

	// Power is the power that is charged to the process, in W, or NaN if unknown.
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
	// Slices is the number of compute slices, or 0 if unknown.
	Slices int

	// Power is the instance's share of the board's active power, in W.
	Power     float64
	Estimated bool
}

// Board describes a board at one time, and how the board's power was divided.
type Board struct {
	// Device is the board itself. If MIG is enabled, no power is charged to the holders and
	// processes of the board itself, because their instance is unknown.
	Device
	// Measured is the measured power of the board, in W. Measured must not be negative.
	Measured float64
	// Idle is the idle power of the board, in W. Idle must not be negative. If Idle is higher than
	// Measured, Split sets Idle to Measured.
	Idle float64
	// Instances are the board's MIG instances, if any.
	Instances []*Instance

	// Active is the active power, which is Measured minus Idle, in W.
	Active float64
	// Unattributed is the active power that is not charged to any container, in W.
	Unattributed float64
	// Source is the measurement that determined how the power was divided among the instances.
	Source Source
	// Frozen contains true for each source that was not used because the source was frozen.
	Frozen [NumSources]bool
}

// Split divides the board's power, and stores the results in the fields of the board and its
// devices.
//
// The activity of a fully busy instance is 1, regardless of the instance's size. If weighSlices is
// true, Split multiplies the activity of each instance by the instance's number of compute slices.
// If weighSlices is false, only the activity counts, as in Kepler.
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

// weights returns the weight of each instance, and the sum of all weights. The guessed result is
// true if a required measurement is missing.
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

// charge divides the given power among the holders and processes of the device in proportion to the
// utilization of the processes. If any utilization is unknown or all utilization is 0, the power is
// divided equally among the processes. If the processes are unknown, the power is divided equally
// among the holders. The guessed parameter is true if the given power is already an estimate.
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
		sum += d.Processes[i].Utilization // The sum is NaN if any utilization is unknown.
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
		// If all processes belong to one container, dividing the power equally among the processes
		// does not make the container's power an estimate.
		if equal && h.processes != len(d.Processes) {
			h.Estimated = true
		}
	}
	d.passUnplaced()
}

// passUnplaced charges the power of processes whose container is unknown to the only holder of the
// device, if no process is known to belong to that holder. The container of a process can be
// unknown, for example, because the process's cgroup is not readable. A process whose container is
// unknown could also run on the host, so the result is an estimate.
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

// pass charges the power of a process to the process's container. If several containers could be
// the process's container, each of those containers is charged an equal part.
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
