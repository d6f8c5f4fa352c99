package gpudata

import (
	"cmp"
	"slices"
	"strings"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Attribution is how gpu_k8s decides who holds devices. Where a frame has one,
//
//   - holders are shown of devices whose holders are known, and how many they are,
//   - the samples of a device that are there at that time are repeated under its sharers,
//     and made into the metrics that cAdvisor had.
type Attribution struct {
	// Disabled metrics of devices are not repeated, and those of cAdvisor not made.
	Disabled map[*signal.Metric]bool
	// Scope is who makes what follows from the attribution.
	Scope Scope
}

// Share makes what a decides the attribution of the frame: it finds the sharers of the devices,
// which are those who hold the device and, of a board, those who hold an instance of it. The
// latter do not hold the board: they have it by MIG, and no allocation of it. Users in pods get
// what the DRA driver calls the device.
func (f *Frame) Share(a *Attribution) {
	f.Attribution = a
	for _, d := range f.Devices {
		d.Sharers, d.sharers, d.Repeated = d.Sharers[:0], nil, len(d.Samples.list)
		for _, u := range d.Users {
			if u.Holder.Pod != "" {
				u.Allocation.complete(&d.Allocation)
			}
			if u.Holds {
				d.Sharers = append(d.Sharers, u)
				d.sharers.added(d.Sharers)
			}
		}
	}
	for _, d := range f.Devices {
		if d.Parent == "" {
			continue
		}
		board := f.Find(d.Parent)
		if board == nil {
			continue
		}
		for _, u := range d.Users {
			known := board.sharers.find(board.Sharers, u.Holder, Holder.Same) != nil
			if u.Holds && !known {
				board.Sharers = append(board.Sharers, &User{Holder: u.Holder, Owner: u.Owner, Strategy: signal.SharingMIG})
				board.sharers.added(board.Sharers)
			}
		}
	}
}

// Sharer returns the sharer of a device that is the same holder, nil when none is.
func (d *DeviceFrame) Sharer(h Holder) *User { return d.sharers.find(d.Sharers, h, Holder.Same) }

// Series are samples of one device, user or process, with what they are to be shown with.
type Series struct {
	Device *DeviceFrame
	// User has the samples, nil for the device itself and for a process.
	User *User
	// Process has the samples, nil for others.
	Process *Process
	// Repeated says that the samples are the device's, and the user one of its sharers.
	Repeated bool
	// Scope is who made the samples that name no other scope. It made those that are repeated.
	Scope Scope
	// Samples are valid during the call only.
	Samples []Sample
}

// Each calls visit with all series of a frame: those of the devices, users and processes, who
// holds a device and how many they are, how many processes are on it, and what is repeated
// under sharers.
func (f *Frame) Each(visit func(*Series)) {
	var s Series
	show := func(d *DeviceFrame, u *User, p *Process, samples []Sample) {
		if len(samples) > 0 {
			s = Series{Device: d, User: u, Process: p, Scope: f.Scope, Samples: samples}
			visit(&s)
		}
	}
	var one [1]Sample
	tell := func(d *DeviceFrame, u *User, by *Attribution, m *signal.Metric, v int) {
		if !by.Disabled[m] {
			one[0] = Sample{Metric: m, Value: float64(v), Scope: by.Scope}
			show(d, u, nil, one[:])
		}
	}
	came := &Attribution{Scope: f.Scope}
	decided := cmp.Or(f.Attribution, came) // who said that somebody holds a device
	for _, d := range f.Devices {
		show(d, nil, nil, d.Samples.list)
		if d.Listed {
			tell(d, nil, came, signal.GPUProcessCount, d.Count)
		}
		if n, known := f.Clients(d); known {
			tell(d, nil, decided, signal.GPUSharingClients, n)
		}
		for _, u := range d.Users {
			show(d, u, nil, u.Samples.list)
			if u.Holds && (f.Attribution == nil || d.HoldersKnown) {
				tell(d, u, decided, signal.GPUDeviceHolder, 1)
			}
		}
		f.eachRepeated(d, func(u *User, samples []Sample) {
			if len(samples) > 0 {
				s = Series{Device: d, User: u, Repeated: true, Scope: decided.Scope, Samples: samples}
				visit(&s)
			}
		})
		for _, p := range d.Processes {
			show(d, nil, p, p.Samples.list)
		}
	}
}

// Clients returns how many hold a device, 0 for nobody; false where it is not known, or not yet
// decided.
func (f *Frame) Clients(d *DeviceFrame) (n int, known bool) {
	if f.Attribution == nil || !d.HoldersKnown {
		return 0, false
	}
	for _, u := range d.Users {
		if u.Holds {
			n++
		}
	}
	return n, true
}

// eachRepeated calls visit with what is repeated of a device under its sharers.
func (f *Frame) eachRepeated(d *DeviceFrame, visit func(*User, []Sample)) {
	if len(d.Sharers) == 0 {
		return
	}
	disabled := f.Attribution.Disabled
	for begin := 0; begin < d.Repeated; {
		end := begin
		for end < d.Repeated && !disabled[d.Samples.list[end].Metric] {
			end++
		}
		for _, u := range d.Sharers {
			visit(u, d.Samples.list[begin:end])
		}
		begin = end + 1
	}
	var one [1]Sample
	for i := range d.Samples.list {
		of := &d.Samples.list[i]
		m := accelerators[of.Metric]
		if m == nil || disabled[m] || m == signal.ContainerAcceleratorDutyCycle && of.Own != signal.TaskGeneral {
			continue
		}
		one[0] = Sample{Metric: m, Value: of.Value, Ended: of.Ended, More: acceleratorOf(d)}
		if m == signal.ContainerAcceleratorDutyCycle {
			one[0].Value *= 100 // a ratio becomes percent
		}
		for _, u := range d.Sharers {
			if u.Holds { // a holder of an instance does not hold the board
				visit(u, one[:])
			}
		}
	}
}

// acceleratorOf returns the attributes of cAdvisor's metrics for a device, as far as they are
// known.
func acceleratorOf(d *DeviceFrame) []Attr {
	return slices.DeleteFunc([]Attr{
		{Key: signal.AcceleratorMake, Value: strings.ToLower(d.Vendor)},
		{Key: signal.AcceleratorModel, Value: d.Model},
		{Key: signal.AcceleratorID, Value: cmp.Or(d.MIGUUID, d.Device.ID())},
	}, func(a Attr) bool { return a.Value == "" })
}

// accelerators are cAdvisor's metrics, by the sample of a device that each is made of.
var accelerators = map[*signal.Metric]*signal.Metric{
	signal.HwGPUMemoryLimit: signal.ContainerAcceleratorMemoryTotal,
	signal.HwGPUMemoryUsage: signal.ContainerAcceleratorMemoryUsed,
	signal.HwGPUUtilization: signal.ContainerAcceleratorDutyCycle,
}
