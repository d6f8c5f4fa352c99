package gpudata

import (
	"cmp"
	"slices"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Frame contains the data from one place at one sample time. A batch is a list of frames, oldest
// first.
type Frame struct {
	Place Place
	// Host is the host.name of the place, or "" if host.name is unknown.
	Host string
	// HostType is the host.type of the place, which is the instance type. NodeLabels contains the
	// known labels of the place's node.
	HostType   string
	NodeLabels map[string]string
	// Time is the sample time, in nanoseconds since the Unix epoch. Time is always positive.
	Time int64
	// Scope is the scope of samples that do not have their own scope.
	Scope Scope
	// Devices must be modified only through the Device and Append methods.
	Devices []*DeviceFrame
	// Unplaced contains the processes whose device is unknown. The samples of unplaced processes
	// are not marked as incoming, because they are written again when the device is found.
	Unplaced []*Unplaced
	// Attribution is nil until gpu_k8s has determined the holders of the devices.
	Attribution *Attribution
	// Findings contains the findings that started or ended in the frame.
	Findings []Finding

	byID map[string]*DeviceFrame // nil until the first lookup
}

// Finding is the start or the end of a finding. A finding is a named condition of a device, with
// evidence.
type Finding struct {
	// Name is the value of gpu.finding.
	Name string
	// Device is the hw.id of the device. If the finding is about a workload, Device is the hw.id of
	// one of the workload's devices.
	Device string
	// Workload is true if the finding is about all devices of a workload in the place.
	Workload bool
	Start    bool
	// Duration is the time since the start of the finding. Duration is set only at the end of the
	// finding.
	Duration time.Duration
	// Body is the text that users see.
	Body string
	// Texts, Numbers, and Lists contain the evidence. The evidence is set only at the start of the
	// finding.
	Texts   map[string]string
	Numbers map[string]float64
	Lists   map[string][]string
}

// Compare orders frames by time, then by place.
func (f *Frame) Compare(o *Frame) int {
	return cmp.Or(cmp.Compare(f.Time, o.Time), f.Place.Compare(o.Place))
}

// Find returns the device with the given hw.id, or nil if the frame does not contain the device.
func (f *Frame) Find(id string) *DeviceFrame {
	if f.byID == nil {
		f.byID = make(map[string]*DeviceFrame, len(f.Devices))
		for _, d := range f.Devices {
			f.byID[d.Device.ID()] = d
		}
	}
	return f.byID[id]
}

// Device returns the device with the given hw.id. Device adds the device if necessary.
func (f *Frame) Device(id string) *DeviceFrame {
	d := f.Find(id)
	if d == nil {
		d = &DeviceFrame{Device: NewDevice(f.Place, id)}
		f.Append(d)
	}
	return d
}

// Append adds a device that the frame does not contain yet.
func (f *Frame) Append(d *DeviceFrame) {
	f.Devices = append(f.Devices, d)
	if f.byID != nil {
		f.byID[d.Device.ID()] = d
	}
}

// Board returns the board of an instance. Board adds the board if the frame contains only the
// instance. If d is a board, Board returns d.
func (f *Frame) Board(d *DeviceFrame) *DeviceFrame {
	if d.Parent == "" {
		return d
	}
	b := f.Device(d.Parent)
	if !b.Observed {
		b.Complete(&Description{Name: d.Name, Model: d.Model, Vendor: d.Vendor, Driver: d.Driver})
	}
	return b
}

// Owner returns the owner of a holder that is a user of one of the frame's devices. Owner returns
// the zero Owner if the holder is the zero Holder, or if the holder is not a user of any device.
func (f *Frame) Owner(h Holder) Owner {
	if h.IsZero() {
		return Owner{}
	}
	for _, d := range f.Devices {
		if u := d.byName.find(d.Users, h, Holder.Same); u != nil {
			return u.Owner
		}
	}
	return Owner{}
}

// MarkIncoming marks all data in a frame as incoming, to distinguish incoming data from data that a
// component adds.
func (f *Frame) MarkIncoming() {
	f.each((*Samples).MarkIncoming)
}

// Settle sets the scope of the samples that were added since the frame arrived or since the last
// call to Settle. Settle removes added samples of disabled metrics.
func (f *Frame) Settle(scope Scope, disabled map[*signal.Metric]bool) {
	f.each(func(s *Samples) { s.settle(scope, disabled) })
}

func (f *Frame) each(do func(*Samples)) {
	for _, d := range f.Devices {
		do(&d.Samples)
		for _, u := range d.Users {
			do(&u.Samples)
		}
		for _, p := range d.Processes {
			do(&p.Samples)
		}
	}
}

// Sort sorts devices by ID, users by holder, and processes by PID, so that the output does not
// depend on the order of the data points.
func (f *Frame) Sort() {
	slices.SortFunc(f.Devices, func(a, b *DeviceFrame) int { return cmp.Compare(a.Device.ID(), b.Device.ID()) })
	for _, d := range f.Devices {
		slices.SortFunc(d.Users, func(a, b *User) int { return a.Holder.Compare(b.Holder) })
		slices.SortFunc(d.Processes, func(a, b *Process) int { return cmp.Compare(a.PID, b.PID) })
	}
}

// DeviceFrame is a device in a frame.
type DeviceFrame struct {
	Device Device
	Description
	// Observed is true if the frame contains a value from one of the device's own series. Observed
	// is false if only holders or processes name the device, or if all series of the device end in
	// this frame.
	Observed bool
	// Unread is true if the device exists but has no valid values, because the driver cannot read
	// it or because all values are invalid. Apart from [Presence] and from metrics about
	// unallocated or unobserved time, an unread device has no samples. An unread device does not
	// count as lost.
	Unread bool
	// FailurePredicted is true if a failure of the board is predicted, for example by a pending row
	// remap. The predicted failure affects hw.status only if no other state is worse.
	// FailurePredicted is not written to data points.
	FailurePredicted bool
	// Samples are the device's own series.
	Samples Samples
	// Users are the holders of the device, and the containers that use the device without holding
	// it. Add users only through the User, SameUser, and AddUser methods.
	Users []*User
	// HoldersKnown is true if the holders are known. If the holders are known and no user is a
	// holder, the device is free.
	HoldersKnown bool
	// Sharers contains the users for which the device's series are repeated (see [Frame.Share]). No
	// user occurs twice. Repeated is the number of samples that are repeated. The samples that are
	// repeated come first in Samples.
	Sharers  []*User
	Repeated int
	// Processes are the processes on the device. If Listed is true, the list of processes is
	// complete, and Count is the number of processes in the list. Count exceeds len(Processes) if
	// some processes have no value.
	Processes []*Process
	Listed    bool
	Count     int
	// Replaced is true if a better process list from another source has replaced the incoming list.
	Replaced bool
	// ProcessList is the device's process list that is closest in time to the frame. The list may
	// be too old for the frame; see [ProcessList.AppliesAt]. ProcessList is nil if no list is
	// known.
	ProcessList *ProcessList

	// byName is the index of Users.
	byName userIndex
	// sharers is the index of Sharers.
	sharers userIndex
	// byPID maps PIDs to processes. If there are few processes, byPID is nil.
	byPID map[string]*Process
}

// Present reports whether the device existed at the frame's time, even if the device was unread.
func (d *DeviceFrame) Present() bool { return d.Observed || d.Unread }

// User returns the user whose holder is exactly h. User adds the user if necessary.
func (d *DeviceFrame) User(h Holder) *User {
	return d.user(h, Holder.is)
}

// SameUser returns the user whose holder is the same as h (see [Holder.Same]). SameUser adds the
// user if necessary.
func (d *DeviceFrame) SameUser(h Holder) *User {
	return d.user(h, Holder.Same)
}

func (d *DeviceFrame) user(h Holder, is func(Holder, Holder) bool) *User {
	u := d.byName.find(d.Users, h, is)
	if u == nil {
		u = &User{Holder: h}
		d.AddUser(u)
	}
	return u
}

// AddUser adds a user that the device does not contain yet.
func (d *DeviceFrame) AddUser(u *User) {
	d.Users = append(d.Users, u)
	d.byName.added(d.Users)
}

// TakeUsers removes all users from the device and returns them.
func (d *DeviceFrame) TakeUsers() []*User {
	users := d.Users
	d.Users, d.byName = nil, nil
	return users
}

// Process returns the process with the given PID. Process adds the process if necessary.
func (d *DeviceFrame) Process(pid string) *Process {
	if d.byPID != nil {
		if p := d.byPID[pid]; p != nil {
			return p
		}
	} else {
		for _, p := range d.Processes {
			if p.PID == pid {
				return p
			}
		}
	}
	p := &Process{PID: pid}
	d.Processes = append(d.Processes, p)
	switch {
	case d.byPID != nil:
		d.byPID[pid] = p
	case len(d.Processes) > few:
		d.byPID = make(map[string]*Process, 2*few)
		for _, p := range d.Processes {
			d.byPID[p.PID] = p
		}
	}
	return p
}

// ReplaceProcesses removes the incoming process list, so that the caller can add a better list from
// another source.
func (d *DeviceFrame) ReplaceProcesses() {
	d.Processes, d.byPID, d.Listed, d.Count, d.Replaced = nil, nil, false, 0, true
}

// few is the maximum number of users or processes for which a linear search is used.
const few = 16

// userIndex maps the results of indexKey to users. If there are few users, userIndex is nil.
type userIndex map[Holder][]*User

// indexKey returns a key that is equal for all holders that are the same holder (see
// [Holder.Same]). Containers outside Kubernetes share one key, because they can have only a name,
// only an ID, or both.
func indexKey(h Holder) Holder {
	switch {
	case h.InPod():
		return Holder{Namespace: h.Namespace, Pod: h.Pod, Container: h.Container}
	case h.Job != "":
		return Holder{Job: h.Job}
	default:
		return Holder{}
	}
}

// find returns the first user for which is(user, h) is true, or nil if there is none. If there is
// an index, find checks only the users that have the same key as h.
func (x userIndex) find(users []*User, h Holder, is func(Holder, Holder) bool) *User {
	if x != nil {
		users = x[indexKey(h)]
	}
	for _, u := range users {
		if is(u.Holder, h) {
			return u
		}
	}
	return nil
}

// The added method updates the index after a user was appended to the list of users.
func (x *userIndex) added(users []*User) {
	switch {
	case len(users) <= few:
		return
	case *x == nil:
		*x = make(userIndex, 2*few)
	default:
		users = users[len(users)-1:]
	}
	for _, u := range users {
		key := indexKey(u.Holder)
		(*x)[key] = append((*x)[key], u)
	}
}

// User is a container or a batch job that uses a device.
type User struct {
	Holder Holder
	// Owner describes the holder's pod.
	Owner Owner
	// Holds is true if the user holds the device. Source is the value of gpu.holder.source.
	Holds  bool
	Source string
	// Strategy is gpu.sharing.strategy, or "" if it is unknown.
	Strategy   string
	Allocation Allocation
	// Replicas is the number of the device's replicas that the user holds. A device plugin
	// advertises the replicas of a device. The values 0 and 1 both mean one replica.
	Replicas int
	// Samples are the user's own series for this device, such as usage, budget, and power.
	Samples Samples
}

// Process is a process on a device.
type Process struct {
	PID string
	// ContainerID is the container.id from the process's control group, or "" if it is unknown.
	ContainerID string
	// Holder contains what is known about the process's container. Owner describes the container's
	// pod.
	Holder  Holder
	Owner   Owner
	Samples Samples
}

// IsListed reports whether a source listed the process at the frame's time. The only samples of a
// process that is not listed are ends of series and power samples that were computed from an
// earlier list.
func (p *Process) IsListed() bool {
	return slices.ContainsFunc(p.Samples.list, func(s Sample) bool { return !s.Ended && s.Metric != signal.ProcessGPUPower })
}

// Sample is the value of one series at the frame's time.
type Sample struct {
	// Metric is the metric's entry in the signal table.
	Metric *signal.Metric
	// Own is the value of the metric's first own attribute, or "" if the metric has none.
	Own string
	// More contains additional attributes, such as a second own attribute. The attributes are
	// shared and must not be modified.
	More []Attr
	// Start is the start time of a cumulative value, in nanoseconds since the epoch. A Start of 0
	// means that the start time is unknown.
	Start int64
	Value float64
	// Ended is true if the series ends at the frame's time. If Ended is true, the sample has no
	// value.
	Ended bool
	// Scope is the scope of the component that created the sample. The zero Scope means the frame's
	// scope.
	Scope Scope
}

// Presence returns the sample for a device that exists but is not observed. The sample tells other
// components that the device is not lost.
func Presence(reason string) Sample {
	return Sample{Metric: signal.GPUSignalAvailable, Own: signal.HwPower.Name, More: []Attr{{Key: signal.Reason, Value: reason}}}
}

// Attr is an attribute of a sample. The value of an attribute has one of the types of
// pcommon.Value.
type Attr struct {
	Key   string
	Value any
}

// Samples contains the samples of a device, a user, or a process. Samples distinguishes incoming
// samples from samples that a component added.
type Samples struct {
	// The list contains the incoming samples first, then the settled samples, and then all other
	// samples.
	list []Sample
	// incoming is the number of incoming samples, and settled is the number of incoming and settled
	// samples.
	incoming, settled int
}

// All returns all samples. Callers must not modify the samples.
func (s *Samples) All() []Sample { return s.list }

// Added returns the samples that were added since the frame arrived.
func (s *Samples) Added() []Sample { return s.list[s.incoming:] }

// Grow reserves memory for n more samples.
func (s *Samples) Grow(n int) { s.list = slices.Grow(s.list, n) }

// Add adds a sample.
func (s *Samples) Add(v Sample) { s.list = append(s.list, v) }

// AddHighest adds a sample. If the series already has a sample, AddHighest keeps the sample with
// the higher value.
func (s *Samples) AddHighest(v Sample) {
	for i := range s.list {
		if x := &s.list[i]; x.Metric == v.Metric && x.Own == v.Own {
			if x.Ended || !v.Ended && v.Value > x.Value {
				*x = v
			}
			return
		}
	}
	s.Add(v)
}

// MarkIncoming marks all current samples as incoming.
func (s *Samples) MarkIncoming() { s.incoming, s.settled = len(s.list), len(s.list) }

// settle implements [Frame.Settle].
func (s *Samples) settle(scope Scope, disabled map[*signal.Metric]bool) {
	kept := s.list[:s.settled]
	for _, v := range s.list[s.settled:] {
		if !disabled[v.Metric] {
			v.Scope = scope
			kept = append(kept, v)
		}
	}
	s.list, s.settled = kept, len(kept)
}

// Get returns the value of a series, or false if there is none. If the series has several values,
// Get returns the highest value. If an exporter repeats a row, the values in the repeated rows
// differ only because the exporter read them at different times.
func (s *Samples) Get(m *signal.Metric, own string) (v float64, ok bool) {
	for i := range s.list {
		if x := &s.list[i]; x.Metric == m && x.Own == own && !x.Ended && (!ok || x.Value > v) {
			v, ok = x.Value, true
		}
	}
	return v, ok
}
