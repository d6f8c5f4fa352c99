package budget

import (
	"slices"
	"strings"
	"time"
)

// placeKey identifies a place; Cluster may be empty.
type placeKey struct{ cluster, name string }

// held is a device that somebody was given.
type held struct {
	device  Device // without what was measured
	holders []Container
	// seen is when it or, without it, a pod of its holders was there.
	seen time.Time
}

// recall adds the devices to the place that are not in its samples and are still held
// by a pod that is: it holds its devices until it ends, so what it uses or declares
// without naming one is not all on those that are left. Nothing is measured
// on them. It keeps who holds the others.
func (b *Book) recall(p *Place, now time.Time) {
	at := placeKey{p.Cluster, p.Name}
	known := b.held[at]
	var absent []*Device
	for id, h := range known {
		switch {
		case slices.ContainsFunc(p.Devices, func(d *Device) bool { return d.ID == id }):
		case now.Sub(h.seen) > retention:
			b.release(at, id)
		case slices.ContainsFunc(h.holders, p.gave):
			h.seen = now
			absent = append(absent, h.absent())
		}
	}
	for _, d := range p.Devices {
		b.hold(at, d, now)
	}
	p.Devices = append(p.Devices, absent...)
}

// gave reports whether a device of the place was given to the container's pod.
func (p *Place) gave(c Container) bool {
	return slices.ContainsFunc(p.Devices, func(d *Device) bool {
		return slices.ContainsFunc(d.Users, func(u *User) bool { return u.Holder && u.samePod(&c) })
	})
}

// absent is the device as far as it is known without samples.
func (h *held) absent() *Device {
	d := h.device
	d.Used, d.Limit, d.Free = Unknown, Unknown, Unknown
	for i := range h.holders {
		d.Users = append(d.Users, &User{Container: h.holders[i], Holder: true})
	}
	return &d
}

// hold keeps who holds a device, while there is room for it.
func (b *Book) hold(at placeKey, d *Device, now time.Time) {
	h := b.held[at][d.ID]
	if h != nil && h.same(d) {
		h.seen = now
		return
	}
	if h != nil {
		b.release(at, d.ID)
	}
	var holders []Container
	for _, u := range d.Users {
		if u.Holder {
			holders = append(holders, u.clone())
		}
	}
	if holders == nil || b.holders+len(holders) > b.MaxRows {
		return
	}
	if b.held == nil {
		b.held = map[placeKey]map[string]*held{}
	}
	if b.held[at] == nil {
		at = placeKey{strings.Clone(at.cluster), strings.Clone(at.name)}
		b.held[at] = map[string]*held{}
	}
	id := strings.Clone(d.ID)
	b.held[at][id] = &held{
		device: Device{
			ID: id, Board: strings.Clone(d.Board), MIGUUID: strings.Clone(d.MIGUUID), Instance: strings.Clone(d.Instance), Minor: d.Minor,
		},
		holders: holders, seen: now,
	}
	b.holders += len(holders)
}

// same reports whether the device has the holders that are kept, in their order.
func (h *held) same(d *Device) bool {
	n := 0
	for _, u := range d.Users {
		if !u.Holder {
			continue
		}
		if n == len(h.holders) || u.Container != h.holders[n] {
			return false
		}
		n++
	}
	return n == len(h.holders) && d.Minor == h.device.Minor && d.MIGUUID == h.device.MIGUUID
}

// release forgets who holds a device.
func (b *Book) release(at placeKey, id string) {
	b.holders -= len(b.held[at][id].holders)
	delete(b.held[at], id)
	if len(b.held[at]) == 0 {
		delete(b.held, at)
	}
}

// clone is independent of the batch that named the container.
func (c *Container) clone() Container {
	return Container{strings.Clone(c.Namespace), strings.Clone(c.Pod), strings.Clone(c.UID), strings.Clone(c.Name)}
}
