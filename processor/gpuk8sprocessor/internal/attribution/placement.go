package attribution

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// Placement finds the device of each process for which the exporter does not identify the device. A
// Placement stores the devices of one node and the holders of each device. A Placement keeps each
// device for some time after the device was last in a frame. A Placement also keeps a device as
// long as one of the device's holders holds another device, because a pod holds all of its devices
// until the pod ends.
type Placement struct {
	maxAge  time.Duration
	devices map[string]*placedDevice // by hw.id
}

// placedDevice is the last known state of a device.
type placedDevice struct {
	id          string
	description gpudata.Description
	holders     []gpudata.Holder
	// The current field is the time at which a frame last contained the device. The seen field is
	// the time at which a frame last contained the device, or another device with the same holder.
	current, seen time.Time
	// The time field is the time of the newest frame that contained the device. The heldAt field is
	// the time of the frame that holders comes from. Both are in nanoseconds since the epoch.
	time, heldAt int64
}

// Placed contains the device and the container of a process.
type Placed struct {
	ID          string
	Description gpudata.Description
	// Holder is the process's container. If the exporter does not report a field, the field is set
	// from the matching holder of the device.
	Holder gpudata.Holder
}

// NewPlacement returns a Placement that keeps each device for maxAge after the device was last in a
// frame.
func NewPlacement(maxAge time.Duration) *Placement {
	return &Placement{maxAge: maxAge, devices: map[string]*placedDevice{}}
}

// StoreFrame stores the devices in a frame and the holders of each device. The now parameter is the
// current time. If a frame arrives late, the values from newer frames are kept.
func (p *Placement) StoreFrame(now time.Time, f *gpudata.Frame) {
	stored := false
	for _, d := range f.Devices {
		if d.Present() || slices.ContainsFunc(d.Users, holds) {
			p.store(now, f.Time, d)
			stored = true
		}
	}
	if stored || len(p.devices) > 0 {
		p.deleteExpired(now, f)
	}
}

// isLate reports whether a frame is older than stored values. If the frame is more than maxAge
// older, the clock was set back. All times are in nanoseconds since the epoch.
func (p *Placement) isLate(frame, stored int64) bool {
	return frame < stored && stored-frame <= int64(p.maxAge)
}

// store stores a device in a frame from time t. If the frame does not contain the device's holders,
// store keeps the holders that were stored earlier.
func (p *Placement) store(now time.Time, t int64, d *gpudata.DeviceFrame) {
	id := d.Device.ID()
	device := p.devices[id]
	if device == nil {
		device = &placedDevice{id: strings.Clone(id)}
		p.devices[device.id] = device
	}
	description := d.Description
	description.Allocation = gpudata.Allocation{}
	if p.isLate(t, device.time) {
		late := description
		description = device.description
		description.Complete(&late)
	} else {
		description.Complete(&device.description) // Keep the earlier description, because a container exporter does not describe the device.
		device.time = t
	}
	if description != device.description {
		device.description = cloneDescription(&description)
	}
	device.current, device.seen = now, now
	if !d.HoldersKnown || p.isLate(t, device.heldAt) {
		return
	}
	device.heldAt = t
	n := 0
	for _, u := range d.Users {
		switch {
		case !u.Holds:
			continue
		case n == len(device.holders):
			device.holders = append(device.holders, u.Holder.Clone())
		case device.holders[n] != u.Holder:
			device.holders[n] = u.Holder.Clone()
		}
		n++
	}
	device.holders = device.holders[:n]
}

// cloneDescription returns a deep copy of d, so that the memory of the batch can be freed.
func cloneDescription(d *gpudata.Description) gpudata.Description {
	return gpudata.Description{
		Parent: strings.Clone(d.Parent), Name: strings.Clone(d.Name), Model: strings.Clone(d.Model), Vendor: strings.Clone(d.Vendor),
		Serial: strings.Clone(d.Serial), Driver: strings.Clone(d.Driver), Profile: strings.Clone(d.Profile),
		Instance: strings.Clone(d.Instance), MIGUUID: strings.Clone(d.MIGUUID), Partitions: strings.Clone(d.Partitions),
	}
}

// deleteExpired deletes each device that has not been in a frame for maxAge, unless one of the
// device's holders still holds another device. If a board in the frame has holders but no
// instances, deleteExpired also deletes the stored instances of that board, except instances that a
// newer frame contained.
func (p *Placement) deleteExpired(now time.Time, f *gpudata.Frame) {
	unpartitioned := unpartitionedBoards(f)
	maps.DeleteFunc(p.devices, func(_ string, d *placedDevice) bool {
		if now.Sub(d.current) > p.maxAge {
			holdsOther := p.holdsOther(now, d)
			d.holders = slices.DeleteFunc(d.holders, func(h gpudata.Holder) bool { return !holdsOther(h) })
			if len(d.holders) > 0 {
				d.seen = now
			}
		}
		return unpartitioned[d.description.Parent] && !p.isLate(f.Time, d.time) || now.Sub(d.seen) > p.maxAge
	})
}

// unpartitionedBoards returns the boards that have holders but no instances in the given frame.
func unpartitionedBoards(f *gpudata.Frame) (unpartitioned map[string]bool) {
	for _, d := range f.Devices {
		if d.Parent == "" && d.Observed && slices.ContainsFunc(d.Users, holds) {
			if unpartitioned == nil {
				unpartitioned = make(map[string]bool, len(f.Devices))
			}
			unpartitioned[d.Device.ID()] = true
		}
	}
	for _, d := range f.Devices {
		if d.Present() {
			delete(unpartitioned, d.Parent)
		}
	}
	return unpartitioned
}

func holds(u *gpudata.User) bool { return u.Holds }

// holdsOther returns a function that reports whether a pod holds a device other than d that was
// recently in a frame. Pods are compared by UID.
func (p *Placement) holdsOther(now time.Time, d *placedDevice) func(gpudata.Holder) bool {
	return func(h gpudata.Holder) bool {
		for _, other := range p.devices {
			if other != d && now.Sub(other.current) <= p.maxAge && slices.ContainsFunc(other.holders, func(o gpudata.Holder) bool {
				return h.UID != "" && o.UID == h.UID
			}) {
				return true
			}
		}
		return false
	}
}

// HasDevices reports whether any device of the node is stored.
func (p *Placement) HasDevices() bool { return len(p.devices) > 0 }

// FindDevice returns the device of a process, or false if the device is unknown. FindDevice uses
// the first rule that applies:
//
//   - If the exporter identifies an instance or a board without instances, the process is on that
//     device.
//   - If the process's container holds exactly one device, the process is on that device. If the
//     exporter names a board, only devices on that board are considered.
//   - If there is only one device, the process is on that device.
func (p *Placement) FindDevice(u *gpudata.Unplaced) (Placed, bool) {
	var candidates, held []*placedDevice
	for _, d := range p.placeableDevices() {
		if !p.matchesName(d, &u.Named) {
			continue
		}
		candidates = append(candidates, d)
		if slices.ContainsFunc(d.holders, u.Holder.MayBeSame) {
			held = append(held, d)
		}
	}
	switch {
	case len(held) == 1:
		return held[0].placed(u), true
	case len(held) == 0 && len(candidates) == 1:
		return candidates[0].placed(u), true
	case len(candidates) == 0 && u.Named.Board != "" && p.devices[u.Named.Board] == nil:
		return Placed{ID: u.Named.Board, Holder: u.Holder}, true // The board that the exporter identifies is not in any frame.
	}
	return Placed{}, false
}

// placeableDevices returns all instances, and all boards that have no instances.
func (p *Placement) placeableDevices() (placeable []*placedDevice) {
	partitioned := map[string]bool{}
	for _, d := range p.devices {
		partitioned[d.description.Parent] = true
	}
	for id, d := range p.devices {
		if !partitioned[id] {
			placeable = append(placeable, d)
		}
	}
	slices.SortFunc(placeable, func(a, b *placedDevice) int { return cmp.Compare(a.id, b.id) })
	return placeable
}

// matchesName reports whether d could be the device that an exporter identifies. An instance
// matches the name of its board.
func (p *Placement) matchesName(d *placedDevice, n *gpudata.NamedDevice) bool {
	switch {
	case n.MIGUUID != "":
		return n.MIGUUID == d.description.MIGUUID
	case n.Board != "":
		return n.Board == d.id || n.Board == d.description.Parent
	case n.Name != "":
		board := p.devices[d.description.Parent]
		return n.Name == d.description.Name || board != nil && n.Name == board.description.Name
	}
	return true
}

// placed returns d together with the container of a process on d. If exactly one holder of d
// matches the process's container, that holder is returned as the container.
func (d *placedDevice) placed(u *gpudata.Unplaced) Placed {
	h, n := u.Holder, 0
	for _, o := range d.holders {
		if u.Holder.MayBeSame(o) {
			h = o
			n++
		}
	}
	if n != 1 {
		h = u.Holder
	}
	return Placed{ID: d.id, Description: d.description, Holder: h}
}
