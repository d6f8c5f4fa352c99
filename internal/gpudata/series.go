package gpudata

import (
	"cmp"
	"slices"
	"strings"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Attribution determines which data about the holders of devices is sent. Attribution is set after
// gpu_k8s has determined the holders. If a frame has an attribution:
//
//   - the holders and their number are sent for each device whose holders are known,
//   - the device samples that the frame contained when [Frame.Share] was called are repeated for
//     the sharers,
//   - the memory and the general utilization of each device are converted to cAdvisor metrics for
//     the device's holders.
type Attribution struct {
	// Disabled contains metrics that are not sent: disabled device metrics are not repeated, and
	// disabled cAdvisor metrics are not created.
	Disabled map[*signal.Metric]bool
	// Scope is the scope of all samples that depend on the attribution.
	Scope Scope
}

// Share sets the attribution of the frame and determines the sharers of its devices. The sharers of
// a device are its holders. The sharers of a board also include the holders of the board's
// instances. Holders of instances share the board through MIG, but the board is not allocated to
// them. For users in pods, Share also adds the DRA driver, pool, and device to the user's
// allocation.
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

// Sharer returns the sharer that is the same holder as h, or nil if there is none.
func (d *DeviceFrame) Sharer(h Holder) *User { return d.sharers.find(d.Sharers, h, Holder.Same) }

// Series contains samples of one device, user, or process, and the context of the samples.
type Series struct {
	Device *DeviceFrame
	// User is the user that the samples describe. User is nil if the samples describe a process or
	// the device itself.
	User *User
	// Process is the process that the samples describe. Process is nil if the samples do not
	// describe a process.
	Process *Process
	// Repeated is true if the samples belong to the device and User is one of its sharers.
	Repeated bool
	// Scope is the scope of repeated samples and of samples that do not have their own scope.
	Scope Scope
	// Samples is valid only until the function that was passed to [Frame.Each] returns.
	Samples []Sample
}

// ScopeOf returns the scope of a sample in the series.
func (s *Series) ScopeOf(sample *Sample) Scope {
	if s.Repeated {
		return s.Scope
	}
	return cmp.Or(sample.Scope, s.Scope)
}

// Each calls the visit function once for each series in a frame: the samples of devices, users, and
// processes; the holders of each device and their number; the number of processes on each device;
// and the series that are repeated for sharers.
func (f *Frame) Each(visit func(*Series)) {
	var s Series
	show := func(d *DeviceFrame, u *User, p *Process, samples []Sample) {
		if len(samples) > 0 {
			s = Series{Device: d, User: u, Process: p, Scope: f.Scope, Samples: samples}
			visit(&s)
		}
	}
	var one [1]Sample
	visitOne := func(d *DeviceFrame, u *User, by *Attribution, m *signal.Metric, v int) {
		if !by.Disabled[m] {
			one[0] = Sample{Metric: m, Value: float64(v), Scope: by.Scope}
			show(d, u, nil, one[:])
		}
	}
	incoming := &Attribution{Scope: f.Scope}
	decided := cmp.Or(f.Attribution, incoming) // the scope of this attribution is the scope of the holders
	for _, d := range f.Devices {
		show(d, nil, nil, d.Samples.list)
		if d.Listed {
			visitOne(d, nil, incoming, signal.GPUProcessCount, d.Count)
		}
		if n, known := f.Clients(d); known {
			visitOne(d, nil, decided, signal.GPUSharingClients, n)
		}
		for _, u := range d.Users {
			show(d, u, nil, u.Samples.list)
			if f.holds(d, u) {
				visitOne(d, u, decided, signal.GPUDeviceHolder, 1)
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

// holds reports whether a user is known to hold a device.
func (f *Frame) holds(d *DeviceFrame, u *User) bool {
	return u.Holds && (f.Attribution == nil || d.HoldersKnown)
}

// Clients returns the number of holders of a device. The number is 0 for a free device. Clients
// returns false if the number is unknown or the frame has no attribution yet.
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

// eachRepeated calls visit with the device's samples that are repeated for its sharers.
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
			one[0].Value *= 100 // convert the ratio to percent
		}
		for _, u := range d.Sharers {
			if u.Holds { // a holder of an instance does not hold the board
				visit(u, one[:])
			}
		}
	}
}

// acceleratorOf returns the known attributes of a device's cAdvisor metrics.
func acceleratorOf(d *DeviceFrame) []Attr {
	return slices.DeleteFunc([]Attr{
		{Key: signal.AcceleratorMake, Value: strings.ToLower(d.Vendor)},
		{Key: signal.AcceleratorModel, Value: d.Model},
		{Key: signal.AcceleratorID, Value: cmp.Or(d.MIGUUID, d.Device.ID())},
	}, func(a Attr) bool { return a.Value == "" })
}

// accelerators maps device metrics to the cAdvisor metrics that are computed from them.
var accelerators = map[*signal.Metric]*signal.Metric{
	signal.HwGPUMemoryLimit: signal.ContainerAcceleratorMemoryTotal,
	signal.HwGPUMemoryUsage: signal.ContainerAcceleratorMemoryUsed,
	signal.HwGPUUtilization: signal.ContainerAcceleratorDutyCycle,
}
