package attribution

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// Placement finds the devices of processes whose exporters do not name them. It remembers the devices
// of each place and who held them, also for a while after a device was last in a frame, and as long as
// one of its pods holds another device: a pod holds its devices until it ends. All methods are safe for
// concurrent use.
type Placement struct {
	hold time.Duration

	mu     sync.Mutex
	places map[gpudata.Place]*placedDevices
	swept  time.Time
}

// placedDevices are the devices of a place by hw.id.
type placedDevices struct {
	devices map[string]*placedDevice
	seen    time.Time
}

// placedDevice is a device as last seen.
type placedDevice struct {
	id      string
	of      gpudata.Description
	holders []gpudata.Holder
	// current is when a frame last had the device, seen also when one of its holders was last seen.
	current, seen time.Time
}

// Placed is the device of a process.
type Placed struct {
	ID string
	Of gpudata.Description
	// Holder is the process's container, with what is known of it from the holders of the device.
	Holder gpudata.Holder
}

// NewPlacement returns a Placement that remembers a device for hold after it was last in a frame.
func NewPlacement(hold time.Duration) *Placement {
	return &Placement{hold: hold, places: map[gpudata.Place]*placedDevices{}}
}

// See takes over the devices of a frame and their holders.
func (p *Placement) See(now time.Time, f *gpudata.Frame) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sweep(now)
	at := p.places[f.Place]
	for _, d := range f.Devices {
		if !d.Present() && !slices.ContainsFunc(d.Users, holds) {
			continue
		}
		if at == nil {
			at = &placedDevices{devices: map[string]*placedDevice{}}
			p.places[f.Place.Clone()] = at
		}
		at.see(now, d)
	}
	if at != nil {
		at.seen = now
		at.forget(now, f, p.hold)
	}
}

// see takes over a device. A frame that names no holder of it leaves those that are known.
func (at *placedDevices) see(now time.Time, d *gpudata.DeviceFrame) {
	id := d.Device.ID()
	known := at.devices[id]
	if known == nil {
		known = &placedDevice{id: strings.Clone(id)}
		at.devices[known.id] = known
	}
	of := d.Description
	of.Allocation = gpudata.Allocation{}
	of.Complete(&known.of) // an exporter of containers does not describe the device
	if of != known.of {
		known.of = cloneDescription(&of)
	}
	known.current, known.seen = now, now
	if !d.HoldersKnown {
		return
	}
	n := 0
	for _, u := range d.Users {
		switch {
		case !u.Holds:
			continue
		case n == len(known.holders):
			known.holders = append(known.holders, u.Holder.Clone())
		case known.holders[n] != u.Holder:
			known.holders[n] = u.Holder.Clone()
		}
		n++
	}
	known.holders = known.holders[:n]
}

// cloneDescription returns a description that does not keep the memory of a batch.
func cloneDescription(d *gpudata.Description) gpudata.Description {
	return gpudata.Description{
		Parent: strings.Clone(d.Parent), Name: strings.Clone(d.Name), Model: strings.Clone(d.Model), Vendor: strings.Clone(d.Vendor),
		Serial: strings.Clone(d.Serial), Driver: strings.Clone(d.Driver), Profile: strings.Clone(d.Profile),
		Instance: strings.Clone(d.Instance), MIGUUID: strings.Clone(d.MIGUUID), Partitions: strings.Clone(d.Partitions),
	}
}

// forget removes devices that no frame had for hold, unless one of their holders still holds
// another device, and instances of a board that a frame shows as held without instances.
func (at *placedDevices) forget(now time.Time, f *gpudata.Frame, hold time.Duration) {
	whole := wholeBoards(f)
	maps.DeleteFunc(at.devices, func(_ string, d *placedDevice) bool {
		if now.Sub(d.current) > hold {
			holdsOther := at.holdsOther(now, d, hold)
			d.holders = slices.DeleteFunc(d.holders, func(h gpudata.Holder) bool { return !holdsOther(h) })
			if len(d.holders) > 0 {
				d.seen = now
			}
		}
		return whole[d.of.Parent] || now.Sub(d.seen) > hold
	})
}

// wholeBoards returns the boards that a frame shows as held without instances.
func wholeBoards(f *gpudata.Frame) (whole map[string]bool) {
	for _, d := range f.Devices {
		if d.Parent == "" && d.Observed && slices.ContainsFunc(d.Users, holds) {
			if whole == nil {
				whole = make(map[string]bool, len(f.Devices))
			}
			whole[d.Device.ID()] = true
		}
	}
	for _, d := range f.Devices {
		if d.Present() {
			delete(whole, d.Parent)
		}
	}
	return whole
}

func holds(u *gpudata.User) bool { return u.Holds }

// retention is how long a place without frames is remembered.
const retention = time.Hour

// holdsOther returns a function that reports whether a pod, by its UID, holds a device that a frame
// had lately.
func (at *placedDevices) holdsOther(now time.Time, d *placedDevice, hold time.Duration) func(gpudata.Holder) bool {
	return func(h gpudata.Holder) bool {
		for _, other := range at.devices {
			if other != d && now.Sub(other.current) <= hold && slices.ContainsFunc(other.holders, func(o gpudata.Holder) bool {
				return h.UID != "" && o.UID == h.UID
			}) {
				return true
			}
		}
		return false
	}
}

// Knows reports whether devices of a place are known.
func (p *Placement) Knows(place gpudata.Place) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.places[place] != nil
}

// Place returns the device of a process; false if it is unknown. It is
//
//   - the device that the exporter names, if that is an instance or a board without instances,
//   - otherwise the only device that the process's container holds, of the named board if one is
//     named,
//   - otherwise the only device.
func (p *Placement) Place(place gpudata.Place, u *gpudata.Unplaced) (Placed, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var candidates, held []*placedDevice
	at := p.places[place]
	for _, d := range at.leaves() {
		if !at.isNamed(d, &u.Named) {
			continue
		}
		candidates = append(candidates, d)
		if slices.ContainsFunc(d.holders, u.Holder.Fits) {
			held = append(held, d)
		}
	}
	switch {
	case len(held) == 1:
		return held[0].placed(u), true
	case len(held) == 0 && len(candidates) == 1:
		return candidates[0].placed(u), true
	case len(candidates) == 0 && u.Named.Board != "" && (at == nil || at.devices[u.Named.Board] == nil):
		return Placed{ID: u.Named.Board, Holder: u.Holder}, true // no exporter shows the device
	}
	return Placed{}, false
}

// leaves returns the instances and the boards without instances.
func (at *placedDevices) leaves() (leaves []*placedDevice) {
	if at == nil {
		return nil
	}
	cut := map[string]bool{}
	for _, d := range at.devices {
		cut[d.of.Parent] = true
	}
	for id, d := range at.devices {
		if !cut[id] {
			leaves = append(leaves, d)
		}
	}
	slices.SortFunc(leaves, func(a, b *placedDevice) int { return cmp.Compare(a.id, b.id) })
	return leaves
}

// isNamed reports whether an exporter may mean a device by what it names. The name of an instance is
// that of its board.
func (at *placedDevices) isNamed(d *placedDevice, n *gpudata.NamedDevice) bool {
	switch {
	case n.MIGUUID != "":
		return n.MIGUUID == d.of.MIGUUID
	case n.Board != "":
		return n.Board == d.id || n.Board == d.of.Parent
	case n.Name != "":
		board := at.devices[d.of.Parent]
		return n.Name == d.of.Name || board != nil && n.Name == board.of.Name
	}
	return true
}

// placed returns the device of a process. If one holder of the device fits the process, it completes
// the process's container.
func (d *placedDevice) placed(u *gpudata.Unplaced) Placed {
	h, n := u.Holder, 0
	for _, o := range d.holders {
		if u.Holder.Fits(o) {
			h = o
			n++
		}
	}
	if n != 1 {
		h = u.Holder
	}
	return Placed{ID: d.id, Of: d.of, Holder: h}
}

// sweep removes places without frames; mu is held.
func (p *Placement) sweep(now time.Time) {
	if since := now.Sub(p.swept); since >= 0 && since < p.hold {
		return
	}
	p.swept = now
	maps.DeleteFunc(p.places, func(_ gpudata.Place, at *placedDevices) bool { return now.Sub(at.seen) > retention })
}
